"""A ranking of lines that needs no rule: by where and how they stand in the log, and by their words.

In: a `Survey` and a `Digest`. Out: a `Ranking`, and the finding that stands for a cause that no rule names.
"""
