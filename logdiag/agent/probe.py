"""Asks a model one word, to see whether it can be reached."""

from __future__ import annotations

import time

from logdiag.agent.ask import Asker

__all__ = ["probe"]


def probe(model: str, timeout: float) -> float:
    """The seconds that `provider:model` took to answer, loading its client included.

    Raises AgentError that says why there was no answer within `timeout` seconds.
    """
    began = time.monotonic()
    with Asker(model, timeout) as asker:
        asker.texts("You are asked whether you can be reached.", "Answer with the one word: yes")
    return time.monotonic() - began
