"""Fine-tunes a model with the Trainer of transformers."""

import argparse
import logging
import os

import torch
from torch.utils.data import Subset
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

import recipe
import side
from records import Records
from train import set_up_logging

log = logging.getLogger("finetune")


def parse_arguments():
    parser = argparse.ArgumentParser(description="Fine-tune a language model.")
    parser.add_argument("--model", default="models/base")
    parser.add_argument("--task", choices=["lm", "classify"], default="lm")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--save-every", type=int, default=20)
    parser.add_argument("--eval-every", type=int, default=0)
    parser.add_argument("--data", default="data")
    parser.add_argument("--output", default="output")
    parser.add_argument("--resume", default=None)
    parser.add_argument("--style", choices=["plain", "megatron", "json", "bare"], default="plain")
    return parser.parse_args()


class Progress(TrainerCallback):
    """Says how far the training is."""

    def __init__(self, rank):
        self.rank = rank

    def on_train_begin(self, args, state, control, **kwargs):
        side.mark(self.rank, 0)

    def on_step_end(self, args, state, control, **kwargs):
        side.mark(self.rank, state.global_step)

    def on_log(self, args, state, control, logs=None, **kwargs):
        if self.rank == 0 and "loss" in (logs or {}):
            log.info(
                "step %d/%d loss=%.4f lr=%.2e",
                state.global_step,
                state.max_steps,
                float(logs["loss"]),
                float(logs["learning_rate"]),
            )


def collate_lm(rows, tokenizer):
    tokens = torch.tensor([row["tokens"] for row in rows])
    return {"input_ids": tokens, "labels": tokens.clone()}


def collate_classify(rows, tokenizer):
    tokens = torch.tensor([row["tokens"] for row in rows])
    return {"input_ids": tokens, "labels": torch.tensor([row.get("label", row["id"] % 3) for row in rows])}


def load(path, task):
    tokenizer = AutoTokenizer.from_pretrained(path)
    if task == "classify":
        return AutoModelForSequenceClassification.from_pretrained(path, num_labels=3), tokenizer
    return AutoModelForCausalLM.from_pretrained(path), tokenizer


def main():
    args = parse_arguments()
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    set_up_logging(args.style, rank, world)
    settings = {
        "output_dir": args.output,
        "max_steps": args.steps,
        "per_device_train_batch_size": args.batch_size,
        "dataloader_num_workers": args.workers,
        "learning_rate": 1e-3,
        "logging_steps": 2,
        "save_steps": args.save_every,
        "save_total_limit": 2,
        "eval_strategy": "steps" if args.eval_every else "no",
        "eval_steps": args.eval_every or None,
        "use_cpu": True,
        "report_to": "none",
        "train_sampling_strategy": "sequential",
        "remove_unused_columns": False,
        "disable_tqdm": args.style != "bare",
        "seed": 7,
    }
    training = TrainingArguments(**{**settings, **getattr(recipe, "ARGUMENTS", {})})
    log.info("loading %s", args.model)
    model, tokenizer = getattr(recipe, "load", load)(args.model, args.task)
    data = Records(args.data, args.batch_size)
    log.info("%s with %d parameters, %d records", type(model).__name__, model.num_parameters(), len(data))
    collate = getattr(recipe, "collate", collate_classify if args.task == "classify" else collate_lm)
    trainer = Trainer(
        model=model,
        args=training,
        train_dataset=data,
        eval_dataset=Subset(data, range(2, 26)) if args.eval_every else None,
        data_collator=lambda rows: collate(rows, tokenizer),
        compute_metrics=getattr(recipe, "compute_metrics", None),
        callbacks=[Progress(rank), *getattr(recipe, "CALLBACKS", [])],
    )
    trainer.train(resume_from_checkpoint=args.resume)
    trainer.save_model(os.path.join(args.output, "final"))
    log.info("training finished, model saved in %s", os.path.join(args.output, "final"))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
