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
_NO_NAMES = (
    "trace debug info notice note warn warning error err fatal critical crit severe "
    "yes no true false on off ok up down none null left right first last"
)
_NO_NOUNS_OF_HOSTS = (
    "stage role group kind type numa socket state status mode level lvl phase part side tier tp pp dp ep"
)
_IN_TURN = "robin roundrobin round-robin cyclic cyclically mod modulo turn alternating interleaved striped scattered"
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
NO_NAMES = frozenset(_NO_NAMES.split())
"""Words that many processes share and that name nothing: levels, and what a setting may be."""
NO_NOUNS_OF_HOSTS = frozenset(_NO_NOUNS_OF_HOSTS.split())
"""Words before what neighbouring processes share and that is no host."""
IN_TURN = frozenset(_IN_TURN.split())
"""Words of a line by which neighbouring ranks are on different hosts."""
SPELT = tuple(_SPELT.split())
"""Numbers as words: each word's index is its number."""
