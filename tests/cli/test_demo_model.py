"""What the built-in model can do: how well it foresees held-out text, and 20 fixed questions."""

import json

from program import ROOT, infer, infer_typed

DATA = ROOT / "tests" / "data"
QUESTIONS = json.loads((DATA / "demo_questions.json").read_text(encoding="utf-8"))["questions"]
# 1.75 was measured; a model that has learnt nothing has one of hundreds.
MOST_PERPLEXITY = 2.2
FEWEST_ACCEPTABLE = 16


def acceptable(answer, contains):
    return all(any(x in answer for x in one.split("|")) for one in contains)


def ask(messages, tmp_path):
    """The answer to the last message of a conversation, as infer chat gives it."""
    *before, last = messages
    saved = tmp_path / "conversation.json"
    saved.write_text(json.dumps({"messages": before}))
    done = infer_typed("chat", "-q", "-t", 1, "--json", "--temp", 0, "-n", 300,
                       lines=[f"/load {saved}", last["content"]])
    assert done.returncode == 0, done.stderr.decode()
    events = [json.loads(line) for line in done.stdout.decode().splitlines()]
    return "".join(e["text"] for e in events if e["event"] == "content")


def test_it_foresees_held_out_text():
    done = infer("perplexity", "-q", "-t", 1, "--special", "-f", DATA / "demo_heldout.txt", "--json")
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    print(f"perplexity {found['perplexity']:.3f} of {found['tokens']} tokens")
    assert found["tokens"] > 1000
    assert found["perplexity"] < MOST_PERPLEXITY


def test_it_answers_the_questions(tmp_path):
    assert len(QUESTIONS) == 20
    report, good = [], 0
    for question in QUESTIONS:
        answer = ask(question["messages"], tmp_path)
        fine = acceptable(answer, question["contains"])
        good += fine
        report.append(f"{'acceptable' if fine else 'WRONG':10} {question['messages'][-1]['content']}"
                      f"\n           {answer!r}")
    report.append(f"{good} of {len(QUESTIONS)} answers are acceptable")
    print("\n".join(report))
    assert good >= FEWEST_ACCEPTABLE, "\n".join(report)
    assert ask(QUESTIONS[0]["messages"], tmp_path) == ask(QUESTIONS[0]["messages"], tmp_path)


def test_the_judge_wants_every_part():
    assert acceptable("It is Paris.", ["Paris"]) and acceptable("b", ["a|b"])
    assert not acceptable("paris", ["Paris"])
    assert not acceptable("only an apple", ["apple", "and"])
