"""Images in prompts of Gemma 3, Idefics3, Pixtral, Mistral Small 3.1 and Gemma 4: what the engine computes,
against the references in float64, and from run to run. The models are made here."""

import json
import os
import pathlib
import subprocess
import sys
from types import SimpleNamespace

import pytest

np = pytest.importorskip("numpy")
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from tests.golden.reference import (  # noqa: E402
    gguf, make_newer_towers, make_towers, newer_towers, png, tiled_towers, towers, whole_towers)
from tests.golden.reference.model import nmse  # noqa: E402

if not os.environ.get("INFER_BIN"):
    pytest.skip("INFER_BIN does not name the program", allow_module_level=True)

LIMIT = 1e-10
ISAS = ("scalar", "avx2", "avx2_vnni", "avx512", "neon", "neon_dotprod", "neon_i8mm")
SPARE = 4  # rows of a step that an image does not take
SQUARE = (make_towers.GEMMA3_SIDE, make_towers.GEMMA3_SIDE)


def kind(text, tower, model, shown, sizes, most=0, line="", whole=False):
    """shown: the tokens of an image with what is around them. sizes: of images that are not scaled,
    the widest, the highest, then others. most: --image-max-tokens. line: what stands behind an
    image that a prompt has no mark for. whole: texts have to have all of `shown`."""
    return SimpleNamespace(text=text, tower=tower, model=model, shown=shown, sizes=sizes, most=most,
                           line=line, whole=whole)


TILED_SIZES = [(48, 16), (16, 48), (48, 32), (21, 30), (16, 16)]
GLM4V_SHOWN = ["<|begin_of_image|>", "<|image|>", "<|end_of_image|>"]
GLM4V_SIZES = [(64, 8), (8, 64), (48, 32), (40, 24), (16, 16)]
KIMI_SHOWN = ["<|media_begin|>", *"image", "<|media_content|>", "<|media_pad|>", "<|media_end|>"]
KIMI_SIZES = [(128, 7), (9, 96), (45, 22), (40, 24), (1, 3)]
GEMMA4_SHOWN = ["<|image>", "<|image|>", "<image|>"]
MISTRAL_SIZES = [(96, 8), (8, 96), (64, 48), (40, 40), (8, 8)]
KINDS = {
    "gemma3": kind(make_towers.gemma3_text, make_towers.gemma3_tower, towers.Gemma3,
                   ["<start_of_image>", "<end_of_image>"], [SQUARE] * 5),
    "idefics3": kind(make_towers.llama_text, make_towers.idefics3_tower, tiled_towers.Idefics3,
                     ["<image>"], TILED_SIZES),
    "idefics3-uncut": kind(make_towers.llama_text, lambda: make_towers.idefics3_tower(
        side=24, edge=24, merged=3), tiled_towers.Idefics3, ["<image>"], TILED_SIZES),
    "lfm2": kind(make_towers.lfm2_text, make_towers.lfm2_tower, tiled_towers.Lfm2, ["<image>"],
                 TILED_SIZES),
    "llava": kind(make_towers.llama_text, make_towers.llava_tower, tiled_towers.Llava, ["<image>"],
                  TILED_SIZES, line="\n"),
    "llava-next": kind(make_towers.llama_text, make_towers.llava_next_tower, tiled_towers.LlavaNext,
                       ["<image>"], TILED_SIZES, line="\n"),
    "internvl": kind(make_towers.qwen_text, make_towers.internvl_tower, tiled_towers.InternVl,
                     ["<IMG_CONTEXT>"], TILED_SIZES, line="\n"),
    "internvl-internlm2": kind(
        make_towers.internlm2_text, lambda: make_towers.internvl_tower(width=36),
        tiled_towers.InternVl, ["<IMG_CONTEXT>"], TILED_SIZES, line="\n"),
    "glm4v": kind(make_towers.glm4_text, make_towers.glm4v_tower, whole_towers.Glm4v, GLM4V_SHOWN,
                  GLM4V_SIZES, whole=True),
    "glm4v-moe": kind(lambda: make_towers.glm4_text(True), make_towers.glm4v_tower,
                      whole_towers.Glm4v, GLM4V_SHOWN, GLM4V_SIZES, whole=True),
    "glm5v": kind(make_towers.glm5_text, make_towers.glm5v_tower, whole_towers.Glm5Next, GLM4V_SHOWN,
                  [(64, 7), (9, 64), (45, 30), (40, 24), (17, 16)], whole=True),
    "kimi-k25": kind(make_towers.kimi_text, lambda: make_towers.kimi_tower(True),
                     whole_towers.KimiK25, KIMI_SHOWN, KIMI_SIZES, whole=True),
    "kimi-vl": kind(make_towers.kimi_text, lambda: make_towers.kimi_tower(False),
                    whole_towers.KimiVl, ["<|media_start|>"] + KIMI_SHOWN[1:], KIMI_SIZES, whole=True),
    "llama4": kind(make_towers.llama4_text, make_towers.llama4_tower, whole_towers.Llama4,
                   ["<|image|>"], TILED_SIZES),
    "glm-ocr": kind(make_towers.glm4_text, make_newer_towers.glm_ocr_tower, newer_towers.GlmOcr,
                    GLM4V_SHOWN, GLM4V_SIZES, whole=True),
    "paddleocr": kind(make_newer_towers.paddle_text, make_newer_towers.paddle_tower,
                      newer_towers.PaddleOcr, make_newer_towers.PADDLE_WORDS, GLM4V_SIZES, whole=True),
    "exaone4.5": kind(make_newer_towers.exaone_text, make_newer_towers.exaone_tower,
                      newer_towers.Exaone45, make_newer_towers.EXAONE_WORDS, GLM4V_SIZES, whole=True),
    "exaone4.5-without-windows": kind(
        make_newer_towers.exaone_text, lambda: make_newer_towers.exaone_tower(windows=False),
        newer_towers.Exaone45, make_newer_towers.EXAONE_WORDS, GLM4V_SIZES, whole=True),
    "dots-ocr": kind(make_newer_towers.dots_text, make_newer_towers.dots_tower,
                     newer_towers.DotsOcr, make_newer_towers.DOTS_WORDS, GLM4V_SIZES, whole=True),
    "minicpm-v": kind(make_newer_towers.minicpm_text, make_newer_towers.minicpm_tower,
                      newer_towers.MiniCpmV, ["<|image_pad|>"], TILED_SIZES),
    "minicpm-v-4x": kind(make_newer_towers.minicpm_text,
                         lambda: make_newer_towers.minicpm_tower(merges=False),
                         newer_towers.MiniCpmV, ["<|image_pad|>"], TILED_SIZES),
    "mistral3": kind(make_towers.mistral3_text, make_towers.pixtral_tower, towers.Mistral3,
                     ["[IMG]", "[IMG_END]"], MISTRAL_SIZES),
    "mistral3-without-break": kind(
        make_towers.mistral3_text, lambda: make_towers.pixtral_tower(break_row=False, silu=False),
        towers.Mistral3, ["[IMG]", "[IMG_END]"], MISTRAL_SIZES),
    "pixtral": kind(make_towers.mistral3_text, lambda: make_towers.pixtral_tower(merged=1),
                    towers.Mistral3, ["[IMG]", "[IMG_END]"],
                    [(96, 4), (4, 96), (32, 24), (20, 20), (4, 4)]),
    # 11 results at most: images are scaled to that.
    "gemma4": kind(make_towers.gemma4_text, make_towers.gemma4_tower, towers.Gemma4, GEMMA4_SHOWN,
                   [(96, 12), (12, 96), (60, 24), (36, 36), (24, 48)], 11),
    "gemma4-large": kind(lambda: make_towers.gemma4_text(True),
                         lambda: make_towers.gemma4_tower(large=True), towers.Gemma4, GEMMA4_SHOWN,
                         [(96, 12), (12, 96), (60, 24), (36, 36), (24, 48)], 11),
}


@pytest.fixture(scope="module", params=KINDS)
def made(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    of = KINDS[request.param]
    gguf.write(folder / "model.gguf", *of.text())
    gguf.write(folder / "tower.gguf", *of.tower())
    reference = of.model(folder / "model.gguf", folder / "tower.gguf")
    for seed, size in enumerate(of.sizes):
        (folder / f"{seed}.png").write_bytes(png.encode(pixels_of(of, seed)))
    shown = [reference.words(word) for word in of.shown]
    limit = ["--image-max-tokens", of.most] if of.most else []
    return SimpleNamespace(folder=folder, of=of, reference=reference, shown=shown, limit=limit,
                           name=request.param)


def pixels_of(of, seed):
    return png.blocks(*of.sizes[seed], seed, side=5)


def infer(made, command, *options, code=0, stdin=b""):
    line = [command, "-m", made.folder / "model.gguf", "--mmproj", made.folder / "tower.gguf",
            *made.limit, *options]
    done = subprocess.run([os.environ["INFER_BIN"], *map(str, line)], capture_output=True,
                          input=stdin, timeout=60)
    assert done.returncode == code, done.stderr.decode()
    return done.stdout if code == 0 else done.stderr.decode().splitlines()[-1]


def files(made, images):
    return [word for image in images for word in ("--image", made.folder / f"{image}.png")]


def evaluate(made, tokens, images, *options, **rest):
    out = made.folder / "out.f32"
    told = infer(made, "eval", "--tokens", ",".join(map(str, tokens)), "--logits", out,
                 *files(made, images), *options, **rest)
    return np.fromfile(out, "<f4") if rest.get("code", 0) == 0 else told


def prompt(made, *parts):
    """Tokens, with what shows an image in place of each None."""
    return [token for part in parts for token in (made.shown if part is None else part)]


def expected(made, tokens, images):
    return made.reference.logits(tokens, [pixels_of(made.of, image) for image in images]).ravel()


def only(*names):
    """A test of these models."""
    return pytest.mark.parametrize("made", names, indirect=True)


CASES = {  # parts of a prompt, images
    "no-image": ([[5, 70, 256] * 8], []),
    "image-alone": ([None], [2]),
    "text-before": ([[5, 70, 256], None], [3]),
    "text-behind": ([None, [5, 70, 256]], [4]),
    "one-line": ([[5], None, [70, 256]], [0]),
    "one-column": ([[5], None, [70, 256]], [1]),
    "two": ([[5, 9], None, [70, 256, 11], None, [8, 3, 2]], [2, 1]),
    "two-side-by-side": ([[5], None, None], [3, 2]),
    "twice-the-same": ([[5, 9], None, [70], None, [8]], [2, 2]),
    "three": ([None, [70], None, [8, 3], None, [1]], [2, 0, 3]),
    "longer-than-a-page": ([[5] * 30, None, [70] * 50, None, [9] * 40], [2, 3]),
}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_reference(made, name):
    parts, images = CASES[name]
    tokens = prompt(made, *parts)
    error = nmse(evaluate(made, tokens, images, "--exact"), expected(made, tokens, images))
    print(f"{made.name:24} {name:20} {error:.3g}")
    assert error <= LIMIT


def test_the_mark_alone(made):
    """Nothing has to be around an image."""
    mark = made.reference.words(made.reference.image_token)
    tokens = [5, mark, mark, 7]
    error = nmse(evaluate(made, tokens, [2, 3], "--exact"), expected(made, tokens, [2, 3]))
    assert error <= LIMIT


def test_images_are_longer_than_windows(made):
    """What the cases rely on: windows cut images, and rows see what lies behind them."""
    reference, tokens = made.reference, prompt(made, [5, 9], None, [70])
    exact = expected(made, tokens, [2])
    rows = len(reference.placed)
    if reference.key("attention.sliding_window", 0) == 0:
        assert reference.ahead is None
        return
    window = reference.key("attention.sliding_window")
    assert rows - len(tokens) >= window - 1
    ids = reference.place(tokens, [pixels_of(made.of, 2)])
    assert (reference.ahead is None) == (made.name in (
        "gemma4", "llama4", "exaone4.5", "exaone4.5-without-windows"))
    if reference.ahead is not None:
        reference.ahead = None
        blind = super(towers.PlacedModel, reference).logits(ids)[reference.ends].ravel()
        assert nmse(blind, exact) > 1e-4


def test_which_image_is_where_makes_a_difference(made):
    tokens = prompt(made, [5, 9], None, [70, 256], None, [8])
    one, other = evaluate(made, tokens, [2, 3]), evaluate(made, tokens, [2, 2])
    one, other = (logits.reshape(-1, made.reference.key("vocab_size")) for logits in (one, other))
    second = len(one) - 1 - len(made.shown[made.shown.index(
        made.reference.words(made.reference.image_token)):])
    assert (one[:second - 1] == other[:second - 1]).all()
    assert nmse(one[-1], other[-1]) > 1e-3


@pytest.mark.parametrize("exact", [[], ["--exact"]], ids=["usual", "exact"])
def test_the_same_bits(made, exact):
    parts, images = CASES["longer-than-a-page"]
    tokens = prompt(made, *parts)
    run = lambda *options: evaluate(made, tokens, images, *exact, *options).tobytes()
    usual = run()
    least = made.of.most or 16  # that a step has to hold, where rows of an image see each other
    chunks = (least + SPARE, least + SPARE + 1, 33, 64)
    if not made.reference.sees_ahead():
        chunks = (1, 3, 7, 64)
    for options in (*(["--chunk", n] for n in chunks), ["-t", 1], ["-t", 2], ["--mmap"],
                    ["-b", chunks[1]], ["-c", 512], ["-t", 2, "--chunk", 33]):
        assert run(*options) == usual, options


def test_the_same_bits_on_every_instruction_set(made):
    parts, images = CASES["two"]
    tokens, found = prompt(made, *parts), {}
    for isa in ISAS:
        known = subprocess.run([os.environ["INFER_BIN"], "eval", "-m", made.folder / "model.gguf",
                                "--isa", isa, "--tokens", "1", "--logits", made.folder / "one.f32"],
                               capture_output=True)
        if known.returncode == 0:
            found[isa] = evaluate(made, tokens, images, "--isa", isa).tobytes()
    assert "scalar" in found and len(found) > 1, found.keys()
    assert len(set(found.values())) == 1


def with_tower(made, name, tensors):
    """Logits with another tower, the engine's and the reference's."""
    path = made.folder / f"{name}.gguf"
    gguf.write(path, made.of.tower()[0], tensors)
    parts, images = CASES["two"]
    tokens = prompt(made, *parts)
    reference = made.of.model(made.folder / "model.gguf", path)
    exact = reference.logits(tokens, [pixels_of(made.of, image) for image in images]).ravel()
    return evaluate(made, tokens, images, "--exact", "--mmproj", path), exact


@pytest.mark.parametrize("name", ["f32", "f16", "bf16"])
def test_types_of_matrices(made, name):
    """Also of those that are stored turned, or patch by patch."""
    as_type = {"f32": np.float32, "f16": np.float16, "bf16": gguf.Bf16}[name]
    tensors = {name: as_type(tensor) if tensor.ndim > 1 and "position" not in name else tensor
               for name, tensor in made.of.tower()[1].items()}
    got, exact = with_tower(made, name, tensors)
    assert nmse(got, exact) <= LIMIT


@only("gemma4")
def test_bounds(made):
    """May be infinite, and those of one end or side alone."""
    tensors = made.of.tower()[1]
    bounds = [name for name in tensors if name.endswith(("_min", "_max"))]
    free, _ = with_tower(made, "free", {name: tensor for name, tensor in tensors.items()
                                        if name not in bounds})
    infinite = {name: np.array([-np.inf if "_min" in name else np.inf]) for name in bounds}
    got, exact = with_tower(made, "infinite", tensors | infinite)
    assert nmse(got, exact) <= LIMIT and (got == free).all()
    for end in ("input_min", "input_max", "output_min", "output_max"):
        some = {name: tensor for name, tensor in tensors.items()
                if name not in bounds or name.endswith(end)}
        got, exact = with_tower(made, end, some)
        assert nmse(got, exact) <= LIMIT < 1e-4 < nmse(got, free), end


@only("gemma4", "gemma4-large")
def test_a_file_with_a_second_tower(made):
    """For sound: each tower's kind has a key of its own then."""
    metadata, tensors = made.of.tower()
    metadata["clip.vision.projector_type"] = metadata.pop("clip.projector_type")
    metadata |= {"clip.audio.projector_type": "gemma4a", "clip.has_audio_encoder": True}
    tensors |= {"a.blk.0.attn_q.weight": np.ones((8, 8)), "a.blk.0.attn_q.input_max": np.ones(1)}
    gguf.write(made.folder / "both.gguf", metadata, tensors)
    tokens = prompt(made, [5], None, [7])
    got = evaluate(made, tokens, [2], "--exact", "--mmproj", made.folder / "both.gguf")
    assert (got == evaluate(made, tokens, [2], "--exact")).all()


@only("gemma3")
def test_steps_that_are_shorter_than_an_image(made):
    tokens, least = prompt(made, [5], None, [7]), 16 + SPARE
    for short in (1, 8, 16, least - 1):
        for option in ("-b", "--chunk"):
            text = evaluate(made, tokens, [2], option, short, code=4)
            assert "tower.gguf" in text and "at least 20" in text, text
    assert len(evaluate(made, tokens, [2], "-b", least))


@only("gemma4-large")
def test_images_are_scaled_to_what_a_step_holds(made):
    """Where rows see each other; there is one row at least."""
    for rows in (1, 2, 6, 9):
        columns, lines = (side // made.reference.tower.unit for side in
                          made.reference.tower.fit(64, 48, made.reference.tower.unit, rows))
        assert tokens_of(made, (64, 48), "-b", rows + SPARE) == columns * lines
    text = evaluate(made, prompt(made, [5], None), [2], "-b", SPARE, code=4)
    assert "tower.gguf" in text, text


def test_on_a_gpu(made):
    """llvmpipe, or what else there is."""
    listed = subprocess.run([os.environ["INFER_BIN"], "devices"], capture_output=True, text=True)
    if "vulkan:0" not in listed.stdout:
        pytest.skip("no Vulkan device")
    parts, images = CASES["two"]
    tokens = prompt(made, *parts)
    got = evaluate(made, tokens, images, "--exact", "--device", "vulkan")
    assert nmse(got, expected(made, tokens, images)) <= LIMIT


def counted(made, text):
    done = subprocess.run([os.environ["INFER_BIN"], "tokenize", "-m", made.folder / "model.gguf",
                           "--json"], input=text.encode(), capture_output=True, check=True)
    return len(json.loads(done.stdout))


def rows_of(made, image):
    """Of an image in a prompt, without what is around it."""
    return len(made.reference.rows(pixels_of(made.of, image)))


def shown_text(made):
    """What the mark of an image becomes, and how many tokens of it an image has no need of."""
    if made.name == "gemma3":
        return "\n\n<start_of_image><end_of_image>\n\n", 0
    if made.name.startswith("minicpm-v"):
        return "<image_id>0</image_id><|image_pad|>", 1
    return "".join(made.of.shown), 1


def mark_of(made):
    """What a text has in an image's place."""
    return "".join(made.of.shown) if made.of.whole else made.reference.image_token


def test_tokens_of_a_prompt(made):
    """What belongs around an image is put there."""
    around, replaced = shown_text(made)
    mark = mark_of(made)
    for text, images, whole in ((f"Say{mark}it", [2], f"Say{around}it"),
                                ("Say it", [2], f"{around}{made.of.line}Say it"),
                                (f"{mark}or{mark}", [2, 3], f"{around}or{around}")):
        told = infer(made, "run", "-q", "--json", "-p", text, "-n", 1, *files(made, images))
        rows = sum(rows_of(made, image) - replaced for image in images)
        assert json.loads(told)["timings"]["prompt_tokens"] == counted(made, whole) + rows, text


def test_tokens_of_a_chat(made):
    around, replaced = shown_text(made)
    done = infer(made, "chat", "--json", "-n", 3, "--temp", 0, *files(made, [2]), stdin=b"What?\n")
    [end] = [event for event in map(json.loads, done.splitlines()) if event["event"] == "end"]
    text = f"<|im_start|>user\n{around}What?<|im_end|>\n<|im_start|>assistant\n"
    assert end["prompt_tokens"] == counted(made, text) - replaced + rows_of(made, 2)
    assert end["finish_reason"] in ("length", "stop")


def test_a_further_turn_computes_its_own_tokens(made):
    done = infer(made, "chat", "--json", "-n", 3, "--temp", 0, *files(made, [2, 3]),
                 stdin=b"What?\nAnd?\n")
    ends = [event for event in map(json.loads, done.splitlines()) if event["event"] == "end"]
    text = "<|im_end|>\n<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n"
    # And perhaps the last token of the first answer.
    assert ends[1]["prompt_tokens"] - counted(made, text) in (0, 1)


def tokens_of(made, size, *options):
    """Of a prompt that is an image of this size, less what is around it."""
    path = made.folder / "sized.png"
    path.write_bytes(png.encode(np.zeros((size[1], size[0], 3), np.uint8)))
    told = infer(made, "run", "-q", "--json", "-p", mark_of(made), "-n", 1, "--image", path,
                 "-c", 1024, *options)
    return json.loads(told)["timings"]["prompt_tokens"] - (counted(made, shown_text(made)[0]) -
                                                           shown_text(made)[1])


SIZES = [(64, 48), (70, 50), (10, 10), (1, 1), (300, 200), (1000, 30), (7, 500), (97, 96), (96, 97),
         (33, 9), (400, 400)]


LARGE = [(64, 48), (70, 50), (300, 200), (97, 96), (96, 97), (400, 400)]


@only("gemma3")
def test_images_of_gemma3_are_of_one_size(made):
    assert [tokens_of(made, size) for size in SIZES] == [16] * len(SIZES)


@only("idefics3")
def test_images_of_idefics3_are_cut(made):
    """The longer side becomes 48 pixels, 3 tiles; less, if there are to be fewer tokens."""
    tower = made.reference.tower
    count = lambda columns, rows: 7 if columns * rows == 1 else columns * rows * 6 + rows + 8
    for size in SIZES:
        grids = [tower.sizes(*size, edge)[1] for edge in (48, 32, 16)]
        assert tokens_of(made, size) == count(*grids[0]), size
        for most in (7, 20, 27, 34, 60):
            fitting = next(grid for grid in grids if count(*grid) - (grid != (1, 1)) <= most)
            assert tokens_of(made, size, "--image-max-tokens", most) == count(*fitting), size


@only("lfm2")
def test_images_of_lfm2_are_cut(made):
    """One of more than 1024 pixels; else it is scaled to 2 to 8 results."""
    tower = made.reference.tower
    for size in SIZES:
        if max(size) > 8 * min(size):
            continue
        columns, rows = tower.fit(*size)
        whole = columns * rows // 64
        across, down = tower.grid(*size)
        assert (across * down > 1) == (size in LARGE), size
        count = whole + 2 if across * down == 1 else across * down * 5 + whole + 3
        assert tokens_of(made, size) == count, size
        for most in (3, 7, 10, 20, 24):
            assert tokens_of(made, size, "--image-max-tokens", most) <= most, size


@only("lfm2")
def test_an_image_of_lfm2_of_one_line_keeps_to_the_limit(made):
    for size in ((240, 3), (1, 200)):
        assert tokens_of(made, size) == 8 + 2


@only("internvl")
def test_images_of_internvl_are_cut(made):
    """Into the tiles whose form is closest; less, if there are to be fewer tokens."""
    tower = made.reference.tower
    count = lambda columns, rows: 4 * (columns * rows + (columns * rows > 1)) + 2
    for size in SIZES:
        assert tokens_of(made, size) == count(*tower.grid(*size)), size
        for most, tiles in ((6, 1), (13, 1), (14, 2), (19, 3), (22, 4)):
            told = tokens_of(made, size, "--image-max-tokens", most)
            assert told == count(*tower.grid(*size, tiles)), (size, most)


@only("llava-next")
def test_images_of_llava_next_are_fitted_into_grids(made):
    """Less grids, if there are to be fewer tokens; else a picture of all alone."""
    tower = made.reference.tower
    for size in SIZES:
        rgb = np.zeros((size[1], size[0], 3), np.uint8)
        assert tokens_of(made, size) == len(tower.rows(rgb)), size
        for most in (10, 29, 30, 33, 42, 48, 51):
            grids = [(w, h) for w, h in tower.grids() if 9 + h // 4 * (w // 4 + 1) <= most]
            told = tokens_of(made, size, "--image-max-tokens", most)
            assert told == len(tower.rows(rgb, grids)) <= most, (size, most)


@only("idefics3")
def test_an_image_has_at_least_the_tokens_of_a_picture(made):
    text = evaluate(made, prompt(made, None), [2], "--image-max-tokens", 6, code=4)
    assert "tower.gguf" in text and "at least 7" in text, text


@only("glm4v")
def test_images_of_glm4v_are_scaled(made):
    tower = made.reference.tower
    for size in SIZES:
        columns, rows = (side // 8 for side in tower.fit(*size, 8, 256, 4096))
        rows, columns = min(rows, 64), min(columns, 64)  # of one line
        assert tokens_of(made, size) == rows * columns, size


@only("kimi-k25", "kimi-vl")
def test_images_of_kimi_are_made_smaller_and_filled_up(made):
    tower = made.reference.tower
    for size in SIZES:
        columns, rows = (-(-side // 8) for side in tower.fit(*size, 64))
        assert tokens_of(made, size) == rows * columns, size
        for most in (1, 2, 5, 12):
            assert tokens_of(made, size, "--image-max-tokens", most) <= most, size


@only("llama4")
def test_images_of_llama4_are_cut(made):
    """Into as few tiles as it is not made smaller in; less, if there are to be fewer tokens."""
    tower = made.reference.tower
    count = lambda rows, columns: 7 + (rows * columns > 1) * rows * columns * 5
    for size in SIZES:
        assert tokens_of(made, size) == count(*tower.grid(*size)), size
        for most, tiles in ((7, 1), (16, 1), (17, 2), (30, 4), (32, 5)):
            told = tokens_of(made, size, "--image-max-tokens", most)
            assert told == count(*tower.grid(*size, tiles)), (size, most)


@only("mistral3", "pixtral")
def test_images_of_pixtral_are_scaled(made):
    tower = made.reference.tower
    for size in SIZES:
        columns, rows = (side // tower.unit for side in tower.fit(*size, tower.unit, 96))
        assert tokens_of(made, size) == rows * columns + rows - 1, size


@only("gemma4")
@pytest.mark.parametrize("most", [1, 2, 6, 11, 12, 36, 64])
def test_images_of_gemma4_are_scaled_to_the_limit(made, most):
    """A side is never longer than there are learned places."""
    tower, longest = made.reference.tower, make_towers.PLACES // 3
    for size in [*SIZES, (36, 24), (24, 36), (144, 96), (12, 12), (432, 288)]:
        sides = (side // tower.unit for side in tower.fit(*size, tower.unit, most))
        columns, rows = (min(side, longest) for side in sides)
        assert tokens_of(made, size, "--image-max-tokens", most) == rows * columns, (size, most)


@only("mistral3", "mistral3-without-break")
@pytest.mark.parametrize("most", [1, 3, 8, 20, 50])
def test_lines_count_towards_the_limit(made, most):
    for size in ((64, 48), (48, 64), (96, 96), (96, 8), (8, 96), (33, 90), (9, 9)):
        whole = tokens_of(made, size)
        rows = tokens_of(made, size, "--image-max-tokens", most)
        assert rows == whole if whole <= most else 1 <= rows <= most, size
    square = max(n * n + n - 1 for n in range(1, 13) if n * n + n - 1 <= most)
    assert tokens_of(made, (96, 96), "--image-max-tokens", most) == square


@only("mistral3-without-break")
def test_between_lines_is_the_models_own_token(made):
    """Where the tower's file has no row for it."""
    tokens = prompt(made, [5], None, [7])
    usual = evaluate(made, tokens, [2], "--exact")
    metadata, tensors = made.of.tower()
    table = made.reference.tensors["token_embd.weight"]
    for row, same in ((made.reference.words("[IMG_BREAK]"), True), (5, False)):
        tensors["v.token_embd.img_break"] = table[row]
        gguf.write(made.folder / "with.gguf", metadata, tensors)
        got = evaluate(made, tokens, [2], "--exact", "--mmproj", made.folder / "with.gguf")
        assert (got == usual).all() == same
