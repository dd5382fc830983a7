"""Evaluates a language model: greedy answers and perplexity."""

import argparse
import json
import logging
import os
import sys

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import recipe
import side
from records import Records

log = logging.getLogger("eval")


def parse_arguments():
    parser = argparse.ArgumentParser(description="Evaluate a language model.")
    parser.add_argument("--model", default="models/base")
    parser.add_argument("--data", default="data")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--new-tokens", type=int, default=4)
    parser.add_argument("--output", default="results.json")
    parser.add_argument("--attention", default=None)
    parser.add_argument("--style", choices=["plain", "megatron", "json", "bare"], default="plain")
    return parser.parse_args()


def score(answer, row):
    """Whether an answer is right."""
    return float(str(row["length"]) in answer)


def summarize(results):
    return {
        "accuracy": sum(r["score"] for r in results) / len(results),
        "loss": sum(r["loss"] for r in results) / len(results),
    }


def main():
    args = parse_arguments()
    form = (
        "[%(levelname)s] %(message)s"
        if args.style == "bare"
        else "%(asctime)s %(name)s:%(lineno)d %(levelname)s %(message)s"
    )
    logging.basicConfig(level=logging.INFO, format=form, stream=sys.stdout, force=True)
    log.info("evaluating %s", args.model)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_pretrained(args.model, attn_implementation=args.attention).eval()
    log.info("model has %d parameters, tokenizer %d words", model.num_parameters(), len(tokenizer))
    data = Records(args.data)
    results = []
    side.mark(0, 0)
    for step in range(1, args.steps + 1):
        rows = [data[(step - 1) * args.batch_size + place] for place in range(args.batch_size)]
        tokens = torch.tensor([row["tokens"] for row in rows])
        with torch.inference_mode():
            losses = model(tokens, labels=tokens).loss.item()
            answers = model.generate(tokens, max_new_tokens=args.new_tokens, do_sample=False)
        for row, answer in zip(rows, tokenizer.batch_decode(answers), strict=True):
            results.append({"id": row["id"], "score": getattr(recipe, "score", score)(answer, row), "loss": losses})
        side.mark(0, step)
        log.info("step %d/%d loss %.4f score %.3f", step, args.steps, losses, np.mean([r["score"] for r in results]))
    summary = getattr(recipe, "summarize", summarize)(results)
    with open(args.output, "w", encoding="utf-8") as file:
        json.dump({"model": args.model, "summary": summary, "results": results}, file)
    log.info("%s written to %s", summary, os.path.abspath(args.output))


if __name__ == "__main__":
    main()
