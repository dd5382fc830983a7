"""Asks a model one word, to see whether it can be reached."""

from __future__ import annotations

import threading
import time
from queue import Empty, SimpleQueue

from logdiag.agent.models import failure_of, load_model
from logdiag.errors import AgentError

__all__ = ["probe"]


def probe(model: str, timeout: float) -> float:
    """The seconds that `provider:model` took to answer, loading its client included.

    Raises AgentError that says why there was no answer within `timeout` seconds.
    """
    began = time.monotonic()
    outcome: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_ask, args=(model, timeout, outcome), name="logdiag-probe", daemon=True).start()
    try:
        error = outcome.get(timeout=timeout)
    except Empty:
        error = f"the model {model} did not answer within {timeout:g} s; check its address, or raise --llm-timeout"
    if error:
        raise AgentError(error)
    return time.monotonic() - began


def _ask(model: str, timeout: float, outcome: SimpleQueue[str]) -> None:
    try:
        load_model(model, timeout).invoke("Answer with the one word: yes")
    except AgentError as error:
        outcome.put(str(error))
    except Exception as error:  # anything that a provider's client raises
        outcome.put(f"the model {model} {failure_of(error)}")
    else:
        outcome.put("")
