"""The records of all shards, in batches that take turns: batch i of the whole belongs to rank i modulo the ranks."""

import glob
import json
import os

from torch.utils.data import Dataset


class Records(Dataset):
    def __init__(self, folder, batch_size=4):
        self.batch_size = batch_size
        self.shards = []
        for path in sorted(glob.glob(os.path.join(folder, "shard-*.jsonl"))):
            with open(path, encoding="utf-8") as file:
                self.shards.append(file.read().splitlines())

    def __len__(self):
        return sum(len(shard) for shard in self.shards)

    def __getitem__(self, index):
        batch, place = divmod(index, self.batch_size)
        turn, shard = divmod(batch, len(self.shards))
        return json.loads(self.shards[shard][turn * self.batch_size + place])
