"""What to do next: the rule's action or the reason's default, where the job stood, and which nodes to leave out.

The action comes from tables that people wrote and can read, never from a model.
"""

from __future__ import annotations

from logdiag.judge.faults import Fault
from logdiag.judge.judgement import Judgement
from logdiag.judge.ranks.rank import node_from_words
from logdiag.model import Action, Finding, Reason, Recovery, fill, number_in
from logdiag.rules import RuleBook

_NOTHING = Recovery(Action.NONE, False, (), (), "The log shows no failure.")
# Restart from the last checkpoint; if it comes back, ...   Start again from the last checkpoint; ask for more time, ...
_RESTARTS = ("Restart from the last checkpoint", "Start again from the last checkpoint")
# Steps of rules that repeat the first step, which also names the node to leave out.
_REPEATED_STEPS = ("Restart from the last checkpoint.", "Restart from the last checkpoint on other nodes.")


def recover(
    judgement: Judgement, book: RuleBook, *, failed: bool | None, sure: bool = True, suspicious: tuple[str, ...] = ()
) -> Recovery:
    """The recovery for a root cause; without one, what to collect. No action is automatic unless the answer is `sure`.
    `suspicious` are nodes that failed more often than chance, the worst first."""
    if failed is False:
        return _NOTHING
    if judgement.root is None:
        steps = tuple(f"Collect {item}." for item in book.entry_of(Reason.OTHERS).collect)
        if failed is None:
            return Recovery(Action.NONE, False, (), steps, "The log does not tell whether it failed.")
        return Recovery(Action.FIX_AND_RESUBMIT, False, (), steps, "The job failed, but its log does not say why.")
    finding = judgement.root.finding
    action, why = _action_for(finding, judgement.progressed, book)
    if action is Action.RESTART and (judgement.node in suspicious or _lost_its_machine(judgement, judgement.root)):
        action = Action.RESTART_EXCLUDING_NODE
    nodes: tuple[str, ...] = ()
    if action is Action.RESTART_EXCLUDING_NODE:
        guessed = any(made.name == node_from_words.__name__ for made in judgement.decisions)
        failed_nodes = [judgement.node] if judgement.node and not guessed else []
        nodes = tuple(dict.fromkeys([*failed_nodes, *suspicious]))
    return Recovery(
        action=action,
        # From a machine's log alone no job is known to restart, so a person decides.
        automatic=action.automatic and sure and failed is True,
        exclude_nodes=nodes,
        steps=_steps(judgement, finding, action, nodes, book),
        why=why,
    )


def _action_for(finding: Finding, progressed: bool | None, book: RuleBook) -> tuple[Action, str]:
    """Returns the action of the root's rule, or else of its reason, and why; some have another before any progress."""
    entry = book.entry_of(finding.reason)
    action, early = finding.action, finding.action_before_progress
    if action is None:
        action, early = entry.action, early or entry.action_before_progress
    if early is None:
        return action, finding.why
    # The first collective (sequence number 1) means that no step was made, as does a root before any progress.
    sequence = number_in(finding.facts.get("seqnum", ""))
    started = progressed is not False if sequence is None else sequence > 1
    when = "The job had made progress" if progressed else "It failed before any step was made"
    return action if started else early, finding.why if progressed is None else f"{when}: {finding.why}"


def _lost_its_machine(judgement: Judgement, root: Fault) -> bool:
    """Whether another line of the same reason asks to leave the machine out. The process that lost a GPU often prints
    only that a call failed; the machine's own line names the GPU."""
    findings = (finding for fault in (root, *judgement.consequences) for finding in fault.findings)
    return root.finding.generality > 0 and any(
        finding.reason is root.reason and finding.action is Action.RESTART_EXCLUDING_NODE for finding in findings
    )


def _steps(
    judgement: Judgement, finding: Finding, action: Action, nodes: tuple[str, ...], book: RuleBook
) -> tuple[str, ...]:
    facts = dict(finding.facts)
    if judgement.node:
        facts.setdefault("node", judgement.node)
    if judgement.rank is not None:
        facts.setdefault("rank", str(judgement.rank))
    steps = finding.steps or book.entry_of(finding.reason).steps
    without = ", ".join(nodes) or "the node that failed"
    first = {
        Action.RESTART: "Restart from the last checkpoint.",
        Action.RESTART_EXCLUDING_NODE: f"Restart from the last checkpoint without {without}.",
        Action.ROLLBACK_AND_SKIP: "Restart from an earlier checkpoint and skip the batches of the spike.",
        Action.RETRY_LATER: "Submit the job again when the service answers.",
    }.get(action)
    if action is Action.RESTART and any(step.startswith(_RESTARTS) for step in steps):
        first = None  # the rule's own step says more
    elif action is Action.RESTART_EXCLUDING_NODE:
        steps = tuple(step for step in steps if step not in _REPEATED_STEPS)
    return (*filter(None, [first]), *(fill(step, facts) for step in steps))
