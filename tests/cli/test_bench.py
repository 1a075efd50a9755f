"""infer bench: what it measures, its JSON, the profile and the trace."""

import json

import pytest

from program import ROOT, fails, infer

MODEL = ROOT / "tests" / "data" / "golden" / "llama-q4_0.gguf"
TINY = ["-p", 8, "-n", 4, "-r", 2]
# One thread: what the machine can do is measured on all of them, each for as long.
SMALL = [*TINY, "-t", 1]
TOP = {"model", "device", "threads", "read_bandwidth_gb_s", "int8_mac_g_s", "large_page_bytes", "streams",
       "weights_bytes", "prefill", "decode", "energy"}
# Where the system tells them, with the power.
POWER = {"watts", "joules_per_token"}
RATE = {"tokens", "tokens_per_s", "spread", "fraction"}


def bench(*arguments):
    done = infer("bench", "-m", MODEL, *arguments, "--json")
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def test_a_single_measurement_has_the_fields_that_scripts_know():
    report = bench(*SMALL)
    assert set(report) == TOP
    assert report["streams"] in (1, 2, 4)
    for phase in ("prefill", "decode"):
        assert set(report[phase]) - POWER == RATE


def test_lists_are_measured_in_every_combination():
    report = bench("-p", "4,8", "-n", "2,3", "-d", "0,70", "-b", "1,3", "-r", 1, "-t", 1)
    assert TOP < set(report)
    assert [r["test"] for r in report["results"]] == [
        name for depth in ("", "@d70")
        for name in (*(f"pp{p}{depth}" for p in (4, 8)),
                     *(f"tg{n}{depth}{b}" for b in ("", " b3") for n in (2, 3)))]
    assert report["prefill"]["tokens"] == 4 and report["decode"]["tokens"] == 2
    for result in report["results"]:
        assert result["tokens_per_s"] > 0 and result["fraction"] >= 0
        assert result["tokens_per_s_per_sequence"] * result["batch"] == pytest.approx(
            result["tokens_per_s"])
        assert result["bound"] in ("none", "bandwidth", "arithmetic")


def test_energy_where_the_system_tells():
    report = bench("-p", 64, "-n", 64, "-r", 20, "-t", 1)
    assert set(report["energy"]) == {"sources", "unknown"}
    for phase in ("prefill", "decode"):
        told = report[phase]
        # Measurements that are too short have none.
        assert not POWER & set(told) or report["energy"]["sources"]
        if POWER <= set(told):
            assert told["joules_per_token"] == pytest.approx(told["watts"] / told["tokens_per_s"])


def test_models_are_measured_beside_each_other(tmp_path):
    other = tmp_path / "other.gguf"
    assert infer("synth", "custom", other, "--layers", 1, "--embedding", 64, "--feed-forward", 96,
                 "--heads", 2, "--tokens", 300, "-q").returncode == 0
    report = bench("-m", other, *SMALL)
    assert [m["model"] for m in report["models"]] == [str(MODEL), str(other)]
    assert [(r["test"], r["model"]) for r in report["results"]] == [
        (test, str(model)) for test in ("pp8", "tg4") for model in (MODEL, other)]
    assert report["weights_bytes"] == report["models"][0]["weights_bytes"]


def test_the_table():
    done = infer("bench", "-m", MODEL, "-p", "8", "-n", "4", "-b", "1,2", "-d", "0,70", "-r", 1,
                 "-t", 2)
    assert done.returncode == 0
    lines = done.stdout.decode().splitlines()
    shown = [line[2:].split("  ")[0] for line in lines[3:] if line.startswith("  ")]
    assert shown == ["pp8", "tg4", "tg4 b2", "pp8@d70", "tg4@d70", "tg4@d70 b2"]


def test_profile():
    report = bench(*SMALL, "--profile")
    for phase in ("prefill", "decode"):
        operations = report[phase]["profile"]
        assert sum(o["share"] for o in operations) == pytest.approx(1)
        names = " ".join(o["name"] for o in operations)
        for part in ("matmul(", "attention", "output", "attn_q", "host: sample"):
            assert part in names
        products = [o for o in operations if "attn_q" in o["name"]]
        assert all(o["bytes"] > 0 and o["macs"] > 0 and o["calls"] > 0 for o in products)
        assert all(o["seconds"] >= 0 for o in operations)
    macs = {phase: sum(o["macs"] for o in report[phase]["profile"] if "attn_q" in o["name"])
            for phase in ("prefill", "decode")}
    assert macs["prefill"] * (1 + 4) == macs["decode"] * 8
    assert report["decode"]["dispatches_per_step"] == report["decode"]["barriers_per_step"] == 0
    done = infer("bench", "-m", MODEL, *SMALL, "--profile")
    assert "where the time of pp8 went" in done.stdout.decode()


def test_profile_counts_dispatches():
    devices = json.loads(infer("devices", "--json").stdout)
    if not any(d["name"].startswith("vulkan") for d in devices):
        pytest.skip("vulkan: no such device here")
    report = bench(*SMALL, "--profile", "--device", "vulkan")
    for phase in ("prefill", "decode"):
        operations = report[phase]["profile"]
        products = [o for o in operations if "attn_q" in o["name"]]
        assert all(o["dispatches"] >= o["calls"] for o in products)
        assert 0 < report[phase]["barriers_per_step"] < report[phase]["dispatches_per_step"]
        # Every step is submitted as it was recorded.
        assert report[phase]["dispatches_per_step"] == int(report[phase]["dispatches_per_step"])


def spans_of(trace):
    """Complete events by thread, in the order of their starts, the longest first."""
    spans = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            assert event["ts"] >= 0 and event["dur"] >= 0
            spans.setdefault(event["tid"], []).append(event)
    for events in spans.values():
        events.sort(key=lambda e: (e["ts"], -e["dur"]))
    return spans


def test_trace(tmp_path):
    path = tmp_path / "trace.json"
    bench(*TINY, "-t", 2, "--trace", path)
    assert [p.name for p in tmp_path.iterdir()] == ["trace.json"]
    trace = json.loads(path.read_text())
    named = {e["tid"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    spans = spans_of(trace)
    assert named == set(spans) == {0, 1}
    rounding = 0.0015  # µs: three decimals of start and length
    for events in spans.values():
        stack = []
        for event in events:
            while stack and stack[-1]["ts"] + stack[-1]["dur"] <= event["ts"] + rounding:
                stack.pop()
            end = event["ts"] + event["dur"]
            assert all(end <= outer["ts"] + outer["dur"] + rounding for outer in stack), event
            stack.append(event)
    parts = ["schedule", "inputs", "compute", "results", "sample"]
    steps = [e for e in spans[0] if e["name"].endswith(" rows")]
    assert len(steps) == 1 + (1 + 4)  # a prompt; a first token and those measured
    for step in steps:
        end = step["ts"] + step["dur"]
        inside = [e for e in spans[0] if e["name"] in parts and step["ts"] <= e["ts"] <= end]
        inside = inside[:len(parts)]
        assert sorted(e["name"] for e in inside) == sorted(parts)
        assert sum(e["dur"] for e in inside) == pytest.approx(step["dur"], abs=10 * rounding)


def test_sequences_of_a_batch_share_every_step(tmp_path):
    path = tmp_path / "trace.json"
    bench(*SMALL, "-b", 3, "-d", 70, "--trace", path)
    steps = [e["name"] for e in spans_of(json.loads(path.read_text()))[0]
             if e["name"].endswith(" rows")]
    assert steps == ["prefill 8 at 70: 8 rows"] + 5 * ["decode 4 at 70: 3 rows"]


def test_a_trace_replaces_regular_files_alone(tmp_path):
    (tmp_path / "folder").mkdir()
    fails(1, "bench", "-m", MODEL, *SMALL, "--trace", tmp_path / "folder", says="regular file")
    fails(1, "bench", "-m", MODEL, *SMALL, "--trace", tmp_path / "absent" / "t.json",
          says="absent")


@pytest.mark.parametrize("arguments, says", [
    (["-p", "8,x"], "x"),
    (["-p", "0", "-n", "0"], "nothing to measure"),
    (["-b", "0"], "0"),
    (["-d", "-1"], "-1"),
    (["-p", "8", "9"], "9"),
])
def test_wrong_lists(arguments, says):
    fails(2, "bench", "-m", MODEL, *arguments, says=says)


def test_a_context_too_small_is_said():
    fails(4, "bench", "-m", MODEL, "-p", 8, "-n", 200, "-c", 64, "-r", 1, says="context")
    fails(4, "bench", "-m", MODEL, "-p", 200, "-n", 2, "-c", 64, "-r", 1, says="context")


def test_what_is_not_measured_with_drafters_is_refused(tmp_path):
    text = tmp_path / "text"
    text.write_text("t3 t4 t5 " * 20)
    drafting = ["bench", "-m", MODEL, "--drafter", "ngram", "-f", text, "-r", 1]
    for arguments in (["-p", 8], ["-d", 64], ["-b", 2], ["-n", "4,8"], ["--profile"],
                      ["--trace", tmp_path / "trace"], ["-m", MODEL]):
        fails(2, *drafting, *arguments, says="with drafters")
    assert not (tmp_path / "trace").exists()
    fails(2, "bench", "-m", MODEL, "--drafter", "ngram", says="at least one -f FILE")
    assert infer(*drafting, "-n", 4, "-p", 0).returncode == 0
