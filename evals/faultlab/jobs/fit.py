"""Fits a small language model with Lightning."""

import argparse
import logging

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader

import recipe
import side
from records import Records
from train import Model, Shard, collate

log = logging.getLogger("lightning.pytorch")


def parse_arguments():
    parser = argparse.ArgumentParser(description="Fit a small language model.")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--validate-every", type=int, default=20)
    parser.add_argument("--monitor", default="val_loss")
    parser.add_argument("--resume", default=None)
    return parser.parse_args()


class LitModel(L.LightningModule):
    def __init__(self, hidden=32, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.model = Model(hidden)

    def step_loss(self, batch):
        logits = self.model(batch["tokens"][:, :-1])
        return nn.functional.cross_entropy(logits.flatten(0, 1), batch["tokens"][:, 1:].flatten())

    def training_step(self, batch, index):
        loss = self.step_loss(batch) * batch["weight"].mean()
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, index):
        self.log("val_loss", self.step_loss(batch), sync_dist=True, batch_size=len(batch["tokens"]))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


class Progress(Callback):
    def on_train_start(self, trainer, module):
        side.mark(trainer.global_rank, 0)

    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        side.mark(trainer.global_rank, index + 1)
        if trainer.global_rank == 0 and (index + 1) % 2 == 0:
            log.info("step %d/%d train_loss=%.4f", index + 1, trainer.max_steps, outputs["loss"].item())


class Data(L.LightningDataModule):
    def __init__(self, args):
        super().__init__()
        self.args = args

    def train_dataloader(self):
        shard = Shard("data", self.trainer.global_rank)
        return DataLoader(shard, batch_size=self.args.batch_size, collate_fn=collate, num_workers=self.args.workers)

    def val_dataloader(self):
        records = torch.utils.data.Subset(Records("data"), range(2, 34))
        return DataLoader(records, batch_size=self.args.batch_size, collate_fn=collate)


def main():
    args = parse_arguments()
    L.seed_everything(7)
    module = getattr(recipe, "make_module", LitModel)(hidden=args.hidden, lr=args.lr)
    settings = {
        "accelerator": "cpu",
        "devices": args.devices,
        "strategy": "ddp" if args.devices > 1 else "auto",
        "max_steps": args.steps,
        "val_check_interval": args.validate_every,
        "callbacks": [
            Progress(),
            ModelCheckpoint("checkpoints", monitor=args.monitor),
            *getattr(recipe, "CALLBACKS", []),
        ],
        "use_distributed_sampler": False,
        "enable_progress_bar": False,
        "logger": False,
    }
    trainer = L.Trainer(**{**settings, **getattr(recipe, "ARGUMENTS", {})})
    trainer.fit(module, datamodule=Data(args), ckpt_path=args.resume)
    log.info("best checkpoint: %s", trainer.checkpoint_callback.best_model_path)


if __name__ == "__main__":
    main()
