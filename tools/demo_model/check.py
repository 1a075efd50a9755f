"""Holds a model file against the trained model and the real program, and asks it the questions.

python3 check.py main OUT FILE.gguf PROGRAM: tokens as the trainer has them, logits as PyTorch
computes them from the same rounded weights, then the answers to the questions at temperature 0.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import torch
from jinja2 import Environment
from tokenizers import Tokenizer

import data
from corpus.render import CHAT_TEMPLATE, render
from export import q8_0_values
from model import SHAPES, Model

ROOT = Path(__file__).resolve().parents[2]
QUESTIONS = ROOT / "tests" / "data" / "demo_questions.json"
TEMPLATE = Environment().from_string(CHAT_TEMPLATE)


def rounded(path, shape):
    """The model with its matrices as the file holds them."""
    state = torch.load(path)["model"]
    for name, p in state.items():
        if p.dim() == 2:
            state[name] = torch.from_numpy(q8_0_values(p.float().numpy()))
    model = Model(shape)
    model.load_state_dict(state)
    return model


def check_tokens(program, file, tokenizer):
    text = "".join(render(d) for d in data.held_out())
    done = subprocess.run(
        [program, "tokenize", "-m", file, "--json"],
        input=text.encode(),
        capture_output=True,
        check=True,
    )
    ours, theirs = tokenizer.encode(text).ids, json.loads(done.stdout)
    assert ours == theirs, "the tokens differ"
    print(f"{len(ours)} tokens are equal")
    return ours


def check_logits(program, file, model, tokens):
    worst = 0.0
    for begin, count in [(0, 5), (100, 200), (300, 900)]:
        part = tokens[begin : begin + count]
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            out = Path(folder) / "logits.f32"
            subprocess.run(
                [
                    program,
                    "eval",
                    "-q",
                    "-m",
                    file,
                    "--exact",
                    "--tokens",
                    ",".join(map(str, part)),
                    "--logits",
                    out,
                ],
                check=True,
            )
            theirs = np.fromfile(out, np.float32).reshape(len(part), -1)
            ours = model.logits(torch.tensor([part]))[0].numpy()
        worst = max(worst, np.abs(ours - theirs).max() / np.abs(ours).max())
    print(f"logits differ by at most {worst:.2g} of the largest")


def ask(program, file, messages, tokens=300):
    prompt = TEMPLATE.render(messages=messages, add_generation_prompt=True)
    done = subprocess.run(
        [program, "run", "-q", "-m", file, "-p", prompt, "--temp", "0", "-n", str(tokens)],
        capture_output=True,
        check=True,
    )
    return done.stdout.decode()


def acceptable(answer, contains):
    return all(any(x in answer for x in one.split("|")) for one in contains)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("size", choices=SHAPES)
    parser.add_argument("out", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("program", type=Path)
    args = parser.parse_args()
    shape = SHAPES[args.size]
    tokenizer = Tokenizer.from_file(str(args.out / "vocabulary.json"))
    tokens = check_tokens(args.program, args.file, tokenizer)
    check_logits(args.program, args.file, rounded(args.out / f"{args.size}.pt", shape), tokens)
    good = 0
    questions = json.loads(QUESTIONS.read_text(encoding="utf-8"))["questions"]
    for q in questions:
        answer = ask(args.program, args.file, q["messages"])
        fine = acceptable(answer, q["contains"])
        good += fine
        print(
            f"{'  ' if fine else '! '}{q['messages'][-1]['content']}\n    "
            + answer.replace("\n", "\n    ")
        )
    print(f"{good} of {len(questions)} answers are acceptable")


if __name__ == "__main__":
    main()
