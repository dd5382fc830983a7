"""Cleans and packs a data set with datasets."""

import argparse
import logging
import os
import sys

import datasets

import recipe
import side

log = logging.getLogger("prepare")


def parse_arguments():
    parser = argparse.ArgumentParser(description="Clean and pack a data set.")
    parser.add_argument("--files", default="data/*.jsonl")
    parser.add_argument("--format", choices=["json", "parquet", "text", "arrow", "folder"], default="json")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=60, help="in how many pieces the data are packed")
    parser.add_argument("--output", default="packed")
    parser.add_argument("--style", choices=["plain", "megatron", "json", "bare"], default="plain")
    return parser.parse_args()


def clean(row):
    row["length"] = len(row["tokens"])
    return row


def keep(row):
    return row["length"] > 8


def main():
    args = parse_arguments()
    form = "%(message)s" if args.style == "bare" else "%(asctime)s | %(levelname)-7s | %(name)s | %(message)s"
    logging.basicConfig(level=logging.INFO, format=form, stream=sys.stdout, force=True)
    side.mark(0, 0)
    log.info("datasets %s, pyarrow %s", datasets.__version__, datasets.config.PYARROW_VERSION)
    if args.format == "folder":
        data = datasets.load_from_disk(args.files)
    else:
        data = datasets.load_dataset(args.format, data_files=args.files, split="train")
    log.info("%d rows with the columns %s", len(data), ", ".join(data.column_names))
    data = data.map(getattr(recipe, "clean", clean), num_proc=args.processes, desc="Cleaning")
    data = data.filter(getattr(recipe, "keep", keep), desc="Filtering")
    log.info("%d rows are left", len(data))
    rows = 0
    for step in range(1, args.steps + 1):
        piece = data.shard(args.steps, step - 1, contiguous=True)
        piece = getattr(recipe, "pack", lambda piece, step: piece)(piece, step)
        rows += len(piece)
        side.mark(0, step)
        log.info("step %d/%d packed %d rows", step, args.steps, rows)
    data.save_to_disk(args.output, num_proc=args.processes)
    log.info("wrote %s, %d bytes", args.output, sum(entry.stat().st_size for entry in os.scandir(args.output)))


if __name__ == "__main__":
    main()
