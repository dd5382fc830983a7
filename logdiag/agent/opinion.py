"""The failure agent's settings, its opinion, the vote over several opinions, and a trace of what asking took. Nothing
here loads LangChain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from logdiag.model import Diagnosis, Line, Reason, Support

# Supports that name no cause: an exit status, a launcher's last words, an unknown exception, a program's complaint.
_NO_CAUSE = frozenset({Support.CATCH_ALL, Support.BARE_SYMPTOM, Support.SYMPTOM, Support.HINT, Support.EXIT_CODE})
# Supports that name a cause but are doubtful.
_DOUBTFUL = frozenset(
    {Support.QUIET, Support.SILENT, Support.COMPLAINING, Support.FAINTLY_ALIKE, Support.DIVIDED, Support.TRIAL}
)


def names_no_cause(diagnosis: Diagnosis) -> bool:
    """Whether a job failed and what was found only shows that it did, such as an exit status."""
    nameless = diagnosis.reason is Reason.OTHERS or not _NO_CAUSE.isdisjoint(diagnosis.supports)
    return bool(diagnosis.failed) and nameless


def leaves_open(diagnosis: Diagnosis) -> bool:
    """Whether a model may be asked and heard. It does not depend on how sure the answer is."""
    unnamed = diagnosis.failed is None or diagnosis.decided_by == "suspects" or names_no_cause(diagnosis)
    return unnamed or not _DOUBTFUL.isdisjoint(diagnosis.supports)


class AgentSettings(NamedTuple):
    """How to ask: `model` as `provider:model`, `timeout` seconds for everything together, the number of `votes`, and
    the `budget` in tokens of log that the model is shown. `when` is `unsure` (where no cause is named) or `always`."""

    model: str
    timeout: float = 30.0
    votes: int = 1
    budget: int = 6000
    when: str = "unsure"


class Opinion(NamedTuple):
    """What a model says broke first; every line that it cites was found in the log as quoted.

    `root` is None only with the reason `none`; `rank` is None where no line names it. `cause` and `would_prove` are
    plain text. `confidence` (0 to 1) is the model's, reduced where too few of the `votes` `agreed`.
    """

    reason: Reason
    root: Line | None
    evidence: tuple[Line, ...]
    cause: str
    would_prove: str
    confidence: float
    votes: int = 1
    agreed: int = 1
    rank: int | None = None


class Trace(NamedTuple):
    """What asking took. `steps` are `model` for a turn, the names of tools, and `refused` for an answer that was handed
    back, `refusals` why. `cost` is in the currency of the model's server, None where that does not say; `error` is why
    there is no opinion, empty when there is one."""

    steps: tuple[str, ...] = ()
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    seconds: float = 0.0
    refusals: tuple[str, ...] = ()
    error: str = ""


class Consultation(NamedTuple):
    """The opinion, None when there is none; what asking took; notes for the reader; and the prompt as it was sent."""

    opinion: Opinion | None
    trace: Trace
    notes: tuple[str, ...]
    prompt: str


UNITED = 2 / 3
"""From this share of the samples on, those that agree are at least as sure as one that is asked alone."""


def vote(opinions: Sequence[Opinion], asked: int) -> Opinion | None:
    """The reason that most opinions give, with the root line that most of those name; None without opinions and for a
    tie. The confidence is the mean of those who agree, times their share of those `asked` where that is too small."""
    ranked = Counter(opinion.reason for opinion in opinions).most_common(2)
    if not ranked or (len(ranked) == 2 and ranked[0][1] == ranked[1][1]):
        return None
    reason, agreed = ranked[0]
    agreeing = [opinion for opinion in opinions if opinion.reason is reason]
    roots = Counter(opinion.root and opinion.root.place for opinion in agreeing)
    best = max(agreeing, key=lambda opinion: (roots[opinion.root and opinion.root.place], opinion.confidence))
    mean = sum(opinion.confidence for opinion in agreeing) / agreed
    share = agreed / asked
    return best._replace(confidence=round(mean if share >= UNITED else mean * share, 4), votes=asked, agreed=agreed)
