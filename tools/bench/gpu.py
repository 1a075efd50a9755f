"""The work of gpu.sh."""

import array
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

GOLDEN = pathlib.Path("tests/data/golden")
# Normalised squared error of logits with --exact, as in the tests of other devices, and without.
LIMIT = 1e-10
LIMIT_ROUNDED = 1e-3
# Characters that texts without --exact begin alike with, at least.
ALIKE = 32
PROMPT = "What can infer do?"
# Raw text, which the model goes on with for as long as it is let.
TEXT = "infer is"
# Seconds. What time runs out for is left out: the longer checks, which come last.
ALL = 520
# Of one small model.
MOST_OF_SMALL = 20
NO_DEVICE = 5

started = time.monotonic()
wrong = []
left_out = []


def left():
    return ALL - (time.monotonic() - started)


def run(*command, most=None, **options):
    """Of a command: exit code, stdout, stderr. 124: not done in time."""
    try:
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True,
                              timeout=max(1, min(most or ALL, left())), **options)
    except subprocess.TimeoutExpired:
        return 124, "", "not done in time"
    return done.returncode, done.stdout, done.stderr


def say(text):
    print(f"[{time.monotonic() - started:4.0f} s] {text}", flush=True)


def judge(what, right, why=""):
    say(f"{what}: {'ok' if right else 'WRONG ' + why}")
    if not right:
        wrong.append(what)


def choose(infer, wanted):
    code, out, err = run(infer, "devices", "--json")
    if code != 0:
        sys.exit(f"infer devices: {err}")
    known = [d for d in json.loads(out) if not d["unusable"]]
    if wanted:
        return wanted.split(",")
    software = ("llvmpipe", "lavapipe", "SwiftShader")
    if shutil.which("nvidia-smi") and run("nvidia-smi", "-L")[0] == 0:
        judge("cuda: infer devices lists a GPU that it can use",
              any(d["name"].startswith("cuda") for d in known), err.strip())
    found = []
    for kind in ("cuda", "vulkan"):
        of_kind = [d["name"] for d in known if d["name"].startswith(kind)
                   and not any(s in d["description"] for s in software)]
        found += of_kind[:1]
    if not found:
        print("no GPU: infer devices lists none that CUDA or Vulkan can use.", file=sys.stderr)
        for line in err.splitlines():
            print(line, file=sys.stderr)
        print("A processor's driver is measured if it is named: -D vulkan:0", file=sys.stderr)
        sys.exit(1 if wrong else NO_DEVICE)
    return found


def floats(path):
    values = array.array("f")
    values.frombytes(pathlib.Path(path).read_bytes())
    return values


def error_of(found, expected):
    if len(found) != len(expected):
        return float("inf")
    off = sum((a - b) ** 2 for a, b in zip(found, expected))
    return off / sum(b * b for b in expected)


def check_golden(infer, device, folder, exact):
    """Until one of them takes too long: then the others would too."""
    worst, done, failed = 0, 0, []
    limit, flags = (LIMIT, ["--exact"]) if exact else (LIMIT_ROUNDED, ["-ctk", "f16", "-ctv", "f16"])
    how = "--exact" if exact else "rounded"
    models = [about for about in sorted(GOLDEN.glob("*.json"))
              if about.with_suffix(".gguf").exists() and about.with_suffix(".f32").exists()]
    for about in models:
        reference = about.with_suffix(".f32")
        model = about.with_suffix(".gguf")
        if left() < MOST_OF_SMALL:
            break
        tokens = json.loads(about.read_text())["tokens"]
        expected = floats(reference)
        logits = f"{folder}/logits.f32"
        code, _, err = run(infer, "eval", "-m", model, "--tokens", ",".join(map(str, tokens)),
                           "--logits", logits, "--device", device, *flags, most=MOST_OF_SMALL)
        error = error_of(floats(logits), expected) if code == 0 else float("inf")
        done += 1
        worst = max(worst, error)
        if not error <= limit:
            failed.append(f"{about.stem} ({error:.1e}{': ' + err.strip() if code else ''})")
        if code == 124:
            break
    if done < len(models):
        left_out.append(f"{len(models) - done} golden models on {device}, {how}")
    if done > 0:
        judge(f"{device}: {done} golden models, {how}, largest error {worst:.1e}", not failed,
              ", ".join(failed))


def texts_of(infer, device, *flags):
    """An answer and a longer text of the built-in model; an exit code that is not 0 and why."""
    texts = []
    for command in (["chat", "-p", PROMPT, "-st"], ["run", "-p", TEXT]):
        code, out, err = run(infer, *command, "-n", 96, "--temp", 0, *flags, "--device", device,
                             most=40)
        if code != 0 or not out.strip():
            return texts, code or 1, err
        texts.append(out)
    return texts, 0, ""


def check_text(infer, device):
    expected, code, err = texts_of(infer, "cpu", "--exact")
    if code != 0:
        judge("cpu: trained model's text", False, err)
        return
    found, code, err = texts_of(infer, device, "--exact")
    judge(f"{device}: trained model's text is the CPU's (--exact)", code == 0 and found == expected,
          err or f"{found} instead of {expected}")
    found, code, err = texts_of(infer, device)
    alike = [a[:ALIKE] == b[:ALIKE] for a, b in zip(found, expected)]
    judge(f"{device}: rounded, its texts begin like the CPU's", code == 0 and all(alike),
          err or f"{found} instead of {expected}")


def check_sanitizer(infer, device):
    """What is computed by default: a prompt, and tokens after it."""
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        tool = shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if tool is None:
        left_out.append("compute-sanitizer, which is not installed")
        return
    for kind in ("memcheck", "racecheck"):
        for model in ("llama-q4_0", "llama-q4_k"):
            path = GOLDEN / f"{model}.gguf"
            if not path.exists():
                continue
            if left() < MOST_OF_SMALL:
                left_out.append(f"{kind} of {model}")
                continue
            code, out, err = run(tool, "--tool", kind, "--error-exitcode", 9, infer, "run", "-m", path,
                                 "-p", TEXT, "-n", 4, "--temp", 0, "--ignore-eos", "--device", device, most=60)
            if code == 124:
                left_out.append(f"{kind} of {model}, which took too long")
                continue
            last = (out + err).strip().splitlines()[-1:]
            judge(f"{device}: compute-sanitizer {kind}, {model}", code == 0, " ".join(last))


def measure(infer, device, file, rows, name):
    code, out, err = run(infer, "bench", "-m", file, "--device", device, "-p", 2048, "-n", 64, "-r",
                         2, "--json", most=100)
    if code == 124:
        left_out.append(f"bench of {name} on {device}, which took too long")
        return
    if code != 0:
        judge(f"{device}: bench of {name}", False, err.strip())
        return
    report = json.loads(out)
    code, out, _ = run(infer, "plan", "-m", file, "--device", device, "--json", "--no-measure",
                       most=20)
    speed = json.loads(out).get("speed", {}) if code == 0 else {}
    expected = {"prefill": speed.get("prompt"), "decode": speed.get("generation")}
    for phase in ("prefill", "decode"):
        part = report[phase]
        span = expected[phase] or {}
        predicted = (f"{span['low']:.0f} to {span['high']:.0f}" if span.get("high") else "–")
        rows.append((name, device, f"{phase} {part['tokens']}",
                     f"{part['tokens_per_s']:.1f} ± {part['spread']:.1%}", predicted,
                     f"{part['fraction']:.1%}"))
    rates = [f"{report['read_bandwidth_gb_s']:.0f} GB/s", f"{report['int8_mac_g_s']:.0f} G MAC/s"]
    if report.get("prompt_mac_g_s"):
        rates.append(f"{report['prompt_mac_g_s']:.0f} G MAC/s of matrices")
    rows.append((name, device, "measured limits", ", ".join(rates), "", ""))


def measure_host_layers(infer, device, file, rows, name):
    """A prompt through layers that stay on the CPU, computed by the GPU and by the CPU."""
    for flag, who in (("--stream-weights", "by the GPU"), ("--no-stream-weights", "by the CPU")):
        code, out, err = run(infer, "bench", "-m", file, "--device", device, "-ngl", 1, flag, "-p", 512,
                             "-n", 0, "-r", 1, "--json", most=100)
        if code == 124:
            left_out.append(f"a prompt of {name} through layers on the CPU, {who}, which took too long")
            continue
        if code != 0:
            judge(f"{device}: bench of {name} with layers on the CPU", False, err.strip())
            return
        part = json.loads(out)["prefill"]
        rows.append((name, device, f"prefill {part['tokens']}, all layers on the CPU, {who}",
                     f"{part['tokens_per_s']:.1f}", "–", "–"))


def main():
    infer, wanted, models = sys.argv[1:]
    infer = str(pathlib.Path(infer).resolve())
    devices = choose(infer, wanted)
    print(run(infer, "devices")[1])
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for device in devices:
            check_text(infer, device)
        for model in models.split(","):
            shape, _, kind = model.partition(":")
            file = f"{folder}/{shape}-{kind}.gguf"
            code, _, err = run(infer, "synth", shape, file, "--type", kind, "-q")
            if code == 124:
                left_out.append(f"{model}, which took too long to make")
                continue
            if code != 0:
                judge(f"synth {model}", False, err.strip())
                continue
            for device in devices:
                if left() < 40:
                    left_out.append(f"{model} on {device}")
                    continue
                measure(infer, device, file, rows, model)
                if left() > 60:
                    measure_host_layers(infer, device, file, rows, model)
            pathlib.Path(file).unlink()
        for device in devices:
            check_golden(infer, device, folder, exact=False)
            if device.startswith("cuda"):
                check_sanitizer(infer, device)
        for device in devices:
            code, out, err = run(infer, "selftest", "--device", device, most=90)
            if code == 124:
                left_out.append(f"a part of selftest on {device}")
            else:
                judge(f"{device}: selftest", code == 0, (out + err)[-2000:])
            check_golden(infer, device, folder, exact=True)
    print("\n| model | device | test | tokens/s | predicted | of the limit |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    for what in left_out:
        print(f"left out: {what}")
    print("wrong: " + "; ".join(wrong) if wrong else "nothing is wrong")
    return 1 if wrong else 0


sys.exit(main())
