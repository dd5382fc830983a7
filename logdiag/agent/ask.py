"""One question to a chat model, answered with a JSON object, for what is learnt from logs and not for diagnoses."""

from __future__ import annotations

import json
import threading
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from logdiag.agent.models import failure_of
from logdiag.errors import AgentError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

__all__ = ["ask_many", "objects_in"]

_LONGEST_ANSWER = 40_000
_MOST_OBJECTS = 50


def ask_many(model: BaseChatModel, system: str, user: str, times: int, ends: float) -> list[str]:
    """The texts of `times` answers to the same question, asked at once; those that came before `ends`, a time of
    `time.monotonic`.

    Raises AgentError when none came, with what the first failure means.
    """
    outcomes: SimpleQueue[str | BaseException] = SimpleQueue()
    for _ in range(times):
        threading.Thread(target=_ask, args=(model, system, user, outcomes), daemon=True).start()
    texts: list[str] = []
    failure = "did not answer in time; give it longer with --llm-timeout"
    for _ in range(times):
        try:
            outcome = outcomes.get(timeout=max(0.0, ends - time.monotonic()))
        except Empty:
            break
        if isinstance(outcome, str):
            texts.append(outcome)
        else:
            failure = failure_of(outcome)
    if not texts:
        raise AgentError(f"the model {failure}")
    return texts


def objects_in(text: str, key: str) -> list[dict[str, Any]]:
    """The JSON objects in a text that have a key, in a fence or not, outermost first."""
    text = text[:_LONGEST_ANSWER]
    decoder = json.JSONDecoder()
    found: list[dict[str, Any]] = []
    start = text.find("{")
    for _ in range(_MOST_OBJECTS):
        if start < 0:
            break
        try:
            item, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            found += [item] if key in item else []
        start = text.find("{", end)
    return found


def _ask(model: BaseChatModel, system: str, user: str, outcomes: SimpleQueue[str | BaseException]) -> None:
    from langchain_core.messages import HumanMessage, SystemMessage

    try:
        message = model.invoke([SystemMessage(system), HumanMessage(user)])
        outcomes.put(str(message.text))
    except Exception as error:  # whatever the model's client raises
        outcomes.put(error)
