"""Asking a model with one deadline: a client that hangs holds up neither the answer nor the end of the program."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from logdiag.agent.connection import Connection
from logdiag.agent.models import LOADING, TIMED_OUT, failure_of, load_model
from logdiag.agent.outbound import Channel
from logdiag.agent.redaction import Redactor
from logdiag.errors import AgentError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

_LONGEST_ANSWER = 40_000
_MOST_OBJECTS = 200

T = TypeVar("T")


def outcomes(tasks: Sequence[Callable[[], T]], ends: float) -> Iterator[T | BaseException]:
    """What functions that run at once return or raise, as it comes, until `ends` (of `time.monotonic`)."""
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


class Asker:
    """One model, asked over one connection for `seconds` from now on. `model` is `provider:model`, loaded when it is
    first asked, or a chat model."""

    def __init__(self, model: BaseChatModel | str, seconds: float) -> None:
        self.ends = time.monotonic() + seconds
        self.channel = Channel(Redactor())
        self._model = model
        self._name = f"model {model}" if isinstance(model, str) else "model"
        self._seconds = seconds
        self._connection = Connection(self.ends)

    def __enter__(self) -> Asker:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def fenced(self, lines: Iterable[str]) -> str:
        """Lines of a log, or of what people wrote, hidden and marked as data."""
        return self.channel.fenced(self.channel.lines(list(lines)))

    def texts(self, system: str, user: str, times: int = 1) -> list[str]:
        """The answers to a question that is asked `times` times at once; those that came in time. Raises AgentError
        when none came, with the first failure."""

        def answer() -> str:
            model = self.model()
            from langchain_core.messages import HumanMessage, SystemMessage
            from langsmith import tracing_context

            with tracing_context(enabled=False):  # whatever the environment says
                return str(model.invoke([SystemMessage(system), HumanMessage(user)]).text)

        results = list(outcomes([answer] * times, self.ends))
        texts = [item for item in results if isinstance(item, str)]
        if texts:
            return texts
        why = f"did not answer within {self._seconds:g} s; check its address, or raise --llm-timeout"
        for error in (item for item in results if isinstance(item, BaseException)):
            if isinstance(error, AgentError):
                raise error
            why = failure_of(error) if failure_of(error) != TIMED_OUT else why
        raise AgentError(f"the {self._name} {why}")

    def model(self) -> BaseChatModel:
        """The model, loaded when it is first asked for. Raises AgentError."""
        with LOADING:
            if isinstance(self._model, str):
                self._model = load_model(self._model, self._connection)
            return self._model


def objects_in(text: str, key: str) -> list[dict[str, Any]]:
    """The JSON objects with a key in a text, in a fence or not, outermost first. Of a tool call written as text, its
    arguments are taken."""
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
