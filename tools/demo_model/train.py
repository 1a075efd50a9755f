"""Trains a model: python3 train.py main OUT --stable STEPS --decay STEPS, then draft likewise.

OUT keeps the vocabulary, a checkpoint (from which a run that was stopped goes on), and a log. With
--seconds the steps are not given but found: the rate falls so that the run ends about then; the
numbers to repeat it with are in its report.
"""

import argparse
import datetime
import json
import math
import os
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from tokenizers import Tokenizer

import data
import vocabulary
from corpus.render import render
from model import SHAPES, Model

SEED = 1
VOCABULARY_DOCUMENTS = 20000
BATCH = 4096  # tokens of a step
SHORT = 256  # tokens of a row; the last steps have rows of the whole context
LONG_SHARE = 0.4  # of the decay
LONG_SHARE_AGAIN = 0.15
AGAIN_SEED = 5000
DECAY_SHARE = 0.35  # of a run whose steps are not given
CHECKPOINT_SECONDS = 150


def tokenizer_of(out):
    path = out / "vocabulary.json"
    if not path.exists():
        vocabulary.train(SEED, VOCABULARY_DOCUMENTS).save(str(path))
    return Tokenizer.from_file(str(path))


def optimizers(model, rate):
    """Muon for the matrices of the layers, AdamW for what is left (embedding, norms)."""
    matrices = [p for b in model.blocks for p in b.parameters() if p.dim() == 2]
    others = [model.embedding, *(p for p in model.parameters() if p.dim() == 1)]
    return [
        torch.optim.Muon(
            matrices, lr=rate, momentum=0.95, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"
        ),
        torch.optim.AdamW(others, lr=rate, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def losses(model, tokens):
    """The loss of every prediction, [batch, length]."""
    logits = F.linear(model(tokens[:, :-1]), model.embedding)
    return F.cross_entropy(
        logits.float().flatten(0, 1), tokens[:, 1:].flatten(), reduction="none"
    ).view(tokens.shape[0], -1)


@torch.no_grad()
def held_out_loss(model, tokenizer):
    """Mean loss over the held-out documents, each on its own: of all tokens, of written ones."""
    total, count = np.zeros(2), np.zeros(2)
    for ids, weights in data.encode(tokenizer, data.held_out()):
        ids = torch.tensor([ids[: model.shape.context + 1]])
        written = torch.tensor(weights[: ids.shape[1]])[1:] == 1
        loss = losses(model, ids)[0].double()
        total += loss.sum().item(), loss[written].sum().item()
        count += len(loss), written.sum().item()
    return total / count


class Schedule:
    """Warm-up, a constant rate, and a linear decay to 0; then perhaps once more a decay, from half
    of the rate, on rows of their own."""

    def __init__(self, stable, decay, again=0, warm=60):
        self.stable, self.decay, self.again, self.warm = stable, decay, again, warm

    def first_end(self):
        return self.stable + self.decay

    def steps(self):
        return self.first_end() + self.again

    def factor(self, step):
        if step < self.warm:
            return (step + 1) / self.warm
        if step < self.stable:
            return 1.0
        if step >= self.first_end():
            return 0.5 * (1 - (step - self.first_end()) / self.again)
        return max(0.0, 1 - (step - self.stable) / self.decay)

    def is_long(self, step):
        if step >= self.first_end():
            return step >= self.steps() - LONG_SHARE_AGAIN * self.again
        return step >= self.stable + (1 - LONG_SHARE) * self.decay


class Batches:
    """The rows of one process: of every batch of all `ranks` a part, each step's the same however
    often a run was stopped."""

    def __init__(self, tokenizer, context, rank, ranks):
        self.tokenizer, self.context = tokenizer, context
        self.rank, self.ranks = rank, ranks
        self.excluded = {render(d) for d in data.held_out()}
        self.start(SEED)

    def start(self, seed):
        self.streams = {
            n: data.endless(self.tokenizer, seed + n, self.excluded) for n in (SHORT, self.context)
        }

    def next(self, length):
        count = BATCH // length
        tokens, weights = data.rows(self.streams[length], count, length)
        part = slice(count * self.rank // self.ranks, count * (self.rank + 1) // self.ranks)
        scale = weights[:, 1:].astype(np.float32).sum()
        return (
            torch.from_numpy(tokens[part].astype(np.int64)),
            torch.from_numpy(weights[part, 1:].astype(np.float32) / scale),
        )


def add_gradients(model):
    """Sums the gradients of all processes."""
    grads = [p.grad for p in model.parameters()]
    flat = torch.cat([g.flatten() for g in grads])
    dist.all_reduce(flat)
    for g, part in zip(grads, flat.split([g.numel() for g in grads])):
        g.copy_(part.view_as(g))


def run(rank, args):
    if args.ranks > 1:
        dist.init_process_group(
            "gloo",
            init_method=f"tcp://127.0.0.1:{args.port}",
            rank=rank,
            world_size=args.ranks,
            timeout=datetime.timedelta(hours=3),
        )
    if rank == 0 and args.pid:
        args.pid.write_text(str(os.getpid()))
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    tokenizer = tokenizer_of(args.out)
    shape = SHAPES[args.size]
    model = Model(shape).initialise(SEED)
    batches = Batches(tokenizer, shape.context, rank, args.ranks)
    plan = Schedule(args.stable or 10**9, args.decay or 1, args.again)
    optims = optimizers(model, args.rate)
    step, spent = 0, 0.0
    checkpoint = args.out / f"{args.size}.pt"
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        for optim, state in zip(optims, saved["optims"]):
            optim.load_state_dict(state)
        step, spent, plan.stable, plan.decay = (
            saved["step"],
            saved["spent"],
            saved["stable"],
            saved["decay"],
        )
        again = step >= plan.first_end()
        if again:
            batches.start(SEED + AGAIN_SEED)
        for i in range(plan.first_end() if again else 0, step):
            batches.next(shape.context if plan.is_long(i) else SHORT)

    def save():
        partial = checkpoint.with_suffix(".part")
        torch.save(
            {
                "model": model.state_dict(),
                "optims": [o.state_dict() for o in optims],
                "step": step,
                "spent": spent,
                "stable": plan.stable,
                "decay": plan.decay,
            },
            partial,
        )
        partial.replace(checkpoint)

    compiled = torch.compile(losses, dynamic=False)
    begin = last_save = time.monotonic()
    mean = None
    while step < plan.steps():
        if args.seconds and plan.stable == 10**9:
            # All processes have to agree: the first one's clock counts.
            late = torch.tensor(
                float(spent + time.monotonic() - begin > args.seconds * (1 - DECAY_SHARE))
            )
            if args.ranks > 1:
                dist.broadcast(late, 0)
            if late:
                plan.stable = step
                plan.decay = int(step * DECAY_SHARE / (1 - DECAY_SHARE) * args.decay_scale)
                if rank == 0:
                    print(f"--stable {plan.stable} --decay {plan.decay}", flush=True)
        if step == plan.first_end():
            batches.start(SEED + AGAIN_SEED)
        long = plan.is_long(step)
        batch, weight = batches.next(shape.context if long else SHORT)
        for optim in optims:
            for group in optim.param_groups:
                group["lr"] = args.rate * plan.factor(step)
        with torch.autocast("cpu", torch.bfloat16):
            # Too few steps have long rows for compiling to pay off.
            loss = ((losses if long else compiled)(model, batch) * weight).sum()
        loss.backward()
        if args.ranks > 1:
            add_gradients(model)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optim in optims:
            optim.step()
            optim.zero_grad(set_to_none=True)
        value = loss.item() * args.ranks
        mean = value if mean is None else 0.97 * mean + 0.03 * value
        step += 1
        if rank != 0:
            continue
        if step % 25 == 0 or step == plan.steps():
            line = json.dumps(
                {
                    "step": step,
                    "loss": round(mean, 4),
                    "seconds": round(spent + time.monotonic() - begin),
                }
            )
            print(line, flush=True)
            with open(args.out / f"{args.size}.log", "a", encoding="utf-8") as log:
                log.write(line + "\n")
        if time.monotonic() - last_save > CHECKPOINT_SECONDS or step == plan.steps():
            spent += time.monotonic() - begin
            begin = last_save = time.monotonic()
            save()
    if rank == 0:
        loss, written = held_out_loss(model, tokenizer)
        report = {
            "stable": plan.stable,
            "decay": plan.decay,
            "tokens": step * BATCH,
            "seconds": round(spent),
            "perplexity": round(math.exp(loss), 4),
            "perplexity_of_answers": round(math.exp(written), 4),
        }
        print(json.dumps(report))
        (args.out / f"{args.size}.json").write_text(json.dumps(report) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("size", choices=SHAPES)
    parser.add_argument("out", type=Path)
    parser.add_argument("--stable", type=int, help="steps before the decay")
    parser.add_argument("--decay", type=int, help="steps of the decay")
    parser.add_argument("--again", type=int, default=0, help="steps of a second decay")
    parser.add_argument("--seconds", type=float, help="instead: how long to train")
    parser.add_argument("--decay-scale", type=float, default=1.0)
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--ranks", type=int, default=2, help="processes, of one thread each")
    parser.add_argument("--port", type=int, default=29511)
    parser.add_argument("--pid", type=Path, help="file for the id of the first process")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer_of(args.out)
    if args.ranks == 1:
        run(0, args)
    else:
        torch.multiprocessing.spawn(run, (args,), args.ranks)


if __name__ == "__main__":
    main()
