"""Every schema of tests/data/schemas.json holds the built-in model's text."""

import json

import jsonschema
import pytest

from program import ROOT, infer

SCHEMAS = json.loads((ROOT / "tests" / "data" / "schemas.json").read_text())
SEEDS = "1,2,3"
PROMPT = "Give me a JSON object with name and age."
# Most documents end well before this many tokens; what does not is not judged.
TOKENS = 200


def wrong(schema, text):
    """What is wrong with a text that ended; None: nothing."""
    try:
        value = json.loads(text)
    except ValueError as error:
        return f"no JSON: {error}"
    validator = jsonschema.Draft202012Validator(
        schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    return next((error.message for error in validator.iter_errors(value)), None)


def test_what_ends_is_valid(tmp_path):
    assert len(SCHEMAS) >= 200
    path = tmp_path / "schema.json"
    texts, ended, schemas_ended, faults = 0, 0, 0, []
    for schema in SCHEMAS:
        jsonschema.Draft202012Validator.check_schema(schema)
        path.write_text(json.dumps(schema))
        done = infer("run", "-p", PROMPT, "-q", "--json", "-n", TOKENS, "-s", SEEDS, "-t", 1,
                     "--json-schema-file", path)
        assert done.returncode == 0, f"{schema}: {done.stderr.decode()}"
        before = ended
        for one in json.loads(done.stdout):
            texts += 1
            if one["finish_reason"] != "stop":
                continue
            ended += 1
            if fault := wrong(schema, one["text"]):
                faults.append(f"{json.dumps(schema)} seed {one['seed']}: {one['text']!r}: {fault}")
        schemas_ended += ended > before
    print(f"{len(SCHEMAS)} schemas, {texts} texts, {ended} ended, of {schemas_ended} schemas")
    assert not faults, "\n".join(faults)
    assert texts == 3 * len(SCHEMAS)
    # Without ends nothing would have been judged; 903 of 1085 and 202 of 217 when this was written.
    assert ended >= 0.6 * texts
    assert schemas_ended >= 0.8 * len(SCHEMAS)


@pytest.mark.parametrize("schema, text, says", [
    ({"type": "integer"}, "1.5", "is not of type"),
    ({"format": "date"}, '"2023-02-29"', "is not a 'date'"),
    ({}, '{"a": ', "no JSON"),
    ({"maximum": 3}, "3", None),
])
def test_the_judge_sees_what_is_wrong(schema, text, says):
    found = wrong(schema, text)
    assert found is None if says is None else says in found
