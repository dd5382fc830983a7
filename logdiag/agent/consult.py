"""Asks a language model about a diagnosis, within one deadline; never raises. Loading, connecting, turns and tool calls
run in threads that nobody waits for beyond the deadline."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from logdiag.agent.ask import Asker, outcomes
from logdiag.agent.evidence import Prompt, evidence_of, prompt_of
from logdiag.agent.failure_agent import ROUNDS, Conversation, ask
from logdiag.agent.models import TIMED_OUT, failure_of, is_bounded
from logdiag.agent.opinion import AgentSettings, Consultation, Opinion, Trace, leaves_open, vote
from logdiag.agent.outbound import Channel, learn_names
from logdiag.agent.redaction import Redactor
from logdiag.agent.view import LogView
from logdiag.model import Diagnosis
from logdiag.rules import RuleBook

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


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
        channel = asker.channel
        prepare = partial(_prepared, diagnosis, sources, settings, book, job, channel)
        ready = next(outcomes([lambda: (*prepare(), asker.model())], asker.ends), TimeoutError())
        talks: list[Conversation] = []
        if isinstance(ready, BaseException):
            prompt, errors = "", [failure_of(ready)]
        else:
            view, sent, chat = ready
            prompt, none_allowed = str(sent), diagnosis.root_cause is None or leaves_open(diagnosis)
            talks = [Conversation(channel.fork(), asker.ends, none_allowed) for _ in range(settings.votes)]
            list(outcomes([partial(ask, chat, sent, view, book, talk, callbacks) for talk in talks], asker.ends))
            errors = [talk.error or TIMED_OUT for talk in talks if not talk.opinion]
    opinion = vote([talk.opinion for talk in talks if talk.opinion], settings.votes)
    error = errors[0] if errors else "" if opinion else "gave answers that contradict each other"
    if error == TIMED_OUT:
        error = f"did not answer within {settings.timeout:g} s"
    bounded = model is not None or is_bounded(settings.model)
    notes = tuple(_notes(settings.model, opinion, error, prompt, talks, bounded=bounded))
    trace = _trace(talks, "" if opinion else error, round(time.monotonic() - began, 6))
    return Consultation(opinion, trace, notes, prompt)


def prompt_for(
    diagnosis: Diagnosis,
    sources: Sequence[object],
    settings: AgentSettings,
    *,
    book: RuleBook,
    job: Mapping[str, str] | None = None,
) -> str:
    """Exactly what `consult` would send first. Nothing is sent, and LangChain is not loaded."""
    return str(_prepared(diagnosis, sources, settings, book, job, Channel(Redactor()))[1])


def _prepared(
    diagnosis: Diagnosis,
    sources: Sequence[object],
    settings: AgentSettings,
    book: RuleBook,
    job: Mapping[str, str] | None,
    channel: Channel,
) -> tuple[LogView, Prompt]:
    view = LogView(diagnosis, tuple(sources), settings.timeout / 4)
    bundle = evidence_of(diagnosis, view, settings.budget, job)
    learn_names(channel.redactor, diagnosis, view.names, job or {})
    return view, prompt_of(bundle, channel, ROUNDS, book.reasons)


def _trace(talks: Sequence[Conversation], error: str, seconds: float) -> Trace:
    """What the conversations took together; their threads may still go on."""
    costs = [talk.cost for talk in talks if talk.cost is not None]
    return Trace(
        steps=tuple(step for talk in talks for step in tuple(talk.steps)),
        tokens_in=sum(talk.tokens["input_tokens"] for talk in talks),
        tokens_out=sum(talk.tokens["output_tokens"] for talk in talks),
        cost=sum(costs) if costs else None,
        seconds=seconds,
        refusals=tuple(why for talk in talks for why in tuple(talk.refusals)),
        error=error,
    )


def _notes(
    name: str, opinion: Opinion | None, error: str, prompt: str, talks: Sequence[Conversation], *, bounded: bool
) -> Iterator[str]:
    """Why there is no opinion, how far votes went apart, and what left the machine, to where."""
    if opinion is None:
        yield f"the model {name} {error}; rules and memory decided"
    elif opinion.agreed < opinion.votes:
        yield f"{opinion.agreed} of {opinion.votes} answers of the model {name} agree"
        if error:
            yield f"not every conversation with the model {name} came to an answer: it {error}"
    if talks:
        sent = len(prompt.encode(errors="replace")) * len(talks) + sum(talk.channel.sent for talk in talks)
        hidden = talks[0].channel.redactor.manifest()
        kinds = [f"{count} {_plural(kind, count)}" for kind, count in hidden.items() if count or kind == "secrets"]
        yield f"sent {sent / 1000:.1f} kB to {name}; hidden in it: {', '.join(kinds)}"
        if not bounded:
            yield f"the client of {name} is not ours to bound: it may follow redirects"


def _plural(kind: str, count: int) -> str:
    """hosts   1 host   1 address"""
    return kind if count != 1 else kind.removesuffix("es" if kind == "addresses" else "s")
