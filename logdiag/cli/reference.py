"""What there is to look up: `logdiag reasons`, `schema`, `completion`, `config`, and `explain` for one answer."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress

import click

from logdiag._version import __version__
from logdiag.cli.options import PATH, own_rules, settings_in_force, status_of_job, text_or_json
from logdiag.cli.output import print_listed, say
from logdiag.errors import MemoryStoreError
from logdiag.model import Decision, Diagnosis, Reason
from logdiag.pipeline import diagnose
from logdiag.report.words import clean, headline
from logdiag.rules import RuleBook
from logdiag.settings import Settings
from logdiag.settings.places import cache_folders, default_memory, without_password

_WIDEST = 60
_LONGEST_LINE = 160
# What each extra brings, by the modules that show that it is there.
_EXTRAS = {
    "memory": (("numpy", "faiss"), "similar incidents of your own"),
    "memory-models": (("sentence_transformers",), "similar incidents by a language model's vectors"),
    "team": (("psycopg",), "a store in PostgreSQL"),
    "agent": (("langchain", "langchain_openai", "detect_secrets"), "a language model for what is not sure"),
    "ollama": (("langchain_ollama",), "models of Ollama"),
}


@click.command("reasons", short_help="Print what each reason means, and what is done about it.")
@text_or_json
def reasons(form: str) -> None:
    """Print every reason that an answer can name: its category, what is done by default, and what it means."""
    table = RuleBook.load(()).reasons
    rows = [
        (reason.value, reason.category.value, entry.action.value, entry.meaning)
        for reason in Reason
        if (entry := table.get(reason))
    ]
    words = (f"{reason:<19}  {category:<14}  {action:<22}  {meaning}" for reason, category, action, meaning in rows)
    names = ("reason", "category", "action", "meaning")
    print_listed(form, [dict(zip(names, row, strict=True)) for row in rows], words)


@click.command("schema", short_help="Print the JSON Schema of an answer, or of a rule file for editors.")
@click.argument("form", type=click.Choice(["answer", "rule", "family", "catalogue", "filter"]), default="answer")
def schema(form: str) -> None:
    """Print the JSON Schema of an answer; or of a rule's, a family's, a catalogue's or a filter's file, for editors."""
    if form == "answer":
        from logdiag.report import schema_text

        click.echo(schema_text(), nl=False)
        return
    from logdiag.rules.files import schema_of

    print_listed("json", schema_of(form))


@click.command("completion", short_help="Print what lets a shell complete words.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes a shell complete commands, options, reasons, rules and file names.

    \b
    bash:  eval "$(logdiag completion bash)"      in ~/.bashrc
    zsh:   eval "$(logdiag completion zsh)"       in ~/.zshrc, after compinit
    fish:  logdiag completion fish > ~/.config/fish/completions/logdiag.fish
    """
    from click.shell_completion import get_completion_class

    from logdiag.cli.main import COMPLETE, commands

    kind = get_completion_class(shell)
    if kind is not None:
        click.echo(kind(commands, {}, "logdiag", COMPLETE).source())


@click.command("config")
@click.option("--config", metavar="FILE", help="Settings to go by, instead of those looked for.")
def config(**options: object) -> None:
    """Show what is in force and where each value came from."""
    settings = settings_in_force(options)
    files = [("file", file.path, file.state) for file in settings.files]
    shown = [*setting_rows(settings, os.environ), *files, *_installed()]
    names, values = (max(len(row[column]) for row in shown) for column in (0, 1))
    for name, value, origin in shown:
        say(f"{name:<{names}}  {value:<{min(values, _WIDEST)}}  {origin}".rstrip())


def setting_rows(settings: Settings, environ: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """(name, value, origin) of each setting, then the variables that are set for the model's provider. No secrets."""
    values = {name: getattr(settings, name) for name in settings.origins}
    with suppress(MemoryStoreError):
        values["memory"] = values["memory"] or default_memory()
    shown = [(name, _as_text(value), settings.origins[name]) for name, value in values.items()]
    provider = settings.llm.partition(":")[0].upper()
    variables = sorted(name for name in environ if provider and name.startswith(f"{provider}_"))
    return shown + [(name, "set", "environment") for name in variables]


def _installed() -> Iterator[tuple[str, str, str]]:
    """(name, value, remark) of the version, the cache and each extra: what it is for, and what it lacks."""
    from importlib.util import find_spec

    yield "version", __version__, f"Python {sys.version.split()[0]}"
    yield "cache", next(cache_folders(), "-"), "compiled rules; LOGDIAG_CACHE names another"
    for extra, (modules, use) in _EXTRAS.items():
        lacking = [module for module in modules if find_spec(module) is None]
        yield f"extra {extra}", "missing" if lacking else "there", use + "".join(f"; no {name}" for name in lacking)


def _as_text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(value) or "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return without_password(str(value)) or "-"


@click.command("explain")
@click.argument("paths", nargs=-1, required=True, type=PATH)
@own_rules
@status_of_job
def explain(paths: tuple[str, ...], rules: tuple[str, ...], job_status: int | None) -> None:
    """Show how the answer for ONE job came about.

    For each line that may have been the cause: which decision set it aside, and which made the root. The rules alone
    are asked, no memory and no model.

    \b
      logdiag explain slurm-4711.out
    """
    for row in _explained(diagnose(*paths, rules=rules, memory=False, exit_code=job_status)):
        click.echo(row)


def _explained(answer: Diagnosis) -> Iterator[str]:
    """The rows of the explanation, in the order of the log; lines of which the same was decided are counted."""
    yield headline(answer)
    about: dict[tuple[str, str], list[Decision]] = {}
    for decision in answer.decisions:
        about.setdefault((decision.outcome, decision.name), []).append(decision)
    for (outcome, name), decisions in about.items():
        yield ""
        yield f"{outcome.upper()}  {name}: {decisions[0].because}"
        lines = [decision.about for decision in decisions if decision.about is not None]
        for line in lines[:3]:
            yield f"    {clean(line.source)}:{line.number}  {clean(line.text.strip(), _LONGEST_LINE)}"
        if len(lines) > 3:
            yield f"    and {len(lines) - 3} more, to {clean(lines[-1].source)}:{lines[-1].number}"
