"""infer bundle: the program and a model in one executable file."""

import hashlib
import json
import os
import pathlib
import resource
import shutil
import stat
import subprocess
import sys

import pytest

from program import INFER, ROOT, fails, infer

GOLDEN = ROOT / "tests" / "data" / "golden"
MODEL = GOLDEN / "llama-q4_0.gguf"
DEMO = ROOT / "app" / "demo" / "infer-demo.gguf"
FOOTER = 256
RUN = ["run", "-p", "Once", "-n", 8, "--temp", 0, "-s", 1, "-q"]


def call(program, *arguments, stdin=b"", **options):
    return subprocess.run([program, *map(str, arguments)], input=stdin, capture_output=True,
                          timeout=120, **options)


def bundled(model, path, *arguments, program=INFER):
    done = call(program, "bundle", model, path, "--json", *arguments)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A bundle of the golden model, and what was said when it was made."""
    path = tmp_path_factory.mktemp("bundle") / "assistant"
    return path, bundled(MODEL, path)


def test_the_file(made):
    path, said = made
    program, model, data = (p.read_bytes() for p in (pathlib.Path(INFER), MODEL, path))
    assert said["bundle"] == str(path) and said["name"] == MODEL.name
    assert said["program_bytes"] == len(program) and said["bytes"] == len(model)
    assert said["offset"] % 65536 == 0 and said["offset"] - len(program) < 65536
    assert data.startswith(program)
    assert data[said["offset"]:-FOOTER] == model
    assert said["sha256"] == hashlib.sha256(model).hexdigest()
    mode = stat.S_IMODE(path.stat().st_mode)
    assert (mode & 0o444) >> 2 == mode & 0o111 and os.access(path, os.X_OK)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_it_computes_what_the_model_computes(made):
    path, _ = made
    expected = infer(*RUN, "-m", MODEL)
    assert expected.returncode == 0 and expected.stdout
    for done in (call(path, *RUN), call(path, *RUN, "--mmap"), infer(*RUN, "-m", path)):
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout == expected.stdout and b"built-in" not in done.stderr
    # Another model is another model.
    assert call(path, *RUN, "-m", DEMO).stdout == infer(*RUN, "-m", DEMO).stdout


def test_commands_take_the_model_in_it(made):
    path, said = made
    for program, arguments in ((path, []), (INFER, [path])):
        report = json.loads(call(program, "info", *arguments, "--json").stdout)
        assert report["weight_bytes"] > 0 and report["path"].endswith(MODEL.name)
    tokens = infer("tokenize", "-m", MODEL, "-p", "a b c", "--json").stdout
    assert call(path, "tokenize", "-p", "a b c", "--json").stdout == tokens
    plan = json.loads(call(path, "plan", "-c", 64, "--no-measure", "--json").stdout)
    assert plan["weights"] == json.loads(
        infer("plan", "-m", MODEL, "-c", 64, "--no-measure", "--json").stdout)["weights"]
    copied = path.with_name("copied.gguf")
    assert infer("quantize", path, copied, "COPY").returncode == 0
    copied.unlink()
    report = json.loads(call(path, "bench", "-p", 4, "-n", 2, "-r", 1, "-t", 1, "--json").stdout)
    assert report["model"].endswith(MODEL.name)


def test_without_arguments_it_converses(tmp_path):
    path = tmp_path / "demo"
    bundled(DEMO, path)
    done = call(path, stdin=b"Hello\n")
    assert done.returncode == 0 and done.stdout.strip(), done.stderr.decode()
    assert b"built-in" not in done.stderr
    script = ["-q", "--temp", 0, "-n", 12]
    assert (call(path, "chat", *script, stdin=b"Hello\n").stdout ==
            infer("chat", *script, stdin=b"Hello\n").stdout)


def test_the_program_itself_is_as_before():
    done = infer()
    assert done.returncode == 2 and b"no command given" in done.stderr
    assert b"this is the built-in one" in infer(*[a for a in RUN if a != "-q"]).stderr
    fails(2, "info", says="-m")


def test_a_bundle_of_a_bundle_has_the_other_model(made, tmp_path):
    path, said = made
    second = bundled(DEMO, tmp_path / "second", program=path)
    assert second["program_bytes"] == said["program_bytes"] and second["name"] == DEMO.name
    assert (tmp_path / "second").stat().st_size == second["offset"] + DEMO.stat().st_size + FOOTER
    # The model may come from a bundle as well.
    bundled(path, tmp_path / "third", program=tmp_path / "second")
    assert (tmp_path / "third").read_bytes() == path.read_bytes()


def test_two_bundles_of_one_name_are_two_models(made, tmp_path):
    path, _ = made
    other = tmp_path / "folder" / MODEL.name
    other.parent.mkdir()
    shutil.copy(DEMO, other)
    bundled(other, tmp_path / "other")
    report = json.loads(infer("bench", "-m", path, "-m", tmp_path / "other", "-p", 4, "-n", 2, "-r",
                              1, "-t", 1, "--json").stdout)
    sizes = [m["weights_bytes"] for m in report["models"]]
    assert len(set(sizes)) == 2


def test_what_is_no_model_is_refused(tmp_path):
    out = tmp_path / "out"
    fails(3, "bundle", GOLDEN / "hf-nf4", out, says="infer convert")
    fails(3, "bundle", next((GOLDEN / "hf-nf4").glob("*.safetensors")), out, says="expected a GGUF")
    fails(3, "bundle", tmp_path / "absent.gguf", out, says="absent.gguf")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(MODEL.read_bytes()[:1000])
    fails(3, "bundle", broken, out, says="broken.gguf")
    (tmp_path / "empty.gguf").write_bytes(b"")
    fails(3, "bundle", tmp_path / "empty.gguf", out, says="expected a GGUF")
    fails(3, "bundle", "/dev/null", out)
    if os.geteuid() != 0:
        broken.chmod(0)
        fails(3, "bundle", broken, out, says="cannot open")
    fails(2, "bundle", MODEL, says="the file to write")
    assert not out.exists()


def test_a_split_model_is_joined_first(tmp_path):
    pytest.importorskip("numpy")
    sys.path.insert(0, str(ROOT))
    from tests.golden.reference import gguf
    metadata, tensors = gguf.read(GOLDEN / "llama-f32.gguf")
    names = list(tensors)
    parts = [tmp_path / f"m-0000{i}-of-00002.gguf" for i in (1, 2)]
    for i, part in enumerate(parts):
        keys = {"split.no": i, "split.count": 2, "split.tensors.count": len(names)}
        # Nearly all are in the first, which is then larger than what the second has.
        own = names[:-1] if i == 0 else names[-1:]
        gguf.write(part, metadata | keys, {name: tensors[name] for name in own})
    out = tmp_path / "out"
    fails(3, "bundle", parts[0], out, says="one of several files")
    fails(3, "bundle", parts[1], out, says="part 2 of 2")
    assert not out.exists()
    whole = tmp_path / "whole.gguf"
    assert infer("quantize", parts[0], whole, "COPY").returncode == 0
    bundled(whole, out)


def test_the_output_is_never_an_input(made, tmp_path):
    model = tmp_path / "m.gguf"
    shutil.copy(MODEL, model)
    (tmp_path / "link").symlink_to(model)
    for out in (model, tmp_path / "link"):
        fails(2, "bundle", model, out, says="is the input")
    bundle = tmp_path / "bundle"
    shutil.copy(made[0], bundle)
    fails(2, "bundle", bundle, bundle, says="is the input")
    done = call(bundle, "bundle", model, bundle)
    assert done.returncode == 2 and b"is the input" in done.stderr
    fails(2, "eval", "-m", bundle, "--tokens", "1,2", "--logits", bundle, says="is the input")
    assert bundle.read_bytes() == made[0].read_bytes() and model.read_bytes() == MODEL.read_bytes()


def test_a_full_disk_leaves_what_was_there(tmp_path):
    def full():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    out = tmp_path / "out"
    out.write_bytes(b"old")
    fails(1, "bundle", MODEL, out, says="cannot write", preexec_fn=full)
    assert out.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["out"]
    fails(1, "bundle", MODEL, tmp_path / "absent" / "out", says="there is no folder")
    fails(1, "bundle", MODEL, tmp_path, says="regular file")


def damaged(made, tmp_path, change):
    path = tmp_path / "damaged"
    data = bytearray(made[0].read_bytes())
    path.write_bytes(change(data))
    path.chmod(0o755)
    return path


def flip(at):
    def change(data):
        data[at] ^= 0x20
        return data
    return change


@pytest.mark.parametrize("change", [
    *(flip(-FOOTER + at) for at in (0, 8, 16, 24, 32, 40, 60, 120, 200, 250)),
    lambda data: data[:-1], lambda data: data[:-FOOTER], lambda data: data[:-FOOTER - 100],
    lambda data: data + b"more", lambda data: data[:-100] + b"\0" * 100])
def test_a_damaged_end_is_said(made, tmp_path, change):
    path = damaged(made, tmp_path, change)
    for arguments in ([], RUN, ["info"], ["bundle", DEMO, tmp_path / "out"]):
        done = call(path, *arguments)
        assert done.returncode == 3, (arguments, done)
        assert b"damaged or missing" in done.stderr and done.stdout == b""
    fails(3, "info", path, says="damaged or missing")
    # What needs no model works.
    assert call(path, "version").returncode == 0
    assert call(path, *RUN, "-m", DEMO).returncode == 0


def test_the_model_can_be_checked(made, tmp_path):
    path, said = made
    assert json.loads(infer("bundle", path, "--check", "--json").stdout)["sha256"] == said["sha256"]
    assert b"is whole" in infer("bundle", path, "--check").stdout
    wrong = damaged(made, tmp_path, flip(said["offset"] + 5000))
    fails(3, "bundle", wrong, "--check", says="the model in it is damaged")
    fails(3, "bundle", MODEL, "--check", says="has no model in it")
    fails(2, "bundle", path, tmp_path / "out", "--check", says="writes nothing")
