"""What the headers that most units include cost to compile: the lines they expand to, held to a table.

A header that grows by more than a fifth fails: most often it includes something heavy that belongs in a
.cpp. Where that is what is wanted, or where headers have become lighter, write the table anew:
python3 tests/build/test_header_cost.py BUILD_DIRECTORY
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "tests" / "data" / "header_lines.json"
FOLDERS = ("engine", "formats", "models", "backends", "app")
MOST_INCLUDED = 20
GROWTH = 1.2
MOST_OF_NEW = 50_000  # lines of a header that is not in the table


def most_included():
    """(header as it is included, a source that includes it), of the most frequent first."""
    count, source = collections.Counter(), {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".h", ".hpp", ".cpp"):
                continue
            for name in re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE):
                count[name] += 1
                if path.suffix == ".cpp":
                    source.setdefault(name, path)
    return [(name, source[name]) for name, _ in count.most_common(MOST_INCLUDED) if name in source]


def compiles(unit, source):
    """Whether a unit is this source, or several that are compiled together and it is among them."""
    return unit == source or (
        "Unity" in unit.parts and f'#include "{source}"' in unit.read_text(encoding="utf-8"))


def command_of(build, source):
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if compiles(pathlib.Path(entry["file"]), source):
            words = shlex.split(entry["command"])
            first = next(i for i, word in enumerate(words) if re.search(r"(c|g|clang)\+\+", word))
            flags = [word for word in words[first + 1:] if word.startswith(("-D", "-I", "-std", "-m"))]
            return entry["directory"], [words[first], *flags]
    # A back end may be left out.
    assert source.is_relative_to(ROOT / "backends"), f"{source}: the build has no such unit"
    return None


def expanded_lines(build, header, source):
    found = command_of(build, source)
    if found is None:
        return 0
    folder, command = found
    done = subprocess.run([*command, "-E", "-P", "-x", "c++", "-"], cwd=folder, text=True,
                          input=f'#include "{header}"\n', capture_output=True, check=True)
    return sum(1 for line in done.stdout.splitlines() if line.strip())


def measured(build):
    headers = most_included()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        lines = pool.map(lambda pair: expanded_lines(build, *pair), headers)
        return dict(zip((name for name, _ in headers), lines))


def test_headers_stay_as_light_as_they_are():
    if not os.environ.get("INFER_BUILD_DIR"):
        pytest.skip("INFER_BUILD_DIR is not set")
    table = json.loads(TABLE.read_text())
    now = measured(pathlib.Path(os.environ["INFER_BUILD_DIR"]))
    grown = {name: (table.get(name), lines) for name, lines in now.items()
             if lines > (GROWTH * table[name] if name in table else MOST_OF_NEW)}
    assert not grown, f"lines in the table and now: {grown}"


if __name__ == "__main__":
    found = measured(pathlib.Path(sys.argv[1]).resolve())
    TABLE.write_text(json.dumps(found, indent=1) + "\n")
    print(TABLE.read_text())
