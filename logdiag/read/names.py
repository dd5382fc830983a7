"""Reads the name of a file: whether it is a log, and of which rank or node."""

from __future__ import annotations

import os
import re

from logdiag.model import number_in
from logdiag.patterns import pattern_of

_ENDINGS = r"log|out|err|txt|stdout|stderr|jsonl?|o\d+|e\d+"
_WORDS = r"log|stdout|stderr|dmesg|syslog|messages|console|output|nohup"
_PROCESSES_OR_NODES = r"(?:global_?)?rank|worker|task|proc|process|node|host|pod|replica"
# train.log   job.o4711   train.log.1   train.log.rank3   stderr   rank-0   worker3   workerlog.3 (Paddle)   0
_LOG_NAME = pattern_of(
    rf"(?i)(?:\.(?:{_ENDINGS})(?:\.(?:rank)?\d+)?|(?:^|[._-])(?:{_WORDS})(?:[._-]?\d+)?"
    rf"|^(?:{_PROCESSES_OR_NODES}|workerlog)[._-]?\d+|^\d{{1,5}})"
    r"(?:\.(?:gz|zst|xz|bz2))?$"
)
# rank_3.log   rank-12.err   task7.out   worker_3.log (MindSpore)   workerlog.3 (Paddle)
# job-4711-t5.err (Slurm's %j and %t)   (worker-3.log is as often a machine's)
_RANK = pattern_of(
    r"(?i)(?:^|[^a-z])(?:global_?rank|rank|task|proc|process|replica|trainer|learner|workerlog|worker(?=_)|(?<=\d[._-])t)[_.-]?(\d{1,5})(?:\D|$)"
)
# attempt_0/3/stderr.log (torchelastic)
_ELASTIC = pattern_of(r"(?:^|/)attempt_\d+/(\d+)/[^/]+$")
# node-004.log   gpu-node12.out   host-3/stdout
_NODE = pattern_of(r"(?i)(?:^|[/_.-])((?:[a-z]+-)*(?:node|host|gpu-?node|worker|ip)-?\d[\w-]*?)(?=\.|/|_rank|$)")
# dmesg-node3.txt   node-logs/kern_gpu-node12.log
_KIND_BEFORE = pattern_of(
    r"(?i)(^|[/_.-])(?:dmesg|kern(?:el)?|journal(?:ctl)?|syslog|messages|console|output|nccl|stdout|stderr|logs?)[-_.]"
)


def is_log(path: str) -> bool:
    """Whether a file of a job's folder is one of its logs."""
    name = os.path.basename(path)
    return bool(_LOG_NAME.search(name)) and (not name.endswith(".json") or name.endswith("error.json"))


def rank_in(path: str, own: str) -> int | None:
    """The rank that a path names, by torchelastic's folders or by the last two names of `own`, the part below the job's
    folder; None for none."""
    elastic = _ELASTIC.search(path)
    if elastic:
        return number_in(elastic[1])
    matches = (_RANK.search(name) for name in reversed(own.split("/")[-2:]))
    return next((number_in(match[1]) for match in matches if match), None)


def node_in(path: str) -> str | None:
    """The node that a path names, without the words before it for a kind of log; None for none."""
    match = _NODE.search(_KIND_BEFORE.sub(r"\1", path))
    return match[1] if match else None


def in_order(path: str) -> tuple[object, ...]:
    """A key that sorts a job's logs: rank 10 comes after rank 2. Torchelastic's error.json, which repeats the log
    beside it, comes last in its folder."""
    return _natural(os.path.dirname(path)), path.endswith(".json"), _natural(path)


def _natural(path: str) -> list[tuple[int, int, str]]:
    return [
        (1, 0, part) if (number := number_in(part)) is None else (0, number, "")
        for part in re.split(r"(\d+)", path)
        if part
    ]
