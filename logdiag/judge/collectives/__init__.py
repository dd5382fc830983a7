"""Which rank kept the others waiting in a collective.

In: what watchdogs, NCCL and flight recorders say of calls. Out: `Collectives`, a table of the ranks that hung.
"""
