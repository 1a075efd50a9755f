"""Throughput of a server with chats that share a long system prompt. A program, for any server that has
OpenAI's chat completions with ignore_eos:

    python3 tests/server/throughput.py http://localhost:8080 [http://localhost:8081 ...]

With several servers they take turns, so that what disturbs the machine disturbs all alike.
"""

import argparse
import http.client
import json
import statistics
import threading
import time
import urllib.parse

TALE = ("A fox named {0} lived by a river with {1} friends. Every morning the fox went to the market and "
        "bought bread, apples and a small blue stone. ")


class Chat:
    """One streamed answer: when its first token came, and how many came."""

    def __init__(self, url, system, user, tokens):
        begun = time.monotonic()
        at = urllib.parse.urlsplit(url)
        connection = http.client.HTTPConnection(at.hostname, at.port, timeout=3600)
        body = {"model": "any", "messages": [{"role": "system", "content": system},
                                             {"role": "user", "content": user}],
                "max_tokens": tokens, "temperature": 1.0, "seed": 7, "ignore_eos": True, "stream": True,
                "stream_options": {"include_usage": True}}
        connection.request("POST", "/v1/chat/completions", json.dumps(body),
                           {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read().decode()
        self.first = None
        self.usage = None
        for line in answer:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            self.usage = event.get("usage") or self.usage
            # The first event of some servers has the role alone.
            delta = event["choices"][0]["delta"] if event["choices"] else {}
            if self.first is None and (delta.get("content") or delta.get("reasoning_content")):
                self.first = time.monotonic() - begun
        connection.close()
        assert self.usage["completion_tokens"] == tokens, self.usage


def round_of(url, chats, system, tokens, number):
    """Chats that begin together: tokens a second, the times to their first tokens, a prompt's tokens."""
    done, failures = [], []

    def one(i):
        try:
            done.append(Chat(url, system, f"Round {number}, chat {i}: tell me of the fox.", tokens))
        except Exception as failure:  # told below
            failures.append(failure)
    begun = time.monotonic()
    threads = [threading.Thread(target=one, args=(i,)) for i in range(chats)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    seconds = time.monotonic() - begun
    return chats * tokens / seconds, [chat.first for chat in done], done[0].usage["prompt_tokens"]


def main():
    parser = argparse.ArgumentParser(description="Throughput of chats with one system prompt")
    parser.add_argument("url", nargs="+")
    parser.add_argument("--chats", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--tales", type=int, default=34, help="sentences of the system prompt, in pairs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--known", action="store_true", help="all rounds have the system prompt of a round before")
    given = parser.parse_args()
    found = {url: ([], []) for url in given.url}

    def system_of(number):
        return "".join(TALE.format(f"Number {number}-{i}", i) for i in range(given.tales))
    if given.known:
        for url in given.url:
            round_of(url, given.chats, system_of(0), 1, -1)
    for number in range(given.rounds):
        for url in given.url:
            system = system_of(0 if given.known else number)
            rate, first, prompt = round_of(url, given.chats, system, given.tokens, number)
            found[url][0].append(rate)
            found[url][1].extend(first)
            print(f"{url}: round {number}, prompts of {prompt} tokens: {rate:.1f} tokens/s, first token after "
                  f"{statistics.median(first):.2f} s (median), {max(first):.2f} s (longest)", flush=True)
    for url, (rates, first) in found.items():
        print(f"{url}: median of {given.rounds} rounds of {given.chats} chats: {statistics.median(rates):.1f} "
              f"tokens/s, first token after {statistics.median(first):.2f} s")


if __name__ == "__main__":
    main()
