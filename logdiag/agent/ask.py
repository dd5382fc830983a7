"""Asking with one deadline, whatever is asked: nobody waits for a client that hangs, nor does the end of the program.

`outcomes` is what all of it rests on: functions run in threads of their own, heard until the deadline.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from logdiag.agent.connection import Connection
from logdiag.agent.models import failure_of, load_model
from logdiag.errors import AgentError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

__all__ = ["ask_by_name", "ask_many", "objects_in", "outcomes"]

_LONGEST_ANSWER = 40_000
_MOST_OBJECTS = 200

T = TypeVar("T")


def outcomes(tasks: Sequence[Callable[[], T]], ends: float) -> Iterator[T | BaseException]:
    """What some functions, run at once, gave or raised, as it comes, until `ends`, a time of `time.monotonic`.

    Those that are not done by then are left out; their threads end with the program.
    """
    done: SimpleQueue[T | BaseException] = SimpleQueue()

    def run(task: Callable[[], T]) -> None:
        try:
            done.put(task())
        except BaseException as error:  # whatever a model's client, or a package that is loaded, raises
            done.put(error)

    for task in tasks:
        threading.Thread(target=run, args=(task,), name="logdiag-agent", daemon=True).start()
    for _ in tasks:
        try:
            yield done.get(timeout=max(0.0, ends - time.monotonic()))
        except Empty:
            return


def ask_many(model: BaseChatModel, system: str, user: str, times: int, ends: float) -> list[str]:
    """The texts of `times` answers to the same question, asked at once; those that came before `ends`, a time of
    `time.monotonic`.

    Raises AgentError when none came, with what the first failure means.
    """
    texts: list[str] = []
    failure = "did not answer in time; give it longer with --llm-timeout"
    for outcome in outcomes([lambda: _said(model, system, user)] * times, ends):
        if isinstance(outcome, str):
            texts.append(outcome)
        else:
            failure = failure_of(outcome)
    if not texts:
        raise AgentError(f"the model {failure}")
    return texts


def ask_by_name(name: str, timeout: float, question: str) -> str:
    """The answer of `provider:model` to a question, its client loaded and its connections closed within the time.

    Raises AgentError that says why there was none within `timeout` seconds.
    """
    ends = time.monotonic() + timeout
    connection = Connection(ends)

    def asked() -> str:
        return str(load_model(name, timeout, connection).invoke(question).text)

    try:
        outcome = next(outcomes([asked], ends), None)
    finally:
        connection.close()
    if isinstance(outcome, str):
        return outcome
    if outcome is None:
        late = f"did not answer within {timeout:g} s; check its address, or raise --llm-timeout"
        raise AgentError(f"the model {name} {late}")
    if isinstance(outcome, AgentError):
        raise outcome
    raise AgentError(f"the model {name} {failure_of(outcome)}")


def objects_in(text: str, key: str) -> list[dict[str, Any]]:
    """The JSON objects in a text that have a key, in a fence or not, outermost first; of a tool call that was written
    out, its arguments."""
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
            for within in ("arguments", "parameters", "answer"):
                if key not in item and isinstance(item.get(within), dict):
                    item = item[within]
            found += [item] if key in item else []
        start = text.find("{", end)
    return found


def _said(model: BaseChatModel, system: str, user: str) -> str:
    """One answer in words."""
    from langchain_core.messages import HumanMessage, SystemMessage

    return str(model.invoke([SystemMessage(system), HumanMessage(user)]).text)
