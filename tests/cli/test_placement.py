"""Which device computes what: -ngl, --cpu-moe, --n-cpu-moe, -ot; and what fits if a model does not."""

import json

import pytest
from program import ROOT, fails, infer

GOLDEN = ROOT / "tests" / "data" / "golden"
MODEL = GOLDEN / "gpt-oss-mxfp4.gguf"


def test_placements_on_the_cpu_alone():
    plan = json.loads(infer("plan", "-m", MODEL, "-ot", "exps=CPU,attn=cpu:0", "--json").stdout)
    assert plan["cpu_experts"] == 0 and plan["gpu_layers"] == 0
    fails(2, "plan", "-m", MODEL, "-ot", "exps", says="-ot: expected PATTERN=DEVICE, found 'exps'")
    fails(2, "plan", "-m", MODEL, "-ot", "=CPU", says="PATTERN=DEVICE")
    fails(2, "plan", "-m", MODEL, "-ot", "exps=", says="PATTERN=DEVICE")
    fails(2, "plan", "-m", MODEL, "-ot", "(=CPU", says="placement '(': not a regular expression")
    fails(2, "plan", "-m", MODEL, "-ot", "(a*)*zz=CPU", says="no tensor of the model has such a name")
    fails(2, "plan", "-m", MODEL, "-ot", "exps=CUDA0", says="the model is loaded on cpu;")
    fails(2, "plan", "-m", MODEL, "--n-cpu-moe", "-3", says="--n-cpu-moe")
    fails(2, "plan", "-m", MODEL, "--n-cpu-moe", "few", says="--n-cpu-moe: expected a number")


def test_a_pattern_that_never_ends_is_refused():
    fails(2, "plan", "-m", MODEL, "-ot", r"^(.+)+(.+)+(?:!|\?)=CPU", says="too many steps")


@pytest.mark.parametrize("flags,cpu,gpu", [
    (["--cpu-moe"], "experts of layers 0 to 1", "embedding, layers 0 to 1 without experts, output"),
    (["-ncmoe", 1], "experts of layer 0", "embedding, layer 0 without experts, layer 1, output"),
    (["-ot", r"blk\.1\.attn=CPU"], "attention of layer 1",
     "embedding, layer 0, feed-forward of layer 1, output"),
    (["-ngl", 0, "-ot", "exps=Vulkan0"], "embedding, layers 0 to 1 without experts, output",
     "experts of layers 0 to 1"),
])
def test_parts_on_a_gpu(tmp_path, flags, cpu, gpu):
    if "vulkan:0" not in [d["name"] for d in json.loads(infer("devices", "--json").stdout)]:
        pytest.skip("no Vulkan device")
    plan = json.loads(
        infer("plan", "-m", MODEL, "--device", "vulkan", *flags, "--json").stdout)
    assert [d["computes"] for d in plan["devices"]] == [cpu, gpu]
    assert plan["cpu_experts"] == (0 if "-ngl" in flags else cpu.startswith("experts") + ("to" in cpu))
    # The same text, whatever computes it.
    both = [infer("run", "-m", MODEL, "-p", "a", "-n", 6, "--temp", 0, "-q", *more).stdout
            for more in ([], ["--device", "vulkan", *flags])]
    assert both[0] == both[1]


def test_what_would_fit():
    done = infer("plan", "-m", MODEL, "--memory", "8M")
    assert done.returncode == 4
    said = done.stderr.decode()
    assert "the weights do not fit" in said and "it fits with --memory " in said
    enough = said.split("--memory ")[1].split()[0]
    assert infer("plan", "-m", MODEL, "--memory", enough).returncode == 0
    long = infer("plan", "-m", MODEL, "-c", 2**20, "--memory", "40M")
    assert long.returncode == 4 and b"tokens would fit" in long.stderr
