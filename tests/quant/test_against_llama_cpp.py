"""Quantisers against llama.cpp's, where the Python packages llama-cpp-python (whose ggml library is
called), gguf and numpy are installed."""

import ctypes
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

for package in ("numpy", "gguf", "llama_cpp"):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"the Python package {package} is missing", allow_module_level=True)
if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)

import gguf  # noqa: E402
import numpy as np  # noqa: E402

ROWS, COLUMNS = 64, 1024
TYPES = ("Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4 "
         "IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S").split()
NEEDS_IMPORTANCE = ("IQ2_XXS", "IQ2_XS")


def ggml():
    folder = pathlib.Path(importlib.util.find_spec("llama_cpp").origin).parent / "lib"
    library = ctypes.CDLL(str(next(iter(sorted(folder.glob("*ggml-base.*"))))))
    function = library.ggml_quantize_chunk
    function.restype = ctypes.c_size_t
    function.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [
        ctypes.c_void_p]
    return function


def tensors():
    random = np.random.default_rng(11)
    shape = (ROWS, COLUMNS)
    found = {"gauss": random.standard_normal(shape) * 0.02,
             "laplace": random.laplace(size=shape),
             "heavy": random.standard_t(4, size=shape)}
    model = pathlib.Path(__file__).parents[2] / "app" / "demo" / "infer-demo.gguf"
    parts = [gguf.dequantize(t.data, t.tensor_type).ravel()
             for t in gguf.GGUFReader(model).tensors if "ffn_up" in t.name]
    found["trained"] = np.concatenate(parts)[:ROWS * COLUMNS].reshape(shape)
    return {name: np.ascontiguousarray(x, np.float32) for name, x in found.items()}


def write_model(path, data):
    writer = gguf.GGUFWriter(path, "llama")
    for name, x in data.items():
        writer.add_tensor(f"{name}.weight", x)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_importance(path, data, importance):
    writer = gguf.GGUFWriter(path, "")
    writer.add_type("imatrix")
    writer.add_array("imatrix.datasets", ["made up"])
    writer.add_uint32("imatrix.chunk_count", 1)
    writer.add_uint32("imatrix.chunk_size", 512)
    for name in data:
        writer.add_tensor(f"{name}.weight.in_sum2", importance.reshape(1, -1))
        writer.add_tensor(f"{name}.weight.counts", np.ones((1, 1), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "importance"])
@pytest.mark.parametrize("name", TYPES)
def test_the_error_is_no_larger_than_llama_cpps(name, weighted, tmp_path):
    if name in NEEDS_IMPORTANCE and not weighted:
        pytest.skip("llama.cpp makes this type only with an importance matrix")
    type = gguf.GGMLQuantizationType[name]
    data = tensors()
    random = np.random.default_rng(12)
    importance = np.exp(1.5 * random.standard_normal(COLUMNS)).astype(np.float32)
    source, out, matrix = (str(tmp_path / file) for file in ("in.gguf", "out.gguf", "im.gguf"))
    write_model(source, data)
    # The mix named MXFP4 is for experts: the type itself is asked for by name.
    command = [os.environ["INFER_BIN"], "quantize", source, out, "Q8_0", "--tensor-type",
               f"weight={name}", "--json"]
    if weighted:
        write_importance(matrix, data, importance)
        command += ["--imatrix", matrix]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert {t["to"] for t in json.loads(done.stdout)["tensors"]} == {name}
    made = {t.name: t.data for t in gguf.GGUFReader(out).tensors}
    quantise = ggml()
    for key, x in data.items():
        if name == "Q8_0" and key == "trained":
            continue  # it was Q8_0: no errors to compare
        blocks = np.empty(gguf.quants.quant_shape_to_byte_shape(x.shape, type), np.uint8)
        quantise(int(type), x.ctypes.data, blocks.ctypes.data, 0, ROWS, COLUMNS,
                 importance.ctypes.data if weighted else None)
        exact = x.astype(np.float64)
        # How an error counts: by importance alone, and with the emphasis on large weights that
        # llama.cpp's own searches use.
        weight = importance.astype(np.float64) if weighted else np.ones(COLUMNS)
        groups = (exact ** 2).reshape(ROWS, -1, 256).mean(-1)
        emphasis = np.sqrt(2 * np.repeat(groups, 256, -1) + exact ** 2)

        def error(blocks, emphasis=1.0):
            return float((weight * emphasis * (gguf.dequantize(blocks, type) - exact) ** 2).sum())

        ours = np.asarray(made[f"{key}.weight"]).reshape(blocks.shape)
        assert error(ours) <= 1.02 * error(blocks), key
        assert error(ours, emphasis) <= 1.02 * error(blocks, emphasis), key
