"""Asks a language model about a diagnosis, within one deadline, and never fails.

    consultation = consult(diagnosis, ("job.log",), AgentSettings("openai:gpt-5"), book=book)
    consultation.opinion          # or None; consultation.notes says why

Loading LangChain, connecting, every turn and every tool call happen in threads that nobody waits for beyond the
deadline: a client that hangs cannot hold up the answer, nor the end of the program.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from logdiag.agent.evidence import evidence_of
from logdiag.agent.failure_agent import ROUNDS, Conversation, ask
from logdiag.agent.models import TIMED_OUT, failure_of, load_model
from logdiag.agent.opinion import AgentSettings, Consultation, Opinion, Step, Trace
from logdiag.agent.outbound import Channel, learn_names
from logdiag.agent.prompts import Prompt, prompt_of
from logdiag.agent.redaction import Redactor
from logdiag.agent.search import LineSearch
from logdiag.agent.tools import tools_for
from logdiag.agent.view import LogView
from logdiag.agent.votes import vote
from logdiag.model import Diagnosis
from logdiag.rules import RuleBook

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

__all__ = ["consult", "prompt_for"]

_MOST_READ_SECONDS = 3.0


@dataclass
class _Case:
    """What is asked, and what has come of it so far; filled by other threads."""

    diagnosis: Diagnosis
    sources: tuple[object, ...]
    settings: AgentSettings
    job: Mapping[str, str]
    book: RuleBook
    ends: float
    on_step: Callable[[Step], None] | None = None
    prompt: Prompt | None = None
    opening: Channel | None = None
    asked: bool = False
    talks: list[Conversation] = field(default_factory=list)
    outcomes: SimpleQueue[str] = field(default_factory=SimpleQueue)


def consult(
    diagnosis: Diagnosis,
    sources: Sequence[object],
    settings: AgentSettings,
    *,
    book: RuleBook,
    job: Mapping[str, str] | None = None,
    model: BaseChatModel | None = None,
    callbacks: Sequence[Any] = (),
    on_step: Callable[[Step], None] | None = None,
) -> Consultation:
    """What a model says of a diagnosis; it comes at the latest when `settings.timeout` seconds have passed.

    `sources` are those the diagnosis was made from, `job` the job's metadata. `model` is used instead of loading the
    one that `settings` name. `callbacks` are LangChain's; `on_step` is told of each turn, from another thread.
    Whatever the model, its client or the network does ends in a note and no opinion; nothing is raised.
    """
    began = time.monotonic()
    case = _Case(diagnosis, tuple(sources), settings, job or {}, book, began + settings.timeout, on_step)
    threading.Thread(target=_work, args=(case, model, tuple(callbacks)), name="logdiag-agent", daemon=True).start()
    late = f"did not answer within {settings.timeout:g} s"
    errors: list[str] = []
    finished = 0
    while finished < settings.votes:
        try:
            error = case.outcomes.get(timeout=max(0.0, case.ends - time.monotonic()))
        except Empty:
            errors.append(late)
            break
        finished += 1
        if error:
            errors.append(late if error == TIMED_OUT else error)
    opinion = vote([talk.opinion for talk in tuple(case.talks) if talk.opinion], settings.votes)
    error = "" if opinion else errors[0] if errors else "gave answers that contradict each other"
    return Consultation(
        opinion=opinion,
        trace=_trace(case, error, time.monotonic() - began),
        notes=tuple(_notes(case, opinion, error)),
        prompt=str(case.prompt or ""),
    )


def prompt_for(
    diagnosis: Diagnosis,
    sources: Sequence[object],
    settings: AgentSettings,
    *,
    book: RuleBook,
    job: Mapping[str, str] | None = None,
) -> str:
    """Exactly what `consult` would send first. Nothing is sent, and LangChain is not loaded."""
    case = _Case(diagnosis, tuple(sources), settings, job or {}, book, time.monotonic() + settings.timeout)
    _prepare(case)
    return str(case.prompt)


def _prepare(case: _Case) -> LogView:
    """The prompt of a case, and the view that its tools will read."""
    view = LogView(case.diagnosis, case.sources, min(_MOST_READ_SECONDS, case.settings.timeout / 4))
    bundle = evidence_of(case.diagnosis, view, case.settings.budget, case.job)
    redactor = Redactor()
    learn_names(redactor, case.diagnosis, view.names, case.job)
    case.opening = Channel(redactor)
    case.prompt = prompt_of(bundle, case.opening, ROUNDS)
    return view


def _work(case: _Case, model: BaseChatModel | None, callbacks: tuple[Any, ...]) -> None:
    """Prepares a case and holds its conversations; each puts its error, empty for none, among the outcomes."""
    try:
        view = _prepare(case)
        if model is None:
            model = load_model(case.settings.model, case.settings.timeout)
        # Conversations that load it at the same time can find it half loaded.
        importlib.import_module("langchain.agents.middleware")
        search = LineSearch(case.diagnosis.digest.lines)
        for _ in range(case.settings.votes):
            threading.Thread(target=_talk, args=(case, model, view, search, callbacks), daemon=True).start()
    except Exception as error:  # anything that a package does while it is loaded and set up
        for _ in range(case.settings.votes):
            case.outcomes.put(failure_of(error))


def _talk(case: _Case, model: BaseChatModel, view: LogView, search: LineSearch, callbacks: tuple[Any, ...]) -> None:
    """One conversation."""
    assert case.opening is not None
    assert case.prompt is not None
    channel = case.opening.fork()
    # Without a root cause it is at most the exit code that says that the job failed.
    talk = Conversation(channel, case.ends, case.diagnosis.root_cause is None, case.on_step)
    case.talks.append(talk)
    try:
        case.asked = True
        ask(model, case.prompt, tools_for(view, search, channel, case.book), talk, callbacks)
    except Exception as error:  # anything that a model's client, or a callback, raises
        talk.error = talk.error or failure_of(error)
    case.outcomes.put("" if talk.opinion else talk.error)


def _trace(case: _Case, error: str, seconds: float) -> Trace:
    talks = tuple(case.talks)
    steps = tuple(step for talk in talks for step in tuple(talk.steps))
    costs = [talk.cost for talk in talks if talk.cost is not None]
    return Trace(
        steps=steps,
        tokens_in=sum(step.tokens_in for step in steps),
        tokens_out=sum(step.tokens_out for step in steps),
        cost=sum(costs) if costs else None,
        seconds=round(seconds, 6),
        refusals=tuple(why for talk in talks for why in tuple(talk.refusals)),
        error=error,
    )


def _notes(case: _Case, opinion: Opinion | None, error: str) -> list[str]:
    """Why there is no opinion, how far votes went apart, and what left the machine."""
    notes: list[str] = []
    name = case.settings.model
    if opinion is None:
        notes.append(f"the model {name} {error}; rules and memory decided")
    elif opinion.agreed < opinion.votes:
        notes.append(f"{opinion.agreed} of {opinion.votes} answers of the model {name} agree")
    if case.asked and case.opening is not None:
        prompt = len(str(case.prompt).encode(errors="replace"))
        sent = prompt * len(case.talks) + sum(talk.channel.sent for talk in case.talks)
        hidden = case.opening.redactor.manifest()
        kinds = [f"{count} {_plural(kind, count)}" for kind, count in hidden.items() if count or kind == "secrets"]
        notes.append(f"sent {sent / 1000:.1f} kB to {name}; hidden in it: {', '.join(kinds)}")
    return notes


def _plural(kind: str, count: int) -> str:
    """hosts   1 host   1 address"""
    if count != 1:
        return kind
    return kind.removesuffix("es") if kind == "addresses" else kind.removesuffix("s")
