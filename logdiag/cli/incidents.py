"""`logdiag incidents add|confirm|correct|list|show|search|forget|export|import|stats|nodes`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import wraps
from typing import Any, TextIO

import click

from logdiag.cli.options import (
    COUNT,
    PATH,
    REASONS,
    OneOf,
    added,
    metadata_of,
    own_rules,
    past_failures,
    settings_in_force,
    text_or_json,
)
from logdiag.cli.output import print_listed, say
from logdiag.errors import MemoryStoreError
from logdiag.memory.incident import Helped, Incident, masked
from logdiag.memory.store import Store, open_store
from logdiag.model import Action, Reason
from logdiag.pipeline import diagnose
from logdiag.read.prefixes import parse_line
from logdiag.report.words import clean
from logdiag.rules import RuleBook
from logdiag.settings.places import default_memory

_OUTCOMES = OneOf(Helped)
_FIELDS = ("reason", "action", "cause", "remedy", "outcome")
_WIDEST = 100

_by = click.option("--by", metavar="NAME", help="Who says so; you if left out.")


def _on_store(command: Callable[..., None]) -> Callable[..., None]:
    """Adds --memory to a command, and passes it the opened store as its first argument."""

    @past_failures
    @wraps(command)
    def with_store(memory: str | None, **arguments: Any) -> None:
        with open_store(settings_in_force({"memory": memory}).store_or_refusal()) as store:
            command(store, **arguments)

    return with_store


# The fields of an incident that a person may set.
_field_options = added(
    click.option("--reason", type=REASONS, metavar="REASON", help="What it was, a reason of the taxonomy."),
    click.option("--action", type=OneOf(Action), help="What to do when it comes again."),
    click.option("--cause", metavar="TEXT", help="What happened, in a sentence."),
    click.option("--remedy", metavar="TEXT", help="What was done about it."),
    click.option("--outcome", type=_OUTCOMES, help="Whether the remedy helped."),
)


@click.group(
    epilog="""\b
Examples:
  logdiag --remember slurm-4711.out                            keep a failure; the answer names its id
  logdiag incidents confirm i-x7k2m9qp --outcome worked        its reason and remedy were right
  logdiag incidents search 'NCCL watchdog timeout'             past failures like a line"""
)
def incidents() -> None:
    """Keep past failures and what was done about them, so that the next one like them is known."""


@incidents.command("add")
@click.argument("log", required=False, type=PATH)
@click.option("--signature", metavar="TEXT", help="The line that names the cause, when there is no log.")
@_field_options
@click.option("--node", metavar="NAME", help="The node that failed first.")
@click.option("--job", "job", multiple=True, metavar="KEY=VALUE", help="The job's name, user or whatever tells it.")
@click.option("--seen-at", metavar="TIME", help="When it happened, ISO 8601; now if left out.")
@own_rules
@_by
@_on_store
@text_or_json
def add_command(store: Store, rules: tuple[str, ...], by: str | None, form: str, **options: Any) -> None:
    """Remember the failure that LOG shows, by the line that names its cause.

    The line is the one that logdiag finds; --signature gives it without a log. With a --reason it is knowledge at once;
    without, it waits for logdiag incidents confirm.
    """
    fields = _fields_of(options)
    incident = _incident_of(options["log"], options["signature"], options["reason"], rules)
    incident = replace(
        incident,
        **fields,
        node=options["node"] or incident.node,
        job={**incident.job, **metadata_of(options["job"])},
        seen_at=options["seen_at"] or "",
        confirmed_by=(by or _person()) if by or "reason" in fields else "",
    )
    added, known = store.remember(incident)
    if known:
        click.echo(f"known as {added.id}, seen again: {added.times_seen} times in all", err=True)
        added = store.correct(added.id, by=incident.confirmed_by, **fields) if incident.confirmed_by else added
    _show(added, form)


@incidents.command("confirm")
@click.argument("identity", metavar="ID")
@click.option("--outcome", type=_OUTCOMES, help="Whether the remedy helped.")
@_by
@_on_store
def confirm_command(store: Store, identity: str, outcome: Helped | None, by: str | None) -> None:
    """Say that the reason and the remedy of an incident are right."""
    changed = store.correct(identity, by=by or _person(), outcome=outcome)
    remedy = f", remedy {changed.remedy}" if changed.remedy else ""
    confirmed = f"{changed.reason.value}, {_action_words(changed)}{remedy}, {changed.outcome.value}"
    say(f"{changed.id}: {confirmed}, confirmed by {changed.confirmed_by}")


@incidents.command("correct")
@click.argument("identity", metavar="ID")
@_field_options
@own_rules
@_by
@_on_store
@text_or_json
def correct_command(
    store: Store, identity: str, rules: tuple[str, ...], by: str | None, form: str, **options: Any
) -> None:
    """Replace what was wrong about an incident, and confirm the rest.

    With another reason, the old one's cause, remedy and outcome go, and the action becomes the new reason's, unless
    they are given; the history that is printed says what went. An empty --remedy '' takes the remedy away.
    """
    fields = _fields_of(options)
    if not fields:
        raise MemoryStoreError(f"{identity}: nothing to correct; give --{', --'.join(_FIELDS[:-1])} or --{_FIELDS[-1]}")
    old = store.get(identity)
    if fields.get("reason", old.reason) is not old.reason and "action" not in fields:
        fields["action"] = _action_of(fields["reason"], rules)
    _show(store.correct(identity, by=by or _person(), **fields), form)


@incidents.command("list")
@click.option("--reason", type=REASONS, metavar="REASON", help="Only those of one reason.")
@click.option("--node", metavar="NAME", help="Only those of one node.")
@click.option("--since", metavar="TIME", help="Only those since then, ISO 8601.")
@click.option("--limit", type=COUNT, metavar="N", help="At most so many, the latest first.")
@click.option("--shipped", is_flag=True, help="Those that ship with logdiag too.")
@_on_store
@text_or_json
def list_command(store: Store, shipped: bool, form: str, **filters: Any) -> None:
    """Print incidents, the latest first."""
    listed = [item for item in store.list(**filters) if shipped or item.seen_at]
    _report_unreadable(store)
    print_listed(form, [asdict(item) for item in listed], map(_row, listed))
    if not listed and form == "text":
        click.echo("no incidents yet; logdiag --remember LOG keeps one", err=True)


@incidents.command("show")
@click.argument("identity", metavar="ID")
@_on_store
@text_or_json
def show_command(store: Store, identity: str, form: str) -> None:
    """Print all that is known of one incident."""
    _show(store.get(identity), form)


@incidents.command("search")
@click.argument("text", metavar="TEXT|LOG")
@click.option("--limit", type=COUNT, default=5, metavar="N", help="How many.")
@_on_store
@text_or_json
def search_command(store: Store, text: str, limit: int, form: str) -> None:
    """Print the incidents most like a line, or like the line that names the cause in a log."""
    signature = _incident_of(text, None, None, ()).signature if os.path.exists(text) else masked(parse_line(text))
    nearest = store.nearest(signature, limit)
    documents = [{"similarity": round(score, 4), **asdict(item)} for score, item in nearest]
    print_listed(form, documents, (f"{score:.2f}  {_row(item)}" for score, item in nearest))


@incidents.command("forget")
@click.argument("identities", nargs=-1, required=True, metavar="ID...")
@_on_store
def forget_command(store: Store, identities: tuple[str, ...]) -> None:
    """Remove incidents for good."""
    for identity in identities:
        store.forget(identity)
        say(f"{identity}: forgotten")


@incidents.command("export")
@click.argument("file", default="-", type=click.File("w", encoding="utf-8", lazy=False), metavar="[FILE]")
@_on_store
def export_command(store: Store, file: TextIO) -> None:
    """Write all incidents as JSON lines, to share them; to standard output without FILE."""
    count = store.export(file)
    _report_unreadable(store)
    if file.name != "<stdout>":
        say(f"{file.name}: {count} incidents", err=True)


@incidents.command("import")
@click.argument("file", type=click.File(encoding="utf-8", errors="surrogateescape"), metavar="FILE")
@click.option("--own", is_flag=True, help="An export of your own: what was confirmed in it counts here.")
@_on_store
def import_command(store: Store, file: TextIO, own: bool) -> None:
    """Take in what logdiag incidents export wrote; - reads standard input.

    What others confirmed is shown, and decides nothing before it is confirmed here. Of two forms of one incident a
    confirmed one stays, and else the one that was changed last.
    """
    merged = store.import_(file, own=own)
    click.echo(f"{merged.added} added, {merged.replaced} replaced, {merged.kept} kept as they were")


@incidents.command("stats")
@_on_store
@text_or_json
def stats_command(store: Store, form: str) -> None:
    """Print how much is known, and of what."""
    stats = store.stats()
    known = f"{stats['incidents']} incidents, {stats['confirmed']} confirmed; {stats['shipped']} ship with it"
    span = [f"from {stats['first_seen']} to {stats['last_seen']}"] if stats["incidents"] else []
    counts = [f"{count:>7}  {name}" for name, count in (*stats["reasons"].items(), *stats["outcomes"].items())]
    print_listed(form, stats, [f"{stats['place']}: {known}", *span, *counts])


@incidents.command("nodes")
@click.option("--days", type=click.FloatRange(min=0, min_open=True), default=30.0, metavar="N")
@click.option("--of", "size", type=COUNT, metavar="N", help="How many nodes the cluster has.")
@_on_store
@text_or_json
def nodes_command(store: Store, days: float, size: int | None, form: str) -> None:
    """Print which nodes failed first in which jobs in the last days, and whether that is more than chance.

    p is the probability that a node no worse than the others fails so often, corrected for the number of nodes (the
    binomial law with Holm's correction; see logdiag/memory/nodes.py). A node with * failed more often than chance.
    """
    from logdiag.memory.nodes import node_records

    records = node_records(store, days, nodes=size)
    width = max((len(item.node) for item in records), default=0)
    rows = []
    for item in records:
        node = f"{'*' if item.suspicious else ' '} {item.node:<{width}}"
        reasons = ", ".join(f"{count} {name}" for name, count in item.reasons.items())
        jobs = f"  jobs {', '.join(item.jobs)}" if item.jobs else ""
        rows.append(f"{node}  {item.failures:>3} failures  p {item.corrected:.2g}  {reasons}{jobs}")
    print_listed(form, [{**asdict(item), "suspicious": item.suspicious} for item in records], rows)


def _incident_of(log: str | None, signature: str | None, reason: Reason | None, rules: tuple[str, ...]) -> Incident:
    from logdiag.memory.remember import incident_of

    if (log is None) == (signature is None):
        raise MemoryStoreError("an incident needs a LOG or a --signature, and not both; give one of them")
    if log is not None:
        return incident_of(diagnose(log, rules=rules, memory=default_memory()))
    if reason is None:
        raise MemoryStoreError("--reason is missing; a line that you give needs the reason that you know")
    line = parse_line(signature or "")
    return Incident("", masked(line), reason, _action_of(reason, rules), node=line.node or "")


def _action_of(reason: Reason, rules: tuple[str, ...]) -> Action:
    return RuleBook.load(rules).entry_of(reason).action


def _report_unreadable(store: Store) -> None:
    if ids := store.unreadable:
        say(f"{len(ids)} left out, which cannot be read: {', '.join(ids[:10])}", err=True)


def _fields_of(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in _FIELDS if options[name] is not None}


def _person() -> str:
    """Returns the login name of the user who runs the command; `unknown` where the system has none."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def _row(incident: Incident) -> str:
    confirmed = "confirmed" if incident.confirmed_by else "imported" if incident.imported else "unconfirmed"
    seen = incident.seen_at[:19] + "Z" if incident.seen_at else "shipped"
    known = f"{incident.reason.value:<19}  {incident.outcome.value:<7}  {confirmed:<11}"
    return f"{clean(incident.id)}  {clean(seen):<20}  {known}  {clean(incident.signature, _WIDEST)}"


def _show(incident: Incident, form: str) -> None:
    nobody = "nobody" if not incident.seen_at else f"nobody: logdiag incidents confirm {incident.id}"
    details = [
        ("line", incident.signature),
        ("cause", incident.cause),
        ("remedy", incident.remedy),
        ("node", incident.node),
        ("job", ", ".join(f"{key} {value}" for key, value in incident.job.items())),
        ("raised in", " < ".join(f"{frame.file}, {frame.function}" for frame in incident.frames)),
        ("seen at", incident.seen_at + (f", {incident.times_seen} times" if incident.times_seen > 1 else "")),
        ("from", incident.provenance),
        ("imported from", incident.imported),
        ("confirmed by", incident.confirmed_by or nobody),
        *(("beside it", line) for line in incident.window),
    ]
    rows = [f"{incident.id}  {incident.reason.value}  {_action_words(incident)}  {incident.outcome.value}"]
    rows += [f"  {name + ':':<15}{value}" for name, value in details if value]
    rows += [f"  {entry.at[:19] + 'Z':<22}{entry.by or 'logdiag'}: {entry.what}" for entry in incident.history]
    print_listed(form, asdict(incident), rows)


def _action_words(incident: Incident) -> str:
    return "the action of its reason" if incident.action is Action.NONE else incident.action.value
