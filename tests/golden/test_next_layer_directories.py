"""Directories of transformers with a layer behind the model's that predicts further tokens, which
transformers itself leaves out: converted, it is where GGUF has it, the program drafts with it, and what
the model says is the same."""

import os
import pathlib
import sys

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("safetensors.torch")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)

from tests.golden.reference import gguf  # noqa: E402
from tests.golden.test_checkpoints import converted, evaluate, infer, rewritten, saved  # noqa: E402

WHOLE = {"eh_proj": "nextn.eh_proj", "enorm": "nextn.enorm", "hnorm": "nextn.hnorm"}


@pytest.mark.parametrize("name, like, count_key, norm, to", [
    ("bailingmoe3", 3, "num_nextn_predict_layers", "final_layernorm", "layer_output_norm"),
    ("cohere2moe", 4, "num_nextn_predict_layers", "shared_head.norm", "nextn.shared_head_norm"),
    ("glm-dsa", 4, "num_nextn_predict_layers", "shared_head.norm", "nextn.shared_head_norm"),
    ("deepseek-v32", 2, "num_nextn_predict_layers", "shared_head.norm", "nextn.shared_head_norm")])
def test_a_further_layer(tmp_path, name, like, count_key, norm, to):
    """As the model's layer `like`."""
    folder = tmp_path / "m"
    saved(name, folder)
    before = evaluate(folder, tmp_path / "logits")
    plain, _ = converted(folder, tmp_path)
    metadata, model = gguf.read(plain)
    arch = metadata["general.architecture"]
    layers, width = metadata[arch + ".block_count"], metadata[arch + ".embedding_length"]
    generator = torch.Generator().manual_seed(7)
    added = {}

    def tensors(there):
        at, of = f"model.layers.{layers}.", f"model.layers.{like}."
        for key, tensor in there.items():
            if key.startswith(of):
                added[at + key.removeprefix(of)] = tensor + 0.5
        for part, shape in (("eh_proj", (width, 2 * width)), ("enorm", (width,)), ("hnorm", (width,)),
                            (norm, (width,))):
            added[f"{at}{part}.weight"] = torch.randn(shape, generator=generator)
        return there | added

    rewritten(folder, lambda c: c.update({count_key: 1}), tensors)
    assert np.array_equal(evaluate(folder, tmp_path / "logits"), before)
    path, _ = converted(folder, tmp_path)
    found, made = gguf.read(path)
    assert found[arch + ".nextn_predict_layers"] == 1
    assert found[arch + ".block_count"] == layers + 1
    b, of = f"blk.{layers}.", f"blk.{like}."
    for part, there in (WHOLE | {norm: None}).items():
        here = made[f"{b}{there or to}.weight"]
        assert np.array_equal(here, added[f"model.layers.{layers}.{part}.weight"].float().numpy())
    for tensor, x in model.items():
        if tensor.startswith(of):
            assert np.allclose(made[b + tensor.removeprefix(of)], x + 0.5, atol=1e-6), tensor
    for where in (folder, path):
        done = infer("plan", "-m", where, "--drafter", "mtp", "-c", "128")
        assert done.returncode == 0, done.stderr
    assert np.array_equal(evaluate(path, tmp_path / "logits"), before)
