#!/usr/bin/env python3
"""Makes the pictures in docs/images: runs commands and draws what a terminal would show, as SVG.

usage: tools/docs/pictures.py [--infer FILE] [--to FOLDER] [--note TEXT] [NAME ...]

Without names it makes all pictures. The program is build/release/infer unless --infer names another.
The last line of a picture names the processor, and then has the note, such as what else was running.
"plan" and "bench" need 700 MB in the temporary folder for a model of random weights.
"""

import argparse
import html
import os
import pathlib
import selectors
import subprocess
import sys
import tempfile
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = "tinyllama-1.1b-q4_k_m.gguf"
SYNTH = ["synth", "tinyllama-1.1b", MODEL, "--type", "q4_k_m", "-q"]
# Name: the commands that prepare it, and the commands that it shows.
PICTURES = {
    "session": ([], [
        'infer chat -p "What can infer do?" -st --temp 0',
        'infer chat -p "Give me a JSON object with name and age." -st -q -s 3',
        'infer run -p "Once upon a time" -n 60 -s 7 -q',
    ]),
    "plan": ([SYNTH], [f"infer plan {MODEL} -c 2048 --memory 2G"]),
    "bench": ([SYNTH], [f"infer bench {MODEL} -p 256 -n 32 -b 1,4"]),
}

COLUMNS = 96
LINE_HEIGHT, CHARACTER_WIDTH, MARGIN = 20, 8.43, 16
STYLE = """\
    text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
    .command { fill: #ffffff; font-weight: bold }
    .stdout { fill: #d0d7de }
    .stderr { fill: #8b949e }
    .caption { fill: #8b949e; font-style: italic }"""


def output_of(command, folder, path):
    """(stream, text) in the order in which they came."""
    environment = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}", "HOME": str(folder)}
    process = subprocess.Popen(["bash", "-c", command], cwd=folder, env=environment,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    parts = []
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, "stdout")
        selector.register(process.stderr, selectors.EVENT_READ, "stderr")
        while selector.get_map():
            for key, _ in selector.select():
                data = os.read(key.fd, 65536)
                if not data:
                    selector.unregister(key.fileobj)
                elif parts and parts[-1][0] == key.data:
                    parts[-1] = (key.data, parts[-1][1] + data)
                else:
                    parts.append((key.data, data))
    if process.wait() != 0:
        sys.exit(f"{command}: exit code {process.returncode}\n{parts}")
    return [(stream, data.decode().rstrip("\n")) for stream, data in parts if data.strip()]


def lines_of(commands, folder, path):
    """(class, line) of a whole session."""
    lines = []
    for command in commands:
        if lines:
            lines.append(("stdout", ""))
        lines.append(("command", "$ " + command))
        for stream, text in output_of(command, folder, path):
            for line in text.splitlines():
                lines += [(stream, part) for part in textwrap.wrap(
                    line, COLUMNS, drop_whitespace=False, break_on_hyphens=False) or [""]]
    return lines


def svg(lines):
    width = round(2 * MARGIN + COLUMNS * CHARACTER_WIDTH)
    height = 2 * MARGIN + LINE_HEIGHT * len(lines)
    drawn = [f'  <text class="{kind}" x="{MARGIN}" y="{MARGIN + LINE_HEIGHT * i + 14}">'
             f"{html.escape(line.rstrip(), quote=False)}</text>"
             for i, (kind, line) in enumerate(lines) if line.strip()]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" '
        f'viewBox="0 0 {width} {height}" width="{width}">',
        "  <style>", STYLE, "  </style>",
        f'  <rect width="{width}" height="{height}" rx="8" fill="#161b22"/>', *drawn, "</svg>", ""])


def processor():
    with open("/proc/cpuinfo") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return f"{names[0] if names else 'unknown processor'}, {os.cpu_count()} processors"


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n")[2].removeprefix("usage: "))
    parser.add_argument("--infer", default=ROOT / "build" / "release" / "infer")
    parser.add_argument("--to", type=pathlib.Path, default=ROOT / "docs" / "images")
    parser.add_argument("--note")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    caption = processor() + (f"; {args.note}" if args.note else "")
    unknown = set(args.names) - set(PICTURES)
    if unknown:
        parser.error(f"unknown picture {', '.join(unknown)}; there are {', '.join(PICTURES)}")
    args.to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder, path = pathlib.Path(temporary) / "work", pathlib.Path(temporary) / "bin"
        folder.mkdir()
        path.mkdir()
        (path / "infer").symlink_to(pathlib.Path(args.infer).resolve())
        for name in args.names or PICTURES:
            preparations, commands = PICTURES[name]
            for preparation in preparations:
                if not (folder / preparation[2]).exists():
                    subprocess.run([path / "infer", *preparation], cwd=folder, check=True)
            lines = lines_of(commands, folder, path)
            lines += [("stdout", ""), ("caption", caption)]
            (args.to / f"{name}.svg").write_text(svg(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
