"""The schema `logdiag.diagnosis/1`, indented or as one line."""

from __future__ import annotations

from logdiag.model import Diagnosis

__all__ = ["to_json"]


def to_json(diagnosis: Diagnosis, *, one_line: bool) -> str:
    """ASCII only, so that nothing in a log line can reach a terminal as a control character."""
    return diagnosis.to_json(indent=None if one_line else 2)
