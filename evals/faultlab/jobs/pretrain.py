"""Pretrains a small language model with accelerate."""

import argparse
import logging
import sys
import time
from types import SimpleNamespace

import torch
from accelerate import Accelerator
from accelerate.logging import get_logger
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader

import callbacks
import side
from records import Records
from train import Model, collate

log = get_logger(__name__)


def parse_arguments():
    parser = argparse.ArgumentParser(description="Pretrain a small language model.")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--save-every", type=int, default=20)
    parser.add_argument("--data", default="data")
    parser.add_argument("--output", default="checkpoints")
    parser.add_argument("--resume", default=None)
    parser.add_argument("--style", choices=["plain", "megatron", "json", "bare"], default="plain")
    return parser.parse_args()


def main():
    args = parse_arguments()
    form = "%(message)s" if args.style == "bare" else "%(asctime)s - %(levelname)s - %(name)s - %(message)s"
    logging.basicConfig(format=form, datefmt="%Y-%m-%d %H:%M:%S", level=logging.INFO, stream=sys.stdout)
    accelerator = Accelerator(gradient_accumulation_steps=args.accumulate, cpu=True)
    log.info(accelerator.state, main_process_only=False)
    set_seed(7)
    rank, world = accelerator.process_index, accelerator.num_processes
    run = SimpleNamespace(args=args, rank=rank, world=world, step=0, log=log, accelerator=accelerator)
    callbacks.on_start(run)
    model = callbacks.on_model(Model(args.hidden), run)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 10))
    loader = DataLoader(
        Records(args.data, args.batch_size), batch_size=args.batch_size, collate_fn=collate, num_workers=args.workers
    )
    run.model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    if args.resume:
        accelerator.load_state(args.resume)
    log.info("***** Running training *****")
    log.info("  Total train batch size = %d", args.batch_size * world * args.accumulate)
    log.info("  Total optimization steps = %d", args.steps)
    side.mark(rank, 0)
    for run.step, batch in enumerate(loader, 1):
        began = time.perf_counter()
        with accelerator.accumulate(run.model):
            batch = callbacks.on_batch(batch, run)
            logits = run.model(batch["tokens"][:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch["tokens"][:, 1:].flatten())
            loss = callbacks.on_loss(loss * batch["weight"].mean(), run)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(run.model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        callbacks.on_step(run)
        seconds = time.perf_counter() - began
        log.info(
            f"step {run.step}/{args.steps} loss: {loss.item():.4f} lr: {schedule.get_last_lr()[0]:.2e} "
            f"({seconds:.3f} s)"
        )
        side.mark(rank, run.step)
        if run.step % args.save_every == 0:
            accelerator.save_state(f"{args.output}/step-{run.step:06d}")
            if accelerator.is_main_process:
                callbacks.on_save(f"{args.output}/step-{run.step:06d}", run)
        if run.step >= args.steps:
            break
    callbacks.on_end(run)
    accelerator.end_training()
    log.info("training finished")


if __name__ == "__main__":
    main()
