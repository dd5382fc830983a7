"""`logdiag rules list|show|test|why|new|suggest|learn-filters|draft`, and `logdiag forms test|why`."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NoReturn

import click

from logdiag.cli.options import (
    PATH,
    REASONS,
    added,
    job_option,
    metadata_of,
    offline,
    own_rules,
    past_failures,
    settings_in_force,
    text_or_json,
)
from logdiag.cli.output import print_listed, say
from logdiag.errors import LogdiagError, RuleError
from logdiag.model import Reason
from logdiag.report.words import clean
from logdiag.rules import Rule, RuleBook
from logdiag.settings import Settings

if TYPE_CHECKING:
    from logdiag.agent.ask import Asker
    from logdiag.authoring.rule_file import Proposal
    from logdiag.rules.tables import Problem

_proposing = added(
    click.option("--accept", "accepted", is_flag=True, help="Write what passed into the folder of --rules."),
    past_failures,
    own_rules,
)
_healthy = click.option(
    "--healthy", multiple=True, metavar="PATH", help="Logs of healthy jobs, on which nothing may fire."
)
_model = added(
    click.option("--llm", metavar="MODEL", help="The language model as provider:model; LOGDIAG_LLM if left out."),
    click.option("--llm-timeout", type=float, metavar="SECONDS", help="How long each question may take."),
    offline,
)
# The most questions that learning asks; each may take the seconds of --llm-timeout.
_QUESTIONS = 8
_LONGEST = 10_000


@click.group(
    epilog="""\b
Examples:
  logdiag rules why 'CUDA error: out of memory'    which rules match a line, and which wins
  logdiag rules show nvidia/xid                    one rule as its file has it
  logdiag rules new 'LKV-204: no shard' --rules our-rules/   the first draft of a rule
  logdiag rules test our-rules/                    prove a folder of your own"""
)
def rules() -> None:
    """Look at the rules, prove them, and ask why one fires."""


@rules.command("list")
@click.argument("words", nargs=-1)
@click.option("--reason", type=REASONS, metavar="REASON", help="Only the rules of one reason.")
@own_rules
def list_command(words: tuple[str, ...], reason: Reason | None, rules: tuple[str, ...]) -> None:
    """Print every rule, or those that hold all WORDS: id, role, reason, title. Patterns are searched, too."""
    shown = []
    for rule in RuleBook.load(rules).rules:
        text = " ".join((rule.id, rule.title, rule.why, *rule.match)).lower()
        if reason in (None, rule.reason) and all(word.lower() in text for word in words):
            shown.append(rule)
    if not shown:
        wanted = " and ".join([*words, *([reason.value] if reason else [])])
        raise RuleError(f"rules: no rule has {wanted}; see logdiag rules list")
    width = max(len(rule.id) for rule in shown)
    for rule in shown:
        say(f"{rule.id:<{width}}  {rule.role:<9}  {rule.reason:<19}  {rule.title}")


def _rule_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    book = RuleBook.load(ctx.params.get("rules") or ())
    return [item.id for item in book.entries if item.id.startswith(incomplete)]


@rules.command("show")
@click.argument("identity", shell_complete=_rule_ids)
@own_rules
def show_command(identity: str, rules: tuple[str, ...]) -> None:
    """Print one rule as it stands in its file."""
    book = RuleBook.load(rules)
    file = next((item.file for item in book.entries if item.id == identity), None)
    if file is None:
        raise RuleError(f"{identity}: no such rule; see logdiag rules list")
    from logdiag.rules.tables import below, section_of

    with open(file, "rb") as opened:
        content = opened.read()
    first, last = section_of(content, below(identity))
    rows = content.decode(errors="replace").splitlines(keepends=True)[first - 1 : last]
    _print_file(f"# {file}:{first}\n{textwrap.dedent(''.join(rows))}")


@rules.command("test")
@click.argument("folders", nargs=-1, type=PATH, metavar="[DIR]...")
@text_or_json
def test_command(folders: tuple[str, ...], form: str) -> None:
    """Prove the rules of DIR, by their examples and against all shipped ones; without DIR, prove the shipped rules.

    All problems of all files are printed at once.
    """
    from logdiag.authoring.scenes import prove
    from logdiag.rules.check import check
    from logdiag.rules.folders import RuleFiles

    book = RuleBook.load(folders)
    paths = {file.path for file in RuleFiles(folders).contents.values()}
    own_ids = {item.id for item in book.entries if not folders or item.file in paths}
    proved = [rule for rule in book.rules if rule.id in own_ids]
    filters = [item for item in book.filters if item.id in own_ids]
    examples = sum(len(rule.fires) + len(rule.quiet) for rule in proved)
    problems = check(book, own_ids if folders else None) or prove(book, own_ids if folders else None)
    _end_with(problems, f"{len(proved)} rules, {len(filters)} filters, {examples} examples", form)


@rules.command("new")
@click.argument("line")
@click.option("--reason", type=REASONS, metavar="REASON", help="Its reason; guessed from the line if left out.")
@own_rules
def new_command(line: str, reason: Reason | None, rules: tuple[str, ...]) -> None:
    """Write the first draft of a rule for LINE into the folder of --rules, or print it.

    The pattern is the line with what varies left open. Mend the title, say why, then prove it with logdiag rules test.
    """
    from logdiag.authoring.rule_file import Proposal, accept
    from logdiag.authoring.suggest import new_rule

    target = _target("rules new", rules) if rules else None
    identity, text = new_rule(line, RuleBook.load(rules), reason)
    if target is None:
        _print_file(f"# {identity}.yaml\n{text}")
    else:
        click.echo(str(accept(Proposal(identity, text), target)))


@rules.command("why")
@click.argument("line")
@own_rules
def why_command(line: str, rules: tuple[str, ...]) -> None:
    """Say which rules match LINE, which one wins, and what it takes from it."""
    book = RuleBook.load(rules)
    from logdiag.rules.book import example_line

    text, frames = example_line(line, book.forms)
    matching: list[Rule] = [rule for index, rule in enumerate(book.rules) if book.claims(index, text, frames)]
    finding = book.confirm_all(text, frames)
    if not matching:
        click.echo("no rule matches this line")
    for rule in matching:
        mark = "*" if finding and finding.rule == rule.id else " "
        say(f"{mark} {rule.id}  {rule.role}  {rule.reason}  {rule.title}")
    if finding:
        say(f"{finding.title}: {finding.why}" if finding.why else finding.title)
        for name, value in finding.facts.items():
            say(f"  {name} = {value}")


@rules.command("suggest")
@click.option("--reason", type=REASONS, metavar="REASON", help="Only rules for one reason.")
@_healthy
@_proposing
def suggest_command(reason: Reason | None, accepted: bool, healthy: tuple[str, ...], **options: Any) -> None:
    """Propose rules from incidents that people confirmed: at least two of one reason with alike lines.

    What is printed has passed all that rules test asks, fires on its incidents, on none of another reason, and on no
    healthy log. Exits 1 when something was found that did not pass.
    """
    from logdiag.authoring.suggest import suggest
    from logdiag.memory.store import open_store

    settings, target = _setup(accepted, options)
    with open_store(settings.store_or_refusal()) as store:
        suggested = suggest(store, reason=reason, folders=settings.rules, healthy=healthy)
    named = [(f"{item.id} (from {', '.join(item.incidents)})", item) for item in suggested]
    nothing = "nothing to suggest: no two confirmed incidents of one reason are alike and unknown"
    sys.exit(_print_or_write(named, target, nothing))


@rules.command("learn-filters")
@click.argument("logs", nargs=-1, required=True, type=PATH, metavar="LOG...")
@job_option
@click.option("--samples", type=click.IntRange(1, 15), default=3, metavar="N", help="How many votes.")
@_proposing
@_model
def learn_command(logs: tuple[str, ...], job: tuple[str, ...], samples: int, accepted: bool, **options: Any) -> None:
    """Let a language model describe the regular output of LOG, so that the digests of the job's next runs leave it out.

    More than half of N samples must agree on a filter. What is printed drops no finding, no traceback and nothing that
    speaks of trouble in these logs, in the rules' examples and in past incidents. It holds for this job alone, and
    needs no model any more. Exits 1 when something was proposed that did not pass.
    """
    from logdiag.authoring.log_agent import learn_filters
    from logdiag.memory.store import open_store

    settings, target = _setup(accepted, options)
    asker = _asker_of(settings)
    with open_store(settings.store_or_refusal(), shipped=False) as store:
        incidents = store.list()
    book = RuleBook.load(settings.rules)
    proposals = learn_filters(
        logs, asker, settings.llm, book=book, job=metadata_of(job), incidents=incidents, samples=samples
    )
    # Proposals come one by one, so that those made before the model fails are kept.
    learnt = ((f"{item.id} ({item.votes} of {samples} samples)", item) for item in proposals)
    nothing = "nothing was learnt: too few samples agree on lines that no filter in force knows"
    sys.exit(_print_or_write(learnt, target, nothing))


@rules.command("draft")
@click.argument("incidents", nargs=-1, required=True, metavar="INCIDENT...")
@_healthy
@_proposing
@_model
def draft_command(incidents: tuple[str, ...], accepted: bool, healthy: tuple[str, ...], **options: Any) -> None:
    """Let a language model write a rule for confirmed incidents of one reason, given by their ids.

    The rule names the reason and the action that people confirmed. What is printed has passed all that rules suggest
    asks. Exits 1 when the rule did not pass.
    """
    from logdiag.authoring.rule_writer import draft_rule
    from logdiag.memory.store import open_store

    settings, target = _setup(accepted, options)
    asker = _asker_of(settings)
    with open_store(settings.store_or_refusal()) as store:
        known = [store.get(identity) for identity in incidents]
        others = [*store.confirmed(), *store.shipped]
    drafted = draft_rule(known, asker, others=others, folders=settings.rules, healthy=healthy)
    sys.exit(_print_or_write([(drafted.id, drafted)], target))


@click.group(
    epilog="""\b
Examples:
  logdiag forms why '[rank5]: 10:00:00 ERROR boom'   which forms the head of a line has
  logdiag forms test our-rules/                      prove the forms in our-rules/forms/"""
)
def forms() -> None:
    """Look at how the head of a line is read, and prove the log forms."""


@forms.command("test")
@click.argument("folders", nargs=-1, type=PATH, metavar="[DIR]...")
def test_forms_command(folders: tuple[str, ...]) -> None:
    """Prove the shipped log forms, and those in DIR/forms/, by their samples. All problems are printed at once."""
    from logdiag.read.form_check import check
    from logdiag.read.forms import load_forms

    loaded = load_forms(folders, proof=True)
    samples = len(loaded.keys.samples) + sum(len(form.samples) for form in loaded.forms)
    _end_with(check(loaded), f"{len(loaded.forms)} forms, {samples} samples")


@forms.command("why")
@click.argument("line")
@own_rules
def why_form_command(line: str, rules: tuple[str, ...]) -> None:
    """Say which forms the head of LINE has, one behind the other, and what they tell."""
    from logdiag.read.form_check import plain_line, read_alone
    from logdiag.read.forms import load_forms
    from logdiag.read.prefixes import heads_of

    loaded = load_forms(rules)
    plain = plain_line(line, loaded)
    if plain != line:
        say(f"a record; it is read as: {plain}")
    for form, match in heads_of(plain, loaded):
        if form:
            say(f"{form.id}  {match[0]!r}  {form.title}")
    read = read_alone(line, loaded)
    for name in ("rank", "node", "clock", "level", "speaker", "message"):
        value = getattr(read, name)
        if value not in (None, ""):
            say(f"  {'time' if name == 'clock' else name} = {value}")


def _end_with(problems: Sequence[Problem], proved: str, form: str = "text") -> NoReturn:
    """Prints all problems, and how much was proved; the exit status tells whether there were any."""
    rows = [*map(str, problems), f"{proved}, {len(problems)} problems"]
    print_listed(form, [asdict(problem) for problem in problems], rows)
    sys.exit(1 if problems else 0)


def _print_file(text: str) -> None:
    """Prints a file unchanged; on a terminal without characters that could steer it."""
    terminal = sys.stdout is not None and sys.stdout.isatty()
    click.echo("\n".join(clean(row, _LONGEST) for row in text.split("\n")) if terminal else text, nl=False)


def _print_or_write(proposals: Iterable[tuple[str, Proposal]], target: str | None, nothing: str = "") -> int:
    """Prints the proposals that passed, or writes them below `target`; the others go to standard error with their
    problems, or `nothing` where there are none. Returns the exit status."""
    from logdiag.authoring.rule_file import accept

    status = 0
    for name, item in proposals:
        nothing = ""
        if item.problems:
            for row in (f"{name} did not pass:", *(f"  {problem}" for problem in item.problems)):
                say(row, err=True)
            status = 1
        elif target is not None:
            click.echo(str(accept(item, target)))
        else:
            _print_file(f"# {item.id}.yaml\n{item.text}\n")
    if nothing:
        say(nothing, err=True)
    return status


def _target(option: str, rules: tuple[str, ...]) -> str:
    """Returns the one folder to write to, made where it is missing. Raises RuleError for several or none."""
    if len(rules) != 1:
        raise RuleError(f"{option} needs a folder to write to; give --rules DIR once")
    try:
        os.makedirs(rules[0], exist_ok=True)
    except OSError as error:
        raise RuleError(f"{rules[0]}: cannot be made ({error.strerror}); give another --rules DIR") from error
    return rules[0]


def _setup(accepted: bool, options: Mapping[str, object]) -> tuple[Settings, str | None]:
    """Returns the settings in force, and with --accept the folder to write to."""
    settings = settings_in_force(options)
    return settings, _target("--accept", settings.rules) if accepted else None


def _asker_of(settings: Settings) -> Asker:
    """Returns what asks the model that is set up. Raises LogdiagError where none may be asked."""
    from logdiag.agent.ask import Asker

    if not settings.llm:
        raise LogdiagError("no model is set up; name one with --llm provider:model, LOGDIAG_LLM or logdiag.toml")
    settings.check_online("no model may be asked")
    if settings.llm_when == "never":
        raise LogdiagError(f"llm is never ({settings.origins['llm_when']}); no model may be asked")
    return Asker(settings.llm, _QUESTIONS * settings.llm_timeout)
