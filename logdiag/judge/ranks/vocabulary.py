"""The field's words for processes, devices, counters and hosts. They help; nothing rests on them alone."""

_PROCESSES = "rank task worker replica rep proc process member lane r w peer pe seat learner trainer train ordinal"
_DEVICES = "dev device gpu card chip npu cuda accelerator board tile slot core tray acc"
_COUNTERS = (
    "step epoch iter iteration round batch attempt try tries line chunk part layer block pid shard file code exit "
    "signal rc status port v version of in after is for at to a "
    "py go cc cpp rs java kt scala jl ts js hs ex erl zig"
)
_HOST_WORDS = "host node machine hostname nodename"
_BEFORE_HOSTS = "on at to"
PROCESSES = frozenset(_PROCESSES.split())
"""What processes of a job are called."""
DEVICES = frozenset(_DEVICES.split())
"""What has a number on each host."""
COUNTERS = frozenset(_COUNTERS.split())
"""What stands before numbers that count something else."""
HOST_WORDS = frozenset(_HOST_WORDS.split())
"""What stands before the name of a host, whatever that is."""
BEFORE_HOSTS = frozenset(_BEFORE_HOSTS.split())
"""What may stand before a word that looks like a host's name."""
