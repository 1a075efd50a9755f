"""infer plan: the expected speed, and GPUs that this machine does not have."""

import json

import pytest

from program import ROOT, fails, infer

GOLDEN = ROOT / "tests" / "data" / "golden"
MODEL = GOLDEN / "llama-q4_0.gguf"
# Small and quick to plan.
SMALL = ["-c", 256, "-t", 1]
MIB = 1 << 20


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    unknown = plan("--no-measure")["speed"]["unknown"]
    if "kernels" in unknown:
        pytest.skip(unknown)
    return tmp_path / "cache" / "infer" / "ceilings"


def plan(*arguments, model=MODEL):
    done = infer("plan", "-m", model, *SMALL, *arguments, "--json")
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def has_gpu_back_end():
    return infer("plan", "-m", MODEL, *SMALL, "--on", "RTX 4090").returncode == 0


needs_gpu_back_end = pytest.mark.skipif(not has_gpu_back_end(),
                                        reason="no back end for GPUs in this build")


def test_limits_are_measured_once(cache):
    first = plan()["speed"]
    assert first["unknown"] == "" and first["prompt_tokens"] == 256
    assert first["devices"][0]["source"] == "measured"
    for part in ("generation", "generation_full_context", "prompt"):
        assert 0 < first[part]["low"] < first[part]["high"]
    assert first["generation_full_context"]["high"] < first["generation"]["high"]
    kept = cache.read_text()
    plan()
    assert cache.read_text() == kept
    # What the file says counts, and nothing is measured again.
    key, bandwidth, *rates = kept.rstrip("\n").split("\t")
    cache.write_text("\t".join([key, "100.000", *rates]) + "\n")
    slow = plan("--no-measure")["speed"]
    cache.write_text("\t".join([key, "200.000", *rates]) + "\n")
    fast = plan()["speed"]
    assert fast["devices"][0]["read_bandwidth_gb_s"] == 200
    assert fast["generation"]["low"] == pytest.approx(2 * slow["generation"]["low"])
    assert fast["prompt"] == slow["prompt"]


def test_without_measuring_it_is_not_known(cache):
    speed = plan("--no-measure")["speed"]
    assert not cache.exists()
    assert speed["generation"] is speed["prompt"] is None
    assert speed["unknown"] == "the limits of cpu have not been measured"
    table = infer("plan", "-m", MODEL, *SMALL, "--no-measure").stdout.decode()
    assert "speed not known: " in table


def test_a_benchmark_tells_the_limits(cache):
    done = infer("bench", "-m", MODEL, "-p", 8, "-n", 2, "-r", 1, "-t", 1, "--json")
    report = json.loads(done.stdout)
    device = plan("--no-measure")["speed"]["devices"][0]
    assert device["source"] == "measured"
    for rate in ("read_bandwidth_gb_s", "int8_mac_g_s"):
        assert device[rate] == pytest.approx(report[rate], abs=0.001)


@pytest.mark.parametrize("content", ["", "rubbish", "\t\t\t", "\0" * 1000, "x" * 100000])
def test_a_damaged_file_of_limits_is_made_again(cache, content):
    cache.parent.mkdir(parents=True)
    cache.write_text(content)
    assert plan()["speed"]["devices"][0]["source"] == "measured"
    assert plan("--no-measure")["speed"]["devices"][0]["source"] == "measured"


def test_a_cache_folder_that_cannot_be_written_is_no_failure(cache, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    done = infer("plan", "-m", MODEL, *SMALL, "--json")
    assert done.returncode == 0 and done.stderr == b""
    assert json.loads(done.stdout)["speed"]["devices"][0]["source"] == "measured"


@pytest.mark.parametrize("flag", ["--exact", "--mmap", "--spill"])
def test_what_was_never_measured_is_not_estimated(cache, flag):
    speed = plan(flag)["speed"]
    assert speed["generation"] is None and speed["unknown"] != ""


def test_checking_says_the_speed_too(cache):
    report = plan("--check")
    assert "used" in report and report["speed"]["devices"][0]["source"] == "measured"


@needs_gpu_back_end
def test_a_gpu_that_is_not_here():
    report = plan("--on", "nvidia geforce RTX4090")
    # CUDA's if this build has it, otherwise the other back end for GPUs.
    backend = report["absent_device"].pop("backend")
    assert backend in ("cuda", "vulkan")
    assert plan("--on", "RX 7900 XTX")["absent_device"]["backend"] in ("vulkan", backend)
    assert report["absent_device"] == {
        "name": "RTX 4090", "prediction": True, "memory": 24 << 30, "read_bandwidth_gb_s": 1008,
        "float16_tflops": 165, "int8_tops": 661}
    assert report["device"] == "RTX 4090" and report["gpu_layers"] == report["layers"] + 1
    assert report["devices"][1]["device"] == "RTX 4090"
    assert 22 << 30 < report["devices"][1]["available"] < 24 << 30
    speed = report["speed"]
    assert speed["devices"] == [{"device": "RTX 4090", "source": "specification",
                                 "read_bandwidth_gb_s": 1008, "int8_mac_g_s": 330500,
                                 "prompt_mac_g_s": 82500}]
    assert "one GPU has been measured" in speed["note"]
    assert 0 < speed["generation"]["low"] < speed["generation"]["high"]
    table = infer("plan", "-m", MODEL, *SMALL, "--on", "rtx 4090").stdout.decode()
    assert "RTX 4090 is not present: a prediction" in table.splitlines()[0]
    assert "absent_device" not in plan("--no-measure")


@needs_gpu_back_end
def test_a_gpu_by_its_numbers():
    first = plan("--on", "24G,1000GB/s")
    assert first["speed"]["prompt"] is None and "arithmetic" in first["speed"]["note"]
    second = plan("--on", "24G,2000GB/s,330TFLOPS")
    assert second["speed"]["prompt"]["low"] > 0
    for part in ("generation", "generation_full_context"):
        assert second["speed"][part]["high"] == pytest.approx(2 * first["speed"][part]["high"])


@needs_gpu_back_end
def test_what_does_not_fit_stays_on_the_cpu(tmp_path, cache):
    model = tmp_path / "m.gguf"
    assert infer("synth", "llama-24m", model, "--type", "f16", "-q").returncode == 0
    report = plan("--on", "64M,500GB/s", "-b", 16, model=model)
    assert 0 < report["gpu_layers"] <= report["layers"]
    host, gpu = report["devices"]
    assert gpu["weights"] + gpu["kv"] + gpu["activations"] + gpu["scratch"] <= gpu["available"]
    assert host["weights"] > 0 and host["computes"]
    # Both compute: the times add up, so that more layers on the GPU are faster.
    speeds = [plan("--on", "1G,5000GB/s", "-ngl", n, model=model)["speed"] for n in (0, 2, 4, 99)]
    lows = [speed["generation"]["low"] for speed in speeds]
    assert lows == sorted(lows) and lows[0] < lows[-1]
    assert [len(speed["devices"]) for speed in speeds] == [1, 2, 2, 1]


@needs_gpu_back_end
def test_the_plan_is_that_of_a_device_of_the_kind():
    devices = json.loads(infer("devices", "--json").stdout)
    if not any(d["name"].startswith("vulkan") for d in devices):
        pytest.skip("vulkan: no such device here")
    for model in (MODEL, GOLDEN / "mixtral-f32.gguf"):
        present = plan("--device", "vulkan", "-ngl", "all", "--no-measure", model=model)
        absent = plan("--on", "24G,1000GB/s", model=model)
        for purpose in ("weights", "kv"):
            assert absent["devices"][1][purpose] == present["devices"][1][purpose]
        assert absent["devices"][1]["activations"] > 0


@needs_gpu_back_end
def test_wrong_devices():
    text = fails(5, "plan", "-m", MODEL, "--on", "RTX 4900", says="nearest names are")
    assert "RTX 4090" in text
    for wrong in ("24G,fast", "24G,", "G,1008GB/s", "24G,1008GB/s,330", "1,2,3,4,5"):
        fails(2, "plan", "-m", MODEL, "--on", wrong, says="expected")
    fails(2, "plan", "-m", MODEL, "--on", "RTX 4090", "--check", says="--check")
    fails(2, "plan", "-m", MODEL, "--on", "RTX 4090", "--device", "vulkan", says="--device")
    fails(2, "plan", "-m", MODEL, "--on", "")
    fails(3, "plan", "-m", "/nonexistent.gguf", "--on", "RTX 4090")
    text = fails(4, "plan", "-m", MODEL, "--on", "RTX 4090", "-c", 1 << 40)
    assert "--device" not in text and "-ngl" not in text
