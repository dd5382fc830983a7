"""The field's words for processes, devices, counters and hosts: features among others; none decides alone."""

_PROCESSES = "rank task worker replica rep proc process member lane r w peer pe seat learner trainer train ordinal"
_DEVICES = "dev device gpu card chip npu cuda accelerator board tile slot core tray acc"
_STEPS = "step epoch it iter iteration round batch attempt try"
_COUNTERS = (
    f"{_STEPS} line chunk part layer block pid file code exit signal rc status port v version "
    "of in after is for at to a"
)
_SOURCES = "c cc cpp cu ex erl go h hpp hs java jl js kt py rs scala ts zig"
_HOST_WORDS = "host node machine hostname nodename"
_BEFORE_HOSTS = "on at to"
_NO_HOSTS = "default dp tp pp ep cp nvme eth ib mlx bond cuda"
_SPELT = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
PROCESSES = frozenset(_PROCESSES.split())
"""What processes of a job are called."""
DEVICES = frozenset(_DEVICES.split())
"""What is numbered anew on each host."""
COUNTERS = frozenset(_COUNTERS.split())
"""Words before numbers that count something else."""
STEPS = frozenset(_STEPS.split())
"""What a job counts over time; no process."""
SOURCES = frozenset(_SOURCES.split())
"""Suffixes of source files: the number in `loader.py:41` is a line's."""
HOST_WORDS = frozenset(_HOST_WORDS.split())
"""Words before a host's name, whatever it looks like."""
BEFORE_HOSTS = frozenset(_BEFORE_HOSTS.split())
"""Words before which a word that looks like a host's name may be one."""
NO_HOSTS = frozenset(_NO_HOSTS.split())
"""Stems of the names of processes within a group, and of devices: `default3`, `TP3`, `nvme0n1`."""
SPELT = tuple(_SPELT.split())
"""Numbers as words: each word's index is its number."""
