"""Texts held to grammars and JSON schemas: what ends parses and validates."""

import json
import re

import jsonschema
import pytest

from program import ROOT, fails, infer

SCHEMAS = json.loads((ROOT / "tests" / "data" / "schemas.json").read_text())
PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12},
                                           "age": {"type": "integer", "minimum": 0}},
          "required": ["name", "age"], "additionalProperties": False}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "synth.gguf"
    done = infer("synth", "custom", path, "--layers", 1, "--embedding", 64, "--feed-forward", 96,
                 "--heads", 4, "--kv-heads", 2, "--tokens", 1000, "--context", 2048)
    assert done.returncode == 0, done.stderr.decode()
    return path


def run(model, *arguments):
    done = infer("run", "-m", model, "-p", "Hello", "--quiet", "--json", *arguments)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def test_a_grammar_holds_the_text(model):
    grammar = 'root ::= ("yes" | "no") ", " [0-9]{2,3} "."'
    for seed in range(8):
        done = run(model, "--grammar", grammar, "-s", seed, "-n", 100)
        assert done["finish_reason"] == "stop"
        assert re.fullmatch(r"(yes|no), [0-9]{2,3}\.", done["text"])
    greedy = run(model, "--grammar", grammar, "--temp", 0)["text"]
    assert greedy == run(model, "--grammar", grammar, "--temp", 0, "-t", 1)["text"]


def test_a_schema_holds_the_text(model, tmp_path):
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(PERSON))
    ended = 0
    texts = run(model, "--json-schema-file", path, "-s", "1,2,3,4,5,6", "-n", 400)
    for done in texts:
        if done["finish_reason"] != "stop":
            continue
        ended += 1
        jsonschema.validate(json.loads(done["text"]), PERSON)
    assert ended > 0
    assert run(model, "-j", json.dumps(PERSON), "-s", 1, "-n", 400)["text"] == texts[0]["text"]


def test_schemas_of_all_kinds(model, tmp_path):
    ended = 0
    for schema in SCHEMAS[::12]:
        path = tmp_path / "schema.json"
        path.write_text(json.dumps(schema))
        for done in run(model, "--json-schema-file", path, "-s", "1,2", "-n", 200):
            if done["finish_reason"] != "stop":
                continue
            ended += 1
            jsonschema.Draft202012Validator(schema).validate(json.loads(done["text"]))
    assert ended > 0


def test_hundreds_of_optional_properties(model, tmp_path):
    names = [f"property_{i}" for i in range(250)]
    schema = {"type": "object", "properties": {name: {"type": "boolean"} for name in names},
              "required": names[200:202], "additionalProperties": False}
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(schema))
    ended = 0
    for done in run(model, "--json-schema-file", path, "-s", "1,2,3,4", "-n", 1500):
        if done["finish_reason"] != "stop":
            continue
        ended += 1
        value = json.loads(done["text"])
        jsonschema.validate(value, schema)
        assert list(value) == sorted(value, key=names.index)
    assert ended > 0


def test_a_grammar_names_tokens(model):
    for seed in range(4):
        done = run(model, "--grammar", 'root ::= <s> (!<[5]>){3} <[5]> "yes"', "-s", seed, "-n", 100)
        assert done["finish_reason"] == "stop"
        assert done["text"].endswith("yes")


def test_the_end_counts_even_where_it_is_ignored(model):
    done = run(model, "--grammar", 'root ::= "a"+', "--ignore-eos", "-n", 400, "-s", 2)
    assert set(done["text"]) == {"a"}


@pytest.mark.parametrize("arguments, says", [
    (["--grammar", "root ::= ("], ""),
    (["--grammar", "root ::= root 'x'"], ""),
    (["--grammar", "root ::= <[99999]>"], "line 1, column 10: the vocabulary has"),
    (["--grammar", "root ::= !<no such token>"], "line 1, column 11: <no such token> is not one"),
    (["-j", "{"], ""),
    (["-j", '{"type": "nonsense"}'], "type"),
    (["-j", '{"uniqueItems": true, "type": "array"}'], "uniqueItems"),
])
def test_what_is_no_grammar_is_refused(model, arguments, says):
    done = infer("run", "-m", model, "-p", "x", "--quiet", *arguments)
    assert done.returncode in (2, 3)
    assert done.stdout == b""
    assert says in done.stderr.decode()
    fails(2, "run", "-m", model, "-p", "x", "--grammar", "x", "-j", "{}")
