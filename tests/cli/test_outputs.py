"""Files that commands write: never in place of what they read, in full or not at all."""

import fcntl
import os
import shutil

import pytest

from program import ROOT, fails, infer

GOLDEN = ROOT / "tests" / "data" / "golden"


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "m.gguf"
    shutil.copy(GOLDEN / "llama-f32.gguf", path)
    return path


def test_logits_never_replace_what_is_read(model, tmp_path):
    before = model.read_bytes()
    hard, soft = tmp_path / "hard.gguf", tmp_path / "soft.gguf"
    os.link(model, hard)
    soft.symlink_to(model)
    for name in (model, hard, soft, tmp_path / "." / "m.gguf"):
        fails(2, "eval", "-m", model, "--tokens", "1,2", "--logits", name, says="is the input")
    tokens = tmp_path / "tokens"
    tokens.write_text("1,2")
    fails(2, "eval", "-m", model, "--tokens-file", tokens, "--logits", tokens, says="--logits")
    fails(2, "eval", "-m", model, "-md", hard, "--tokens", "1", "--logits", hard, says="--logits")
    assert model.read_bytes() == before and tokens.read_text() == "1,2"


def test_a_link_to_no_file_yet_leads_to_its_target(model, tmp_path):
    (tmp_path / "other").mkdir()
    link, second = tmp_path / "link", tmp_path / "second"
    second.symlink_to(tmp_path / "other" / "logits")
    link.symlink_to("second")
    done = infer("eval", "-m", model, "--tokens", "1,2", "--logits", link)
    assert done.returncode == 0, done.stderr.decode()
    assert link.is_symlink() and second.is_symlink()
    assert (tmp_path / "other" / "logits").stat().st_size > 0
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    assert infer("eval", "-m", model, "--tokens", "1,2", "--logits", loop).returncode != 0
    assert loop.is_symlink()


def test_no_output_replaces_an_input(model, tmp_path):
    text = tmp_path / "text"
    text.write_text("t3 t4 " * 400)
    before = model.read_bytes()
    for arguments in (["quantize", model, model, "q8_0"],
                      ["imatrix", "-m", model, "-f", text, "-o", model],
                      ["imatrix", "-m", model, "-f", text, "-o", text],
                      ["perplexity", "-m", model, "-f", text, "--save-base", model],
                      ["perplexity", "-m", model, "-f", text, "--save-base", text],
                      ["bench", "-m", model, "-p", 4, "-n", 1, "-r", 1, "--trace", model],
                      ["synth", "custom", model, "--vocab", model]):
        fails(2, *arguments, says="is the input")
    assert model.read_bytes() == before
    imatrix = tmp_path / "i.gguf"
    imatrix.write_bytes(b"anything")
    fails(2, "quantize", model, imatrix, "q8_0", "--imatrix", imatrix, says="is the input")


def test_no_output_replaces_a_file_of_a_directory(tmp_path):
    folder = tmp_path / "hf"
    shutil.copytree(GOLDEN / "hf-nf4", folder)
    for name in ("config.json", "model.safetensors"):
        fails(2, "convert", folder, folder / name, says="is the input")
        fails(2, "eval", "-m", folder, "--tokens", "1", "--logits", folder / name, says="--logits")
    for _ in range(2):  # the second time in its place, which is no file of the model
        done = infer("convert", folder, folder / "new.gguf")
        assert done.returncode == 0, done.stderr.decode()


def test_no_output_replaces_another_part_of_a_split_model(tmp_path):
    first, second = (tmp_path / f"m-0000{n}-of-00002.gguf" for n in (1, 2))
    shutil.copy(GOLDEN / "llama-f32.gguf", first)
    second.write_bytes(b"the other part")
    fails(2, "eval", "-m", first, "--tokens", "1", "--logits", second, says="is the input")
    assert second.read_bytes() == b"the other part"


def test_logits_are_there_in_full_or_not_at_all(model, tmp_path):
    out = tmp_path / "out.f32"
    out.write_bytes(b"old")
    # The file is as it was where the run fails on its way.
    fails(4, "eval", "-m", model, "--tokens", ",".join(["1"] * 50), "-c", 8, "--logits", out)
    assert out.read_bytes() == b"old"
    assert infer("eval", "-m", model, "--tokens", "1,2", "--logits", out).returncode == 0
    assert out.stat().st_size > 3
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("command", [
    lambda model, out: ["eval", "-m", model, "--tokens", "1,2", "--logits", out],
    lambda model, out: ["quantize", model, out, "q8_0"],
    lambda model, out: ["bundle", model, out]], ids=["eval", "quantize", "bundle"])
def test_what_a_killed_command_left_is_removed_by_the_next(command, model, tmp_path):
    out = tmp_path / "out"
    left = tmp_path / "out.123-0.part"
    others = [tmp_path / name for name in ("out.part", "out.1.part", "out2.1-0.part", "out.1-0.part.part")]
    for path in (left, *others):
        path.write_bytes(b"x")
    at_work = tmp_path / "out.124-0.part"  # its writer has a lock
    with at_work.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = infer(*command(model, out))
        assert done.returncode == 0, done.stderr.decode()
        assert sorted(tmp_path.iterdir()) == sorted([model, out, at_work, *others])
    assert infer(*command(model, out)).returncode == 0
    assert sorted(tmp_path.iterdir()) == sorted([model, out, *others])


def test_no_output_replaces_a_tower_an_adapter_or_an_image(tmp_path):
    files = {name: tmp_path / name for name in ("tower.gguf", "adapter.gguf", "image.png", "text")}
    for path in files.values():
        path.write_text("anything")
    model = GOLDEN / "llama-f32.gguf"
    for arguments in (["eval", "--tokens", "1", "--image", files["image.png"], "--mmproj", files["tower.gguf"],
                       "--logits", files["image.png"]],
                      ["eval", "--tokens", "1", "--mmproj", files["tower.gguf"], "--logits", files["tower.gguf"]],
                      ["eval", "--tokens", "1", "--lora", files["adapter.gguf"], "--logits", files["adapter.gguf"]],
                      ["eval", "--tokens", "1", "--lora", f"{files['adapter.gguf']}:0.5",
                       "--logits", files["adapter.gguf"]],
                      ["imatrix", "-f", files["text"], "--lora", files["adapter.gguf"],
                       "-o", files["adapter.gguf"]],
                      ["perplexity", "-f", files["text"], "--mmproj", files["tower.gguf"],
                       "--save-base", files["tower.gguf"]],
                      ["bench", "-p", 4, "-n", 1, "-r", 1, "--lora", files["adapter.gguf"],
                       "--trace", files["adapter.gguf"]]):
        fails(2, arguments[0], "-m", model, *arguments[1:], says="is the input")
    assert all(path.read_text() == "anything" for path in files.values())
