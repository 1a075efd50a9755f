"""Models that other programs have downloaded: listed, and given by a part of a name."""

import json
import shutil

import pytest

from program import ROOT, fails, infer

SMALL = ROOT / "tests" / "data" / "golden" / "llama-q4_0.gguf"


def put(path, source=SMALL):
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, path)
    return path


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder with nothing in it, and no variable that names another folder."""
    for name in ("INFER_MODELS", "LLAMA_CACHE", "HF_HUB_CACHE", "HF_HOME", "OLLAMA_MODELS",
                 "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def listed(*arguments):
    done = infer("list", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return {model["name"]: model for model in json.loads(done.stdout)}


def put_ollama(models, place, content=SMALL, digest="sha256:" + "ab" * 32):
    blob = put(models / "blobs" / digest.replace(":", "-"), content)
    manifest = models / "manifests" / place
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": [
        {"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:00"},
        {"mediaType": "application/vnd.ollama.image.model", "digest": digest}]}))
    return blob


def test_every_program_s_folder_is_known(home):
    studio = put(home / ".lmstudio" / "models" / "org" / "Tiny-GGUF" / "Tiny-Q4_0.gguf")
    put(studio.parent / "mmproj-Tiny.gguf")
    cached = put(home / ".cache" / "llama.cpp" / "org_other.gguf")
    hub = home / ".cache" / "huggingface" / "hub" / "models--org--hubbed"
    snapshot = hub / "snapshots" / "0123"
    blob = put(hub / "blobs" / "feed")
    snapshot.mkdir(parents=True)
    (snapshot / "hubbed-q4.gguf").symlink_to(blob)
    weights = hub.parent / "models--org--plain" / "snapshots" / "0123"
    put(weights / "model.safetensors")
    (weights / "config.json").write_text("{}")
    pulled = put_ollama(home / ".ollama" / "models", "registry.ollama.ai/library/llama3.2/1b")
    models = listed()
    assert {name: (m["source"], m["path"]) for name, m in models.items()} == {
        "org/Tiny-GGUF/Tiny-Q4_0": ("LM Studio", str(studio)),
        "org_other": ("llama.cpp", str(cached)),
        "org/hubbed/hubbed-q4": ("Hugging Face", str(snapshot / "hubbed-q4.gguf")),
        "org/plain": ("Hugging Face", str(weights)),
        "llama3.2:1b": ("ollama", str(pulled)),
    }
    assert {m["bytes"] for m in models.values()} == {SMALL.stat().st_size}
    text = infer("list", "TINY").stdout.decode()
    assert text.split()[0] == "org/Tiny-GGUF/Tiny-Q4_0" and "LM Studio" in text
    assert len(text.splitlines()) == 1


def test_without_a_home_nothing_is_looked_for_where_the_program_runs(home, tmp_path, monkeypatch):
    for place in (".lmstudio/models", ".cache/lm-studio/models", ".cache/llama.cpp", "llama.cpp"):
        put(tmp_path / place / "org" / "Tiny-GGUF" / "Tiny-Q4_0.gguf")
    put_ollama(tmp_path / ".ollama" / "models", "registry.ollama.ai/library/llama3.2/1b")
    put_ollama(tmp_path, "registry.ollama.ai/library/llama3.2/1b")
    monkeypatch.chdir(tmp_path)
    for unset in (lambda: monkeypatch.setenv("HOME", ""), lambda: monkeypatch.delenv("HOME")):
        unset()
        assert listed() == {}


def test_variables_name_other_folders(home, tmp_path, monkeypatch):
    for name, folder, file in (("INFER_MODELS", "own", "a.gguf"), ("LLAMA_CACHE", "llama", "b.gguf"),
                               ("HF_HOME", "hf", "hub/models--o--r/snapshots/1/c.gguf")):
        put(tmp_path / folder / file)
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.setenv("INFER_MODELS", f"{tmp_path / 'own'}:{tmp_path / 'absent'}:")
    put_ollama(tmp_path / "ollama", "host.example/me/mine/latest")
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "ollama"))
    assert set(listed()) == {"a", "b", "o/r/c", "me/mine:latest"}


def test_the_parts_of_a_model_are_one(home, tmp_path, monkeypatch):
    monkeypatch.setenv("INFER_MODELS", str(tmp_path / "own"))
    for part in (1, 2, 3):
        put(tmp_path / "own" / f"big-0000{part}-of-00003.gguf")
    models = listed()
    assert set(models) == {"big"}
    assert models["big"]["path"].endswith("big-00001-of-00003.gguf")
    assert models["big"]["bytes"] == 3 * SMALL.stat().st_size


def test_directories_of_safetensors_are_models(home, tmp_path, monkeypatch):
    own = tmp_path / "own"
    shutil.copytree(ROOT / "tests" / "data" / "golden" / "hf-nf4", own / "org" / "Small")
    put(own / "no-config" / "model.safetensors")
    monkeypatch.setenv("INFER_MODELS", str(own))
    monkeypatch.chdir(tmp_path)
    models = listed()
    assert set(models) == {"org/Small"} and models["org/Small"]["bytes"] > 0
    assert models["org/Small"]["path"] == str(own / "org" / "Small")
    assert json.loads(infer("info", "small", "--json").stdout)["path"] == str(own / "org" / "Small")


def test_a_model_by_a_part_of_its_name(home, tmp_path, monkeypatch):
    monkeypatch.setenv("INFER_MODELS", str(tmp_path / "own"))
    put(tmp_path / "own" / "Tiny-Q4_0.gguf")
    put(tmp_path / "own" / "Tiny-Q8_0.gguf", ROOT / "tests" / "data" / "golden" / "llama-q8_0.gguf")
    monkeypatch.chdir(tmp_path)
    report = json.loads(infer("info", "q8_0", "--json").stdout)
    assert report["path"] == str(tmp_path / "own" / "Tiny-Q8_0.gguf")
    assert infer("eval", "-m", "tiny-q4", "--tokens", "1,2", "--logits", tmp_path / "l").returncode == 0
    assert fails(2, "info", "tiny").strip() == (
        "infer: error: 'tiny' matches 2 models: Tiny-Q4_0, Tiny-Q8_0; give a longer part of the name; "
        "see 'infer info --help'")
    # What could be a repository of the hub is not downloaded unasked.
    fails(3, "info", "org/absent:Q4_K_M", says="'-hf org/absent:Q4_K_M' takes it from Hugging Face")
    assert "-hf" not in fails(3, "info", "absent")
    # One that is called exactly that is meant, and a file of that name comes before all.
    put(tmp_path / "own" / "tiny.gguf")
    assert json.loads(infer("info", "tiny", "--json").stdout)["path"].endswith("tiny.gguf")
    put(tmp_path / "tiny")
    assert json.loads(infer("info", "tiny", "--json").stdout)["path"] == "tiny"


def test_what_is_not_there_is_said(home):
    assert "no model in the folders of" in infer("list").stderr.decode()
    fails(3, "info", "no-such-model", says="no-such-model")


@pytest.mark.parametrize("manifest", [
    "", "[]", "{", '{"layers":7}', '{"layers":[7]}', '{"layers":[{"mediaType":1,"digest":2}]}',
    '{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":7}]}',
    '{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:/etc/passwd"}]}',
    '{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:../x"}]}',
    '{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:ab\\u0000cd"}]}',
    '{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:%s"}]}' % ("a" * 5000),
    "[" * 100_000])
def test_a_manifest_that_is_none_is_left_out(home, manifest):
    models = home / ".ollama" / "models"
    path = models / "manifests" / "registry.ollama.ai" / "library" / "m" / "1b"
    path.parent.mkdir(parents=True)
    path.write_text(manifest)
    put(models / "blobs" / "sha256-ab")
    assert listed() == {}


def test_folders_without_end_do_not_hang(home, tmp_path, monkeypatch):
    own = tmp_path / "own"
    put(own / "a" / "b" / "model.gguf")
    (own / "a" / "b" / "again").symlink_to(own)
    deep = own
    for i in range(30):
        deep = deep / "d"
    put(deep / "too-deep.gguf")
    monkeypatch.setenv("INFER_MODELS", str(own))
    assert set(listed()) == {"a/b/model"}
