"""The one read of every block: rules on one side, shapes on the other.

In: `Stream`s and a `RuleBook`. Out: a `Survey` (findings, steps, the lines worth keeping) and a `Digest` (those lines,
with a receipt of what was left out). After this nothing is proportional to the log's size.
"""
