"""Asks a language model about a diagnosis, within one deadline; never raises. Loading, connecting, turns and tool calls
run in threads that nobody waits for beyond the deadline."""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from logdiag.agent.ask import Asker, outcomes
from logdiag.agent.evidence import evidence_of
from logdiag.agent.failure_agent import ROUNDS, Conversation, ask
from logdiag.agent.models import LOADING, TIMED_OUT, failure_of, is_bounded
from logdiag.agent.opinion import AgentSettings, Consultation, Opinion, Trace, leaves_open, vote
from logdiag.agent.outbound import learn_names
from logdiag.agent.prompts import Prompt, prompt_of
from logdiag.agent.tools import tools_for
from logdiag.agent.view import LogView
from logdiag.model import Diagnosis
from logdiag.rules import RuleBook

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

_MOST_READ_SECONDS = 3.0


@dataclass
class _Case:
    """What is asked, and what has come of it so far; filled by other threads."""

    diagnosis: Diagnosis
    sources: tuple[object, ...]
    settings: AgentSettings
    job: Mapping[str, str]
    book: RuleBook
    asker: Asker
    prompt: Prompt | None = None
    talks: list[Conversation] = field(default_factory=list)


def consult(
    diagnosis: Diagnosis,
    sources: Sequence[object],
    settings: AgentSettings,
    *,
    book: RuleBook,
    job: Mapping[str, str] | None = None,
    model: BaseChatModel | None = None,
    callbacks: Sequence[Any] = (),
) -> Consultation:
    """What a model says of a diagnosis, at the latest after `settings.timeout` seconds; failures become notes.

    `sources` are those the diagnosis was made from, `job` the job's metadata, `model` a chat model to use instead of
    loading the one of the settings, `callbacks` LangChain's.
    """
    began = time.monotonic()
    with Asker(settings.model if model is None else model, settings.timeout) as asker:
        case = _Case(diagnosis, tuple(sources), settings, job or {}, book, asker)
        errors = _asked(case, tuple(callbacks))
    talks = tuple(case.talks)
    opinion = vote([talk.opinion for talk in talks if talk.opinion], settings.votes)
    error = "" if opinion else errors[0] if errors else "gave answers that contradict each other"
    costs = [talk.cost for talk in talks if talk.cost is not None]
    trace = Trace(
        steps=tuple(step for talk in talks for step in tuple(talk.steps)),
        tokens_in=sum(talk.tokens_in for talk in talks),
        tokens_out=sum(talk.tokens_out for talk in talks),
        cost=sum(costs) if costs else None,
        seconds=round(time.monotonic() - began, 6),
        refusals=tuple(why for talk in talks for why in tuple(talk.refusals)),
        error=error,
    )
    notes = _notes(case, opinion, error or next(iter(errors), ""), own_model=model is not None)
    return Consultation(opinion, trace, tuple(notes), str(case.prompt or ""))


def _asked(case: _Case, callbacks: tuple[Any, ...]) -> list[str]:
    """Prepares a case and holds its conversations, until the deadline; why some gave no opinion."""
    late = f"did not answer within {case.settings.timeout:g} s"

    def made_ready() -> tuple[BaseChatModel, LogView]:
        view = _prepare(case)
        model = case.asker.model()
        with LOADING:
            # Conversations that load it at the same time can find it half loaded.
            importlib.import_module("langchain.agents.middleware")
        return model, view

    ready = next(outcomes([made_ready], case.asker.ends), None)
    if not isinstance(ready, tuple):
        return [late if ready is None else failure_of(ready)]
    talks = [partial(_talk, case, *ready, callbacks)] * case.settings.votes
    ended = list(outcomes(talks, case.asker.ends))
    errors = [item if isinstance(item, str) else failure_of(item) for item in ended]
    errors += [late] * (len(ended) < len(talks))
    return [late if error == TIMED_OUT else error for error in errors if error]


def prompt_for(
    diagnosis: Diagnosis,
    sources: Sequence[object],
    settings: AgentSettings,
    *,
    book: RuleBook,
    job: Mapping[str, str] | None = None,
) -> str:
    """Exactly what `consult` would send first. Nothing is sent, and LangChain is not loaded."""
    case = _Case(diagnosis, tuple(sources), settings, job or {}, book, Asker(settings.model, settings.timeout))
    _prepare(case)
    return str(case.prompt)


def _prepare(case: _Case) -> LogView:
    """The prompt of a case, and the view that its tools will read."""
    view = LogView(case.diagnosis, case.sources, min(_MOST_READ_SECONDS, case.settings.timeout / 4))
    bundle = evidence_of(case.diagnosis, view, case.settings.budget, case.job)
    channel = case.asker.channel
    learn_names(channel.redactor, case.diagnosis, view.names, case.job)
    case.prompt = prompt_of(bundle, channel, ROUNDS, case.book.reasons)
    return view


def _talk(case: _Case, model: BaseChatModel, view: LogView, callbacks: tuple[Any, ...]) -> str:
    """One conversation; why it came to no opinion, empty where it did."""
    from langsmith import tracing_context

    assert case.prompt is not None
    channel = case.asker.channel.fork()
    none_allowed = case.diagnosis.root_cause is None or leaves_open(case.diagnosis)
    talk = Conversation(channel, case.asker.ends, none_allowed)
    case.talks.append(talk)
    try:
        with tracing_context(enabled=False):  # whatever the environment says
            ask(model, case.prompt, tools_for(view, channel, case.book), talk, callbacks)
    except Exception as error:  # anything that a model's client, or a callback, raises
        talk.error = talk.error or failure_of(error)
    return "" if talk.opinion else talk.error


def _notes(case: _Case, opinion: Opinion | None, error: str, *, own_model: bool) -> list[str]:
    """Why there is no opinion, how far votes went apart, and what left the machine, to where."""
    notes: list[str] = []
    name = case.settings.model
    if opinion is None:
        notes.append(f"the model {name} {error}; rules and memory decided")
    elif opinion.agreed < opinion.votes:
        notes.append(f"{opinion.agreed} of {opinion.votes} answers of the model {name} agree")
        if error:
            notes.append(f"not every conversation with the model {name} came to an answer: it {error}")
    if case.talks:
        prompt = len(str(case.prompt).encode(errors="replace"))
        sent = prompt * len(case.talks) + sum(talk.channel.sent for talk in case.talks)
        hidden = case.asker.channel.redactor.manifest()
        kinds = [f"{count} {_plural(kind, count)}" for kind, count in hidden.items() if count or kind == "secrets"]
        notes.append(f"sent {sent / 1000:.1f} kB to {name}; hidden in it: {', '.join(kinds)}")
        if not (own_model or is_bounded(name)):
            notes.append(f"the client of {name} is not ours to bound: it may follow redirects")
    return notes


def _plural(kind: str, count: int) -> str:
    """hosts   1 host   1 address"""
    return kind if count != 1 else kind.removesuffix("es" if kind == "addresses" else "s")
