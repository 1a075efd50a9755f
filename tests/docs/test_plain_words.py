"""What users read is in plain English: no message or help text has one of the phrases that were
found to be unclear and rewritten."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STRING = re.compile(r'"((?:\\.|[^"\\\n])*)"|//[^\n]*')
UNCLEAR = re.compile(
    r"\b(parted|nobody|whoever|anew|what of|of which|of it alone|goes on|go on|apart by|those that|"
    r"as (it|they) lies?|what came|what is no|all the same|in one piece|is no (valid|file|group|"
    r"number|type|vocabulary)\b)")


def unclear_texts(source):
    """The string literals of a C++ source that have an unclear phrase. Literals that follow one
    another are one text; comments are skipped."""
    texts, end = [], 0
    for found in STRING.finditer(source):
        if found[1] is None:
            continue
        joined = texts and not source[end:found.start()].strip()
        texts.append(texts.pop() + found[1] if joined else found[1])
        end = found.end()
    return [text for text in texts if " " in text and UNCLEAR.search(text)]


@pytest.mark.parametrize("folder", ["app", "backends", "engine", "formats", "models"])
def test_messages_are_in_plain_words(folder):
    sources = [path for path in (ROOT / folder).rglob("*") if path.suffix in (".cpp", ".h", ".hpp")]
    assert len(sources) > 5
    unclear = {str(path.relative_to(ROOT)): unclear_texts(path.read_text(encoding="utf-8"))
               for path in sources}
    assert {path: texts for path, texts in unclear.items() if texts} == {}


@pytest.mark.parametrize("source, count", [
    ('fail("names parted by commas")', 1), ('fail("names separated by commas")', 0),
    ('fail("all goes "\n     "on on the CPU")', 1), ('// "parted by" commas', 0),
    ('a("nobody"); b("is here")', 0), ('x("a \\" nobody")', 1), ('name("parted")', 0),
])
def test_unclear_texts_are_found(source, count):
    assert len(unclear_texts(source)) == count
