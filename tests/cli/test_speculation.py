"""Speculative decoding from outside: the same text, what is said of it, and wrong flags."""

import json

import pytest

from program import ROOT, fails, infer

DEMO = ROOT / "app" / "demo" / "infer-demo.gguf"
DRAFT = DEMO.with_name("infer-demo-draft.gguf")
PROMPT = "Once upon a time there was a cat. Once upon a time there was a"


def good(*arguments, **options):
    done = infer(*arguments, **options)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode(), done.stderr.decode()


def text(*flags):
    done = good("run", "-m", DEMO, "-p", PROMPT, "-n", 150, "--ignore-eos", "--json", "-c", 512, *flags)
    return json.loads(done[0])


@pytest.mark.parametrize("sampling", [["--temp", 0], ["--temp", 0.8, "-s", 7]])
def test_every_drafter_gives_the_same_text(sampling):
    plain = text(*sampling)
    assert "speculation" not in plain
    for flags in (["--spec", "auto"], ["--spec", 6], ["--drafter", "ngram"], ["-md", DRAFT],
                  ["-md", DRAFT, "--spec", 3], ["-md", DRAFT, "--drafter", "ngram,suffix,model"]):
        drafted = text(*sampling, *flags)
        assert drafted["text"] == plain["text"], flags
        assert drafted["tokens"] == plain["tokens"], flags
        s = drafted["speculation"]
        assert 0 <= s["accepted"] <= s["drafted"]
        assert s["tokens"] <= 150
        assert sum(p["accepted"] for p in s["places"]) == s["accepted"]
        assert sum(n * l["steps"] for n, l in enumerate(s["lengths"])) == s["drafted"]
        assert sum(l["steps"] + l["accepted"] for l in s["lengths"]) == s["tokens"]
        assert all(a["accepted"] >= b["reached"] for a, b in zip(s["places"], s["places"][1:]))
    assert text(*sampling, "-md", DRAFT, "--spec", 3)["speculation"]["drafted"] > 30
    off = text(*sampling, "-md", DRAFT, "--spec", "off")
    assert off["text"] == plain["text"] and "speculation" not in off


def test_the_built_in_model_has_a_draft_model():
    done = good("run", "-p", PROMPT, "-n", 60, "--ignore-eos", "--temp", 0, "--spec", 4)
    assert "drafted" in done[1] and "accepted" in done[1]


def test_chat_says_what_was_drafted():
    done = good("chat", "--spec", 4, "--temp", 0, "--json", stdin=b"Tell me a story about a fox.\n")
    end = [json.loads(line) for line in done[0].splitlines()][-1]
    assert end["event"] == "end" and end["speculation"]["drafted"] > 0


def test_the_plan_has_a_line_for_the_draft_model():
    def total(*flags):
        done = good("plan", "-m", DEMO, "-c", 512, "--json", *flags)
        return json.loads(done[0])

    with_draft, without = total("-md", DRAFT), total()
    assert without["draft"] == 0 and with_draft["draft"] > DRAFT.stat().st_size / 2
    assert with_draft["total"] >= without["total"] + with_draft["draft"]
    # What both need does not fit where one of them just does.
    fails(4, "plan", "-m", DEMO, "-c", 512, "-md", DRAFT, "--memory", without["total"] + 4096)


def test_bench_compares_with_and_without(tmp_path):
    prompt = tmp_path / "prompt.txt"
    prompt.write_text(PROMPT)
    done = good("bench", "-m", DEMO, "-md", DRAFT, "-f", prompt, "-n", 50, "-r", 2, "--json")
    (result,) = json.loads(done[0])
    assert result["speedup"] > 0 and result["expected"] > 0
    # All of them: of the prompt, which the cache knows from the runs without, a step computes one row.
    assert result["speculation"]["tokens"] == 2 * 50
    table = good("bench", "-m", DEMO, "--drafter", "ngram", "-f", prompt, "-n", 50, "-r", 1)
    assert "expected" in table[0]


def test_wrong_flags_are_refused(tmp_path):
    prompt = ["-m", DEMO, "-p", "a", "-n", 3]
    for wrong in (["--spec", "some"], ["--spec", 0], ["--spec", -1], ["--drafter", "oracle"]):
        fails(2, "run", *prompt, *wrong)
    fails(3, "run", *prompt, "-md", tmp_path / "absent.gguf")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF")
    fails(3, "run", *prompt, "-md", broken)
    fails(2, "bench", "-m", DEMO, "-md", DRAFT)  # continues texts: one is needed
    fails(2, "bench", "-m", DEMO, "-f", __file__)  # and drafters
    fails(2, "run", *prompt, "--drafter", "model", says="-md")


def test_an_eagle3_head_is_recognised_as_draft_model():
    main = ROOT / "tests/data/golden/llama-f32.gguf"
    head = ROOT / "tests/data/heads/eagle3-llama-f32.gguf"
    run = lambda *flags: json.loads(good("run", "-m", main, "-p", "t5", "-n", 40, "--ignore-eos",
                                         "--temp", 0, "--json", "-c", 128, *flags)[0])
    drafted = run("-md", head, "--drafter", "model", "--spec", 3)
    assert drafted["tokens"] == run()["tokens"]
    assert drafted["speculation"]["drafted"] > 30
    assert "eagle3" in good("info", head)[0]
    fails(3, "run", "-m", head, "-p", "t5", says="draft")
    fails(3, "run", "-m", ROOT / "tests/data/bigram.gguf", "-md", head, "-p", "a",
          says="target_hidden_size")
