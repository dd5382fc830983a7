"""The rule writer: a model drafts a failure rule from confirmed incidents of one kind.

The model writes title, explanation, pattern and near misses; reason, action and firing examples come from the
incidents. If the gate refuses the rule, the model gets the problems and may try again, three times in all.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from logdiag.agent.ask import Asker, objects_in
from logdiag.agent.forms import instructions
from logdiag.authoring.gate import judged_drafts
from logdiag.authoring.rule_file import MOST_EXAMPLES, Proposal, examples_of, rule_draft
from logdiag.authoring.suggest import near_wordings
from logdiag.errors import RuleError
from logdiag.memory.incident import Incident
from logdiag.model import Reason
from logdiag.report.words import clean
from logdiag.rules import RuleBook
from logdiag.settings.places import StrPath

_ATTEMPTS = 3
_MOST_CONTEXT = 60
_LONGEST_PATTERN = 400
_LONGEST_WORDS = 400

_SYSTEM = instructions("draft_rule.txt", __file__)
_ASKED_FOR = "the JSON object asked for, with a title, a why and a pattern"
_EXPLAINABLE = frozenset(item.value for item in Reason if item is not Reason.NONE)


def draft_rule(
    incidents: Sequence[Incident],
    asker: Asker,
    *,
    others: Sequence[Incident] = (),
    folders: Sequence[StrPath] = (),
    healthy: Sequence[StrPath] = (),
) -> Proposal:
    """A proposed rule for confirmed incidents of one reason, with the problems that the gate found.

    `others` are incidents on which it must not fire, `folders` further rules in force, `healthy` logs without failures.
    Raises RuleError for incidents that are unconfirmed or of several reasons, AgentError when the model fails.
    """
    if len({item.reason for item in incidents}) != 1 or incidents[0].reason is Reason.NONE:
        raise RuleError("a rule is drafted from incidents of one reason; give the ids of such")
    if unconfirmed := [item.id for item in incidents if not item.confirmed_by]:
        raise RuleError(f"incident {unconfirmed[0]}: nobody confirmed it; use logdiag incidents confirm")
    system = _SYSTEM.format(nonce=asker.channel.nonce, reasons=", ".join(sorted(_EXPLAINABLE)))
    question = _question(incidents, others, asker)
    ids = {rule.id for rule in RuleBook.load(folders).rules}
    best: Proposal | None = None
    refusal = ""
    for _ in range(_ATTEMPTS):
        if best is not None and time.monotonic() > asker.ends:
            break
        (text,) = asker.texts(system, question + refusal)
        draft = _draft(text, incidents, set(ids))
        if draft is None:
            refusal = f"\n\nYour last answer was not {_ASKED_FOR}."
            continue
        try:
            (best,) = judged_drafts([draft], (*incidents, *others), folders, healthy)
        except RuleError as error:
            # Without the path and line of the gate's temporary file.
            best = replace(draft, problems=(str(error).split(".yaml:", 1)[-1].lstrip("0123456789: "),))
        if not best.problems:
            break
        refusal = f"\n\nYour last rule did not pass:\n{asker.fenced(['; '.join(best.problems[:3])])}\nCorrect it."
    if best is None:
        raise RuleError(f"the model drafted no rule: it did not give {_ASKED_FOR}; try another")
    return best


def _question(incidents: Sequence[Incident], others: Sequence[Incident], asker: Asker) -> str:
    """The question to the model, its texts hidden together, once the redactor has learnt names, and marked as data."""
    redactor = asker.channel.redactor
    for item in incidents:
        redactor.know("host", item.node)
        redactor.know("user", item.confirmed_by)
        redactor.know("user", item.job.get("user"))
        redactor.know_words(item.job.get("name", ""))
    parts = [
        "Example lines of the failure, with made-up values:",
        *examples_of(incidents)[:MOST_EXAMPLES],
        "What people say of it:",
        *[item.cause for item in incidents if item.cause][:3],
        "Lines around it in a log:",
        *[line for item in incidents for line in item.window][:_MOST_CONTEXT],
        "Lines of other failures, which must not match:",
        *near_wordings(incidents, others),
    ]
    return f"The failure's reason is {incidents[0].reason.value}.\n{asker.fenced(parts)}"


def _draft(text: str, incidents: Sequence[Incident], taken: set[str]) -> Proposal | None:
    """The proposal in a model's answer; None if it holds no JSON object of the required form."""
    answer = next(iter(objects_in(text, "pattern")), {})
    fields = [answer.get(name) for name in ("title", "why", "pattern")]
    if not all(isinstance(item, str) and item.strip() for item in fields) or len(answer["pattern"]) > _LONGEST_PATTERN:
        return None
    reason = incidents[0].reason.value
    return rule_draft(
        incidents,
        answer["pattern"],
        title=answer["title"][:_LONGEST_WORDS],
        why=answer["why"][:_LONGEST_WORDS],
        explains=[name for name in _texts(answer.get("explains")) if name in _EXPLAINABLE and name != reason],
        references=["Drafted by a language model"],
        quiet=map(clean, _texts(answer.get("quiet"))),
        taken=taken,
    )


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str) and item.strip()] if isinstance(value, list) else []
