"""What broke first: one timeline, findings of many witnesses, named decisions, one verdict.

In: a `Survey`. Out: what was concluded, and the `Diagnosis` that says it.
"""
