"""What is checked of the pages of the documentation: links, names of files, and commands."""

import os
import pathlib
import re
import subprocess
import urllib.parse

FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})\s*(.*)$")
SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
DEFINITION = re.compile(r"^ {0,3}\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
HTML = re.compile(r"<(?:a|img)\b[^>]*?\b(?:href|src)=\"([^\"]+)\"")
HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$", re.MULTILINE)
RUNNABLE = "sh runnable"


def taken_apart(text):
    """The prose, without blocks of code, and the fenced blocks as (info, code)."""
    prose, blocks = [], []
    fence = None
    previous, indented = "", False
    for line in text.splitlines():
        found = FENCE.match(line)
        if fence is not None:
            if found and found[1].startswith(fence) and not found[2]:
                fence = None
            else:
                blocks[-1][1].append(line)
            continue
        if found:
            fence = found[1]
            blocks.append((found[2].strip(), []))
            continue
        # A block that is indented begins after an empty line.
        indented = line.startswith("    ") and (indented or not previous.strip())
        if not indented:
            prose.append(line)
        previous = line
    return "\n".join(prose), [(info, "\n".join(lines) + "\n") for info, lines in blocks]


def anchors_of(text):
    """The anchors of the headings, as GitHub makes them."""
    anchors, count = set(), {}
    for heading in HEADING.findall(taken_apart(text)[0]):
        plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        seen = count.get(anchor, 0)
        count[anchor] = seen + 1
        anchors.add(f"{anchor}-{seen}" if seen else anchor)
    return anchors


def links_of(text):
    prose = SPAN.sub("", taken_apart(text)[0])
    return [*LINK.findall(prose), *DEFINITION.findall(prose), *HTML.findall(prose)]


def dead_links(page, root):
    """What is wrong with the links of a page, a line each."""
    wrong = []
    for link in links_of(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue  # elsewhere
        path, _, anchor = urllib.parse.unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page.resolve()
        if path.startswith("/") or not target.is_relative_to(root.resolve()):
            wrong.append(f"{link}: leads out of the repository")
        elif not target.exists():
            wrong.append(f"{link}: there is no such file")
        elif anchor and (target.suffix != ".md" or
                         anchor not in anchors_of(target.read_text(encoding="utf-8"))):
            wrong.append(f"{link}: there is no such heading")
    return wrong


def missing_files(page, root):
    """Code spans that name a file below a folder of the repository where there is none."""
    folders = {path.name for path in root.iterdir() if path.is_dir()} - {"build", ".git"}
    wrong = []
    for _, span in SPAN.findall(taken_apart(page.read_text(encoding="utf-8"))[0]):
        if not re.fullmatch(r"[\w.+-]+(/[\w.+-]+)*/?", span) or "/" not in span:
            continue  # a command, or a pattern such as engine/quant/<type>.h
        if span.split("/")[0] in folders and not (root / span).exists():
            wrong.append(f"`{span}`: there is no such file")
    return wrong


def flags_of(text):
    """Flags of the program: in spans that begin with one, and in lines of blocks that call it."""
    prose, blocks = taken_apart(text)
    said = [span.split()[0] for _, span in SPAN.findall(prose) if re.match(r"--?[a-zA-Z]", span)]
    for info, code in blocks:
        if not info.startswith("sh"):
            continue
        code = re.sub(r"'[^']*'|\"[^\"]*\"", "TEXT", code)
        for command in re.split(r"[|&;\n]+", re.sub(r"#.*", "", code)):
            words = command.split()
            if words[:1] == ["infer"]:
                said += words
    return {re.match(r"[\w-]+", word)[0] for word in said if re.match(r"--?[a-zA-Z]", word)}


def quotes_of(text):
    """Blocks of code that name the file they are from, as (path, code): ```cpp engine/ops/add.cpp"""
    named = [(info.split(), code) for info, code in taken_apart(text)[1]]
    return [(words[1], code) for words, code in named if len(words) == 2 and words[1] != "runnable"]


def wrong_quotes(page, root):
    """Quotes that are not in their file. A line of "…" stands for lines that are left out; what
    stands between must be lines of the file as they are, in its order."""
    wrong = []
    for path, code in quotes_of(page.read_text(encoding="utf-8")):
        file = root / path
        if not file.is_file():
            wrong.append(f"{path}: there is no such file")
            continue
        lines = file.read_text(encoding="utf-8").splitlines()
        parts, at = [[]], 0
        for line in code.splitlines():
            if line.strip() == "…":
                parts.append([])
            else:
                parts[-1].append(line)
        for part in filter(None, parts):
            found = next((i for i in range(at, len(lines)) if lines[i:i + len(part)] == part), None)
            if found is None:
                wrong.append(f"{path}: does not have\n" + "\n".join(part))
                break
            at = found + len(part)
    return wrong


def runnable_blocks(text):
    return [code for info, code in taken_apart(text)[1] if info == RUNNABLE]


def failed_commands(page, folder, program):
    """Runs the runnable blocks of a page one after another in a folder; what is wrong with them.

    A block fails if one of its commands does, also within a pipe.
    """
    path = folder / ".bin"
    path.mkdir()
    (path / "infer").symlink_to(pathlib.Path(program).resolve())
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("XDG_", "INFER_"))}
    environment.update(PATH=f"{path}:{os.environ['PATH']}", HOME=str(folder))
    wrong = []
    for block in runnable_blocks(page.read_text(encoding="utf-8")):
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=folder, env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=600)
        if done.returncode != 0:
            wrong.append(f"exit code {done.returncode} of\n{block}"
                         f"{done.stderr.decode(errors='replace')}")
    return wrong
