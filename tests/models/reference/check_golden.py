"""Compares the reference with stored logits: python3 -m tests.models.reference.check_golden DIR…"""

import json
import pathlib
import sys

import numpy as np

from .model import Model, nmse


def main():
    worst = 0.0
    for directory in sys.argv[1:]:
        for path in sorted(pathlib.Path(directory).glob("*.gguf")):
            try:
                model = Model(path)
            except KeyError as error:
                print(f"{path.stem:20} SKIPPED: tensor type {error} is not the reference's")
                continue
            description = json.loads(path.with_suffix(".json").read_text())
            exact = np.fromfile(path.with_suffix(".f32"), "<f4")
            found = model.logits(description["tokens"]).ravel()
            error = nmse(found, exact)
            worst = max(worst, error)
            print(f"{path.stem:20} {error:.3g}")
    return 0 if worst <= 1e-12 else 1


if __name__ == "__main__":
    sys.exit(main())
