"""Prints documents: python3 -m corpus [COUNT [SEED]]."""

import random
import sys

from .documents import document
from .render import render

if __name__ == "__main__":
    source = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 10):
        print(render(document(source)))
        print("=" * 40)
