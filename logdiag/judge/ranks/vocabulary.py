"""The field's words for processes, devices, counters and hosts: features among others; none decides alone."""
# ruff: noqa: SIM905 (a list of words is read best as one text)

PROCESSES = frozenset(
    "rank task worker replica rep proc process member lane r w peer pe seat learner trainer train ordinal".split()
)
"""What processes of a job are called."""
LEAST_PID = 1000
"""A number behind `process` that may be the system's own."""
DEVICES = frozenset("dev device gpu card chip npu cuda accelerator board tile slot core tray acc".split())
"""What is numbered anew on each host."""
STEPS = frozenset("step epoch it iter iteration round batch attempt try".split())
"""What a job counts over time; no process."""
COUNTERS = STEPS.union(
    "line chunk part layer block pid file code exit signal rc status port v version of in after is for at to a".split()
)
"""Words before numbers that count something else."""
SOURCES = frozenset("c cc cpp cu ex erl go h hpp hs java jl js kt py rs scala ts zig".split())
"""Suffixes of source files: the number in `loader.py:41` is a line's."""
HOST_WORDS = frozenset("host node machine box hostname nodename".split())
"""Words before a host's name, whatever it looks like."""
BEFORE_HOSTS = frozenset("on at to".split())
"""Words before which a word that looks like a host's name may be one."""
NO_HOSTS = frozenset("default dp tp pp ep cp nvme eth ib mlx bond cuda gen".split())
"""Stems of the names of processes within a group, and of devices: `default3`, `TP3`, `nvme0n1`, `gen5` of a bus."""
NO_NAMES = frozenset(
    "trace debug info notice note warn warning error err fatal critical crit severe "
    "yes no true false on off ok up down none null left right first last".split()
)
"""Words that many processes share and that name nothing: levels, and what a setting may be."""
NO_NOUNS_OF_HOSTS = frozenset(
    "stage role group kind type numa socket state status mode level lvl phase part side tier tp pp dp ep".split()
)
"""Words before what neighbouring processes share and that is no host."""
SPELT = tuple(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen".split()
)
"""Numbers as words: each word's index is its number."""
