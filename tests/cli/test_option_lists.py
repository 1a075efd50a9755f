"""The lists of options, samplers.def and load_options.def: each row is everywhere where it belongs."""

import re

import pytest

from program import ROOT, fails, infer, infer_typed

MODEL = ROOT / "tests" / "data" / "golden" / "llama-q4_0.gguf"
LISTS = ROOT / "engine" / "include" / "infer"


def rows(name, macro):
    """The arguments of each use of the macro; texts as one, without quotation marks."""
    text = re.sub(r"^(#|//).*$", "", (LISTS / name).read_text(encoding="utf-8"), flags=re.M)
    for arguments in re.findall(rf"^{macro}\((.*?)\)$", text, re.M | re.S):
        parts = re.findall(r'((?:"[^"]*"\s*)+|[^,"]+)(?:,|$)', arguments)
        yield [re.sub(r'"\s*"', "", part.strip()).strip('"') for part in parts]


SAMPLING = [dict(zip("type name preset low high key flags value help".split(), row))
            for row in rows("samplers.def", "INFER_SAMPLING")]
STEPS = [row[0] for row in rows("samplers.def", "INFER_SAMPLER")]
LOADING = ([dict(zip("name preset choices group flags value help".split(), row))
            for row in rows("load_options.def", "INFER_LOAD_TEXT")] +
           [dict(zip("name choices group flags value help".split(), row))
            for row in rows("load_options.def", "INFER_LOAD_LIST")] +
           [dict(zip("type name preset low high group flags value help".split(), row))
            for row in rows("load_options.def", "INFER_LOAD_NUMBER")] +
           [dict(zip("name preset group flags help".split(), row))
            for row in rows("load_options.def", "INFER_LOAD_FLAG")])
ON_LINE = [row for row in LOADING if row["group"] != "none"]


def names_of(row):
    return [name for name in row["flags"].split(",") if not name.startswith("!")]


def shown(*arguments):
    done = infer(*arguments)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_the_lists_are_read():
    assert len(SAMPLING) >= 21 and len(STEPS) >= 9 and len(LOADING) >= 26 and len(ON_LINE) >= 19
    assert {"temperature", "dry_penalty_last"} <= {row["name"] for row in SAMPLING}
    assert {"device", "drafters", "exact", "cache_folder_limit"} <= {row["name"] for row in LOADING}
    assert all(len(row) in (5, 6, 7, 9) and row["help"] for row in SAMPLING + LOADING)


@pytest.mark.parametrize("command", ["run", "chat"])
def test_help_and_completion_have_every_row(command):
    text = " ".join(shown("help", command).split())
    scripts = {shell: shown("completion", shell) for shell in ("bash", "zsh", "fish")}
    for row in SAMPLING + ON_LINE:
        names = names_of(row)
        assert " ".join(row["help"].split()) in text, row["name"]
        for name in names:
            assert re.search(rf"(?<![\w-]){name}[, ]", text), name
            assert all(name.lstrip("-") in script for script in scripts.values()), name
    assert ", ".join(STEPS) in text


def test_the_chat_has_every_number():
    def settings(lines):
        """With the built-in model: the small one has no chat template."""
        said = infer_typed("chat", "-q", lines=lines).stderr.decode()
        return said.split("They are now:")[1]
    now = settings(["/set"])
    for row in SAMPLING:
        assert re.search(rf"^  {names_of(row)[0]} ", now, re.M), row["name"]
    flags = " ".join(f"{names_of(row)[0]} {row['low'] if float(row['low']) >= 0 else 0}"
                     for row in SAMPLING)
    now = settings([f"/set {flags}", "/set"])
    for row in SAMPLING:
        assert re.search(rf"^  {names_of(row)[0]} +[\d.e-]+ *$", now, re.M), row["name"]


def test_numbers_out_of_range_are_refused_by_their_flag():
    for row in SAMPLING:
        flag, low = names_of(row)[0], float(row["low"])
        if row["type"] == "float":
            fails(2, "run", "-m", MODEL, "-p", "x", flag, "nan", says=f"{flag}: expected")
        if row["name"] != "top_k":  # below 0 it is 0
            fails(2, "run", "-m", MODEL, "-p", "x", flag, f"{low - 1:.12g}", says=f"{flag}: expected")
        if row["value"] == "P":
            fails(2, "run", "-m", MODEL, "-p", "x", flag, 1.5, says="to 1, found 1.5")


def test_the_pages_have_every_sampler():
    text = (ROOT / "docs" / "sampling.md").read_text(encoding="utf-8")
    assert [row["name"] for row in SAMPLING if f"`{names_of(row)[0]}" not in text] == []
    assert "`" + ";".join(STEPS) + "`" in text
