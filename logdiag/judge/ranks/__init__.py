"""On which rank and node the root happened, and from what that is concluded.

In: the root, all faults, the kept lines and each log's first ones. Out: a rank, a node and the `Decision` behind them.
"""
