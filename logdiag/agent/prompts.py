"""The prompt: the model's instructions, what the reasons mean, and the evidence, marked as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from logdiag.agent.evidence import Bundle
from logdiag.agent.forms import instructions
from logdiag.agent.outbound import Channel
from logdiag.model import Category, Reason
from logdiag.rules import ReasonEntry

_NO_FAILURE = "no failure: the log shows that the job came to its end, or nothing that failed"

_SYSTEM = instructions("instructions.txt") + "\n\nThe reasons:\n{reasons}"
_USER = """\
What is known of the job:
{facts}

Lines of its logs:
{lines}

What broke first? Answer with the tool `answer`."""


# The longer sentences of the instructions: an answer that repeats one of them is not shown.
INSTRUCTION_SENTENCES = tuple(
    part for part in " ".join(_SYSTEM.split()).split(". ") if len(part) > 40 and "{" not in part
)


class Prompt(NamedTuple):
    """The two messages that begin a conversation, as they leave the machine."""

    system: str
    user: str

    def __str__(self) -> str:
        return f"--- system ---\n{self.system}\n--- user ---\n{self.user}\n"


def prompt_of(bundle: Bundle, channel: Channel, rounds: int, reasons: Mapping[Reason, ReasonEntry]) -> Prompt:
    """The prompt for a bundle; `reasons` gives the meaning of each reason. All that comes from the job goes through the
    channel and is fenced."""
    rows: list[str] = []
    for category in Category:
        rows.append(f"{category.value}:")
        for reason in [reason for reason in Reason if reason.category is category]:
            rows.append(f"- {reason.value}: {reasons[reason].for_models if reason in reasons else _NO_FAILURE}")
    user = _USER.format(
        facts=channel.fenced(channel.text("\n".join(bundle.facts))),
        lines=channel.fenced(channel.rows(bundle.lines, bundle.counts)),
    )
    return Prompt(_SYSTEM.format(nonce=channel.nonce, rounds=rounds, reasons="\n".join(rows)), user)
