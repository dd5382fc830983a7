"""Trains a small language model with DistributedDataParallel over gloo."""

import argparse
import datetime
import json
import logging
import os
import sys
import time
from types import SimpleNamespace

import callbacks
import side
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from tracker import Tracker

log = logging.getLogger("train")


def parse_arguments():
    parser = argparse.ArgumentParser(description="Train a small language model.")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--save-every", type=int, default=20)
    parser.add_argument("--data", default="data")
    parser.add_argument("--output", default="checkpoints")
    parser.add_argument("--resume", default=None)
    parser.add_argument("--tracker", default=None)
    parser.add_argument("--skip-bad", action="store_true")
    parser.add_argument("--style", choices=["plain", "megatron", "json", "bare"], default="plain")
    parser.add_argument("--timeout", type=float, default=60)
    return parser.parse_args()


class Shard(Dataset):
    """The records of one rank."""

    def __init__(self, folder, rank):
        self.path = os.path.join(folder, f"shard-{rank:05d}.jsonl")
        with open(self.path, encoding="utf-8") as file:
            self.rows = file.read().splitlines()

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return json.loads(self.rows[index])


def collate(rows):
    return {
        "tokens": torch.tensor([row["tokens"] for row in rows]),
        "weight": torch.tensor([row["weight"] for row in rows]),
        "source": [row["source"] for row in rows],
        "length": [row["length"] for row in rows],
        "rows": rows,
    }


class Model(nn.Module):
    def __init__(self, hidden, vocabulary=128):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, hidden)
        self.mix = nn.GRU(hidden, hidden, batch_first=True)
        self.head = nn.Linear(hidden, vocabulary)

    def forward(self, tokens):
        mixed, _ = self.mix(self.embed(tokens))
        return self.head(mixed)


def set_up_logging(style, rank, world):
    form = {
        "plain": f"%(asctime)s %(levelname)s [rank {rank}] %(name)s: %(message)s",
        "megatron": f"[%(asctime)s][rank{rank}/{world}][%(levelname)s] %(message)s",
        "json": '{"time": "%(asctime)s", "level": "%(levelname)s", "rank": '
        + str(rank)
        + ', "message": "%(message)s"}',
        "bare": "%(message)s",
    }[style]
    logging.basicConfig(level=logging.INFO, format=form, stream=sys.stdout, force=True)


def report(run, loss, seconds):
    step, total = run.step, run.args.steps
    lr = run.args.lr
    if run.args.style == "megatron":
        if run.rank == run.world - 1:
            print(
                f" iteration {step:8d}/{total:8d} | consumed samples: {step * run.args.batch_size * run.world:12d} | "
                f"elapsed time per iteration (ms): {seconds * 1000:.1f} | learning rate: {lr:.6E} | "
                f"lm loss: {loss:.6E} | number of skipped iterations:   0 | number of nan iterations:   0 |"
            )
    elif run.args.style == "bare":
        if run.rank == 0:
            print(f"step {step}/{total} loss {loss:.4f} ({seconds * 1000:.0f} ms/step)")
    elif run.rank == 0 or step % 10 == 0:
        log.info("step %d/%d loss=%.4f grad_norm=%.3f lr=%.2e errors=0", step, total, loss, 0.5 + loss / 9, lr)


def load(path, model, run):
    state = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(state["model"])
    log.info("resumed from %s at step %d", path, state["step"])
    return state["step"]


def save(model, run):
    path = os.path.join(run.args.output, f"step-{run.step:06d}.pt")
    if run.rank == 0:
        os.makedirs(run.args.output, exist_ok=True)
        torch.save({"model": model.state_dict(), "step": run.step}, path)
        log.info("saved checkpoint %s", path)
        callbacks.on_save(path, run)


def batches(loader, run):
    """The rank's batches; with --skip-bad a batch that cannot be read is logged and left out."""
    iterator = iter(loader)
    while True:
        try:
            yield next(iterator)
        except StopIteration:
            return
        except ValueError:
            if not run.args.skip_bad:
                raise
            log.exception("skipping a batch that cannot be read")


def train(run):
    args = run.args
    tracker = Tracker(args.tracker, log) if args.tracker and run.rank == 0 else None
    callbacks.on_start(run)
    torch.manual_seed(7)
    model = callbacks.on_model(Model(args.hidden), run)
    start = load(args.resume, model, run) if args.resume else 0
    log.info("model has %d parameters", sum(p.numel() for p in model.parameters()))
    wrapped = DistributedDataParallel(model) if run.world > 1 else model
    optimizer = torch.optim.AdamW(wrapped.parameters(), lr=args.lr)
    loader = DataLoader(
        Shard(args.data, run.rank), batch_size=args.batch_size, collate_fn=collate, num_workers=args.workers
    )
    side.mark(run.rank, 0)
    for step, batch in enumerate(batches(loader, run), start + 1):
        run.step, began = step, time.perf_counter()
        batch = callbacks.on_batch(batch, run)
        logits = wrapped(batch["tokens"][:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch["tokens"][:, 1:].flatten())
        loss = callbacks.on_loss(loss * batch["weight"].mean(), run)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        callbacks.on_step(run)
        report(run, loss.item(), time.perf_counter() - began)
        side.mark(run.rank, run.step)
        if tracker and run.step % 10 == 0:
            tracker.send({"step": run.step, "loss": loss.item()})
        if run.step % args.save_every == 0:
            save(model, run)
        if run.step >= args.steps:
            break
    callbacks.on_end(run)


def main():
    args = parse_arguments()
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    set_up_logging(args.style, rank, world)
    if "MASTER_ADDR" in os.environ:
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=args.timeout))
    log.info("torch %s, rank %d of %d, %d threads", torch.__version__, rank, world, torch.get_num_threads())
    run = SimpleNamespace(args=args, rank=rank, world=world, step=0, log=log)
    train(run)
    log.info("training finished after %d steps", run.step)
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
