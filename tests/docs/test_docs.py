"""The pages of the documentation: what they link to is there, and what they say to type works."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

import pytest

import pages

ROOT = pathlib.Path(__file__).resolve().parents[2]
INFER = os.environ.get("INFER_BIN", str(ROOT / "build" / "release" / "infer"))
DEMO = ROOT / "app" / "demo"
OTHERS = {"-DINFER_CUDA", "-DINFER_CUDA_ARCHITECTURES", "-DINFER_GUI", "-DINFER_UNITY", "-DINFER_VULKAN", "-tc",
          "--working-dir"}  # flags of CMake, of the tests and of Ray
PAGES = sorted({ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md",
                *(ROOT / "docs").rglob("*.md"), *(ROOT / "tools").rglob("*.md")})


def by_name(paths):
    return pytest.mark.parametrize("page", paths, ids=lambda p: str(p.relative_to(ROOT)))


@by_name(PAGES)
def test_links_lead_somewhere(page):
    assert pages.dead_links(page, ROOT) == []


@by_name(PAGES)
def test_files_that_are_named_exist(page):
    assert pages.missing_files(page, ROOT) == []


def test_the_index_names_every_page():
    linked = {link.partition("#")[0] for link in pages.links_of((ROOT / "docs/README.md").read_text())}
    docs = ROOT / "docs"
    assert {str(p.relative_to(docs)) for p in docs.rglob("*.md")} - {"README.md"} <= linked


@by_name(PAGES)
def test_code_that_is_quoted_is_in_its_file(page):
    assert pages.wrong_quotes(page, ROOT) == []


@pytest.mark.parametrize("page", ["operation", "type", "architecture", "back-end", "command",
                                  "sampler", "load-option"])
def test_every_kind_of_addition_is_walked_through(page):
    text = (ROOT / "docs" / "adding" / f"{page}.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings[0].startswith("1. ")
    assert headings[-2:] == ["See that it works", "What the tests do by themselves"]
    blocks = [info for info, _ in pages.taken_apart(text)[1]]
    assert [info for info in blocks if info in ("", "cpp", "cmake", "python", "glsl")] == [], \
        "code here is quoted, with the file it is from"
    assert len(pages.quotes_of(text)) >= 3


def test_usual_changes_name_their_files():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.split("\n## Where a change goes\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| a")]
    assert len(rows) >= 10
    for change, files in rows:
        named = re.findall(r"`([\w./+-]+)`", files)
        assert any((ROOT / name).exists() for name in named), change
        assert [name for name in named if "/" in name and not (ROOT / name).exists()] == [], change


@pytest.fixture(scope="session")
def helps():
    """The help of every command, and of all."""
    def help_of(*command):
        return subprocess.run([INFER, "help", *command], check=True, capture_output=True).stdout.decode()
    commands = re.findall(r"^  ([a-z]+) {2,}", help_of().split("Options:")[0], re.MULTILINE)
    assert len(commands) > 15
    return {command: help_of(command) for command in commands}


def test_every_command_is_documented(helps):
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    table = text.split("\n## Commands\n")[1].split("\n## ")[0]
    assert [command for command in helps if f"`infer {command}" not in table] == []


def listed(text, begin, end):
    """The words between two texts of a help, wherever its lines are broken."""
    return " ".join(text.split()).split(begin)[1].split(end)[0].strip().split(", ")


def test_lists_in_the_pages_are_complete(helps):
    models = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    for path in sorted((ROOT / "models").glob("*.cpp")):
        names = re.findall(r"(?:kNames|kCheckpoints)\[\] = \{([^}]*)\}", path.read_text())
        assert names, path  # heads may be read from GGUF alone
        for name in re.findall(r'"([^"]+)"', "".join(names)):
            assert f"`{name}`" in models, f"{path.name}: {name}"
    for name in listed(helps["chat"], "by name or as Jinja:", "--template,"):
        assert re.search(rf"(?<![\w-]){name}(?![\w-])", models), name
    quantising = (ROOT / "docs" / "quantising.md").read_text(encoding="utf-8")
    for name in listed(helps["quantize"], "a mix of types:", "Options:"):
        assert re.search(rf"(?<!\w){name}(?!\w)", quantising), name
    exits = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8").split("\n## Exit codes\n")[1]
    for code in re.findall(r"kExit\w+ = (\d+);", (ROOT / "app/cli/failure.h").read_text()):
        assert re.search(rf"^\| {code}\b", exits, re.MULTILINE), code


def test_flags_that_are_named_exist(helps):
    known = set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", "".join(helps.values())))
    assert "--gpu-layers" in known and "--no-such-flag" not in known
    # Pages in tools are about other programs; from-llama.cpp.md has a test of its own.
    looked_at = [page for page in PAGES
                 if ROOT / "tools" not in page.parents and page.name != "from-llama.cpp.md"]
    wrong = {str(page.relative_to(ROOT)): sorted(pages.flags_of(page.read_text()) - known - OTHERS)
             for page in looked_at}
    assert {page: flags for page, flags in wrong.items() if flags} == {}


def test_the_front_door_is_short():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 160, "README.md is the front door: what is more belongs in docs/"


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """The files that the pages' commands read."""
    folder = tmp_path_factory.mktemp("files")
    shutil.copy(DEMO / "infer-demo.gguf", folder / "model.gguf")
    shutil.copy(DEMO / "infer-demo-draft.gguf", folder / "small.gguf")
    subprocess.run([INFER, "quantize", folder / "model.gguf", folder / "model-f16.gguf", "F16",
                    "--allow-requantize", "-q"], check=True)
    shutil.copytree(ROOT / "tests" / "data" / "golden" / "hf-nf4", folder / "checkpoint")
    for name, to in (("bert-mean", "encoder"), ("bert-rank", "reranker")):
        shutil.copytree(ROOT / "tests" / "data" / "embed" / name, folder / to)
    text = (ROOT / "tests" / "data" / "demo_heldout.txt").read_text()
    (folder / "text.txt").write_text(text[:6000])
    (folder / "prompt.txt").write_text("Once upon a time")
    (folder / "texts.txt").write_text("the cat sits outside\na new movie\n")
    (folder / "texts.jsonl").write_text('"the cat sits outside"\n"a new movie"\n')
    return folder


def has_commands(page):
    return pages.runnable_blocks(page.read_text(encoding="utf-8"))


@by_name(list(filter(has_commands, PAGES)))
def test_commands_work(page, files, tmp_path):
    folder = tmp_path / "folder"
    shutil.copytree(files, folder)
    assert "\n".join(pages.failed_commands(page, folder, INFER)) == ""


def test_there_are_commands_to_run():
    assert len(list(filter(has_commands, PAGES))) > 5


def test_pictures_can_be_made_again(tmp_path):
    subprocess.run([sys.executable, ROOT / "tools" / "docs" / "pictures.py", "--infer", INFER,
                    "--to", tmp_path, "session"], check=True)
    made = xml.etree.ElementTree.parse(tmp_path / "session.svg").getroot()
    kept = xml.etree.ElementTree.parse(ROOT / "docs" / "images" / "session.svg").getroot()

    def commands(svg):
        return [e.text for e in svg.iter() if e.get("class") == "command"]
    assert commands(made) == commands(kept) != []


@pytest.mark.parametrize("picture", sorted((ROOT / "docs" / "images").glob("*.svg")),
                         ids=lambda p: p.name)
def test_pictures_show_no_folders_of_a_machine(picture):
    text = "".join(xml.etree.ElementTree.parse(picture).getroot().itertext())
    assert not re.search(r"(?<!\w)/\w+/", text)


# ---- The checks themselves, on pages made for the purpose.

TARGET = "# A page\n\n## Two `words`, and more\n\n## Twice\n\n## Twice\n\n```\n# no heading\n```\n"


@pytest.fixture
def made_up(tmp_path):
    """Writes a page into a small repository."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "other.md").write_text(TARGET)
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "real.h").write_text("")

    def write(text):
        page = tmp_path / "docs" / "page.md"
        page.write_text(text)
        return page
    return write


@pytest.mark.parametrize("text", [
    "[a](other.md)", "[a](../engine)", "[a](../engine/real.h)", "[a](other.md#a-page)", "# Me\n[a](#me)",
    "[a](other.md#two-words-and-more)", "[a](other.md#twice)", "[a](other.md#twice-1)",
    "[a](https://example.org/none)", "![a](other.md)", "[a]: other.md", '<img src="other.md">',
    "`[a](none.md)`", "```\n[a](none.md)\n```\n", "text\n\n    [a](none.md)\n", "[](other.md)",
])
def test_good_links_pass(made_up, tmp_path, text):
    assert pages.dead_links(made_up(text), tmp_path) == []


@pytest.mark.parametrize("text", [
    "[a](none.md)", "[a](other.md#none)", "[a](#none)", "[a](other.md#no-heading)", "![a](none.png)",
    "[a](../../outside.md)", "[a](/engine/real.h)", "[a]: none.md", '<a href="none.md">a</a>',
    "[a](other.md#twice-2)", "[a](../engine/real.h#line)", "```\ncode\n```\n[a](none.md)",
    "[two\nlines](none.md)", "text\n    [a](none.md)\n",
])
def test_dead_links_are_found(made_up, tmp_path, text):
    (tmp_path.parent / "outside.md").write_text("")
    assert len(pages.dead_links(made_up(text), tmp_path)) == 1


@pytest.mark.parametrize("text, count", [
    ("`engine/real.h` and `engine/`", 0), ("`engine/none.h`", 1), ("`docs/none/deep.md`", 1),
    ("`engine/<type>.h`, `engine/*.cpp`, `infer run engine/none.h`", 0), ("`other/none.h`", 0),
    ("`build/release/infer`", 0), ("```\n`engine/none.h`\n```\n", 0),
])
def test_names_of_files_are_found(made_up, tmp_path, text, count):
    assert len(pages.missing_files(made_up(text), tmp_path)) == count


@pytest.mark.parametrize("block, count", [
    ("cpp engine/made.h\n  one\ntwo", 0), ("cpp engine/made.h\n  one\n…\nthree", 0),
    ("cpp engine/made.h\n…\nthree", 0), ("cpp\nany", 0), ("sh runnable\nany", 0),
    ("cpp engine/made.h\none", 1), ("cpp engine/made.h\n  one\nthree", 1),
    ("cpp engine/made.h\nthree\n…\ntwo", 1), ("cpp engine/made.h\ntwo\n…\ntwo", 1),
    ("cpp engine/none.h\n  one", 1), ("cpp engine/made.h\n  one\ntwo\nfour", 1),
])
def test_quotes_are_compared(made_up, tmp_path, block, count):
    (tmp_path / "engine" / "made.h").write_text("  one\ntwo\nthree\n")
    assert len(pages.wrong_quotes(made_up(f"```{block}\n```\n"), tmp_path)) == count


@pytest.mark.parametrize("text, flags", [
    ("`--temp 0.7`, `-n`", {"--temp", "-n"}), ("--temp", set()), ("`a --temp`", set()),
    ("```sh\ninfer run -p \"-x\" -n 5 # -y\ncp -r a b | infer chat --json\n```", {"-p", "-n", "--json"}),
    ("```c\ninfer --none\n```", set()), ("`--spec=auto`", {"--spec"}), ("`−1`, `-1`", set()),
])
def test_flags_are_found(text, flags):
    assert pages.flags_of(text) == flags


@pytest.mark.parametrize("block, count", [
    ("infer version", 0), ("infer no-such-command", 1), ("infer no-such-command\ninfer version", 1),
    ("infer no-such-command | cat", 1), ("infer info absent.gguf", 1),
    ("infer version > made.txt\ntest -s made.txt", 0), ("read line", 1),
])
def test_commands_that_fail_are_found(made_up, tmp_path, block, count):
    page = made_up(f"```sh runnable\n{block}\n```\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    assert len(pages.failed_commands(page, folder, INFER)) == count


def test_only_what_is_marked_is_run(made_up, tmp_path):
    page = made_up("```sh\nexit 1\n```\n\n    exit 1\n\n```\nexit 1\n```\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    assert pages.failed_commands(page, folder, INFER) == []


def test_blocks_of_a_page_share_a_folder(made_up, tmp_path):
    page = made_up("```sh runnable\necho x > a\n```\n\n```sh runnable\ntest -s a\n```\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    assert pages.failed_commands(page, folder, INFER) == []
