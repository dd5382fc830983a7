"""The field's words for processes, devices, counters and hosts. They help; nothing rests on them alone."""

_PROCESSES = "rank task worker replica rep proc process member lane r w peer pe seat learner trainer train ordinal"
_DEVICES = "dev device gpu card chip npu cuda accelerator board tile slot core tray acc"
_STEPS = "step epoch iter iteration round batch attempt try"
_COUNTERS = (
    f"{_STEPS} line chunk part layer block pid file code exit signal rc status port v version "
    "of in after is for at to a"
)
_SOURCES = "c cc cpp cu ex erl go h hpp hs java jl js kt py rs scala ts zig"
_HOST_WORDS = "host node machine hostname nodename"
_BEFORE_HOSTS = "on at to"
_SPELT = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
PROCESSES = frozenset(_PROCESSES.split())
"""What processes of a job are called."""
DEVICES = frozenset(_DEVICES.split())
"""What has a number on each host."""
COUNTERS = frozenset(_COUNTERS.split())
"""What stands before numbers that count something else."""
STEPS = frozenset(_STEPS.split())
"""What goes on in time, and is no process."""
SOURCES = frozenset(_SOURCES.split())
"""How files of a program end: `loader.py:41`, `pool.cc:12` number its lines."""
HOST_WORDS = frozenset(_HOST_WORDS.split())
"""What stands before the name of a host, whatever that is."""
BEFORE_HOSTS = frozenset(_BEFORE_HOSTS.split())
"""What may stand before a word that looks like a host's name."""
SPELT = tuple(_SPELT.split())
"""Numbers as words, each in its place."""
