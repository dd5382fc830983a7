"""`logdiag [PATH ...]` and `logdiag batch`; other commands have modules of their own, loaded when called."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NoReturn

import click

from logdiag._version import __version__
from logdiag.cli.in_force import settings_in_force
from logdiag.cli.job import metadata_of
from logdiag.cli.standard_input import StandardInput
from logdiag.errors import LogdiagError, SourceError
from logdiag.model import Category, Diagnosis
from logdiag.pipeline import diagnose
from logdiag.read.sources import Stream
from logdiag.report import FORMATS, render
from logdiag.report.words import clean, one_line
from logdiag.rules import RuleBook
from logdiag.settings import WHEN

__all__ = ["main", "run"]

_STATUS = {Category.NONE: 0, Category.INFRASTRUCTURE: 10, Category.FRAMEWORK: 11, Category.SCRIPT: 12}
_NOT_KNOWN = 13
_WORTH_A_PROGRESS_BAR = 100_000_000
_LOADED_WHEN_CALLED = ("explain", "rules", "eval", "incidents", "config")


class _Commands(click.Group):
    """A group whose first argument, when it is no command, is a log to diagnose."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in (*self.commands, *_LOADED_WHEN_CALLED):
            args = ["diagnose", *args]
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = {*self.commands, *_LOADED_WHEN_CALLED, "--help", "-h", "--version"}
        if not args or args[0] not in known:
            args = ["diagnose", *args]
        return super().parse_args(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "explain":
            from logdiag.cli.explain import explain_command

            return explain_command
        if cmd_name == "rules":
            from logdiag.cli.rules import rules

            return rules
        if cmd_name == "eval":
            from logdiag.cli.evaluate import evaluate_command

            return evaluate_command
        if cmd_name == "incidents":
            from logdiag.cli.incidents import incidents

            return incidents
        if cmd_name == "config":
            from logdiag.cli.config import config

            return config
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*(name for name in self.commands if name != "diagnose"), *_LOADED_WHEN_CALLED]


def _shared(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option(
            "--config",
            "config_file",
            metavar="FILE",
            help="Settings to go by, instead of the logdiag.toml files that are looked for (see logdiag config).",
        ),
        click.option(
            "--rules", "rule_folders", multiple=True, metavar="DIR", help="A folder of your own rules; may be repeated."
        ),
        click.option(
            "--job",
            "job",
            multiple=True,
            metavar="KEY=VALUE",
            help="The job's name, user, framework or image, for filters.",
        ),
        click.option(
            "--memory",
            "place",
            metavar="PLACE",
            help="Past failures: a folder, or postgresql://...; LOGDIAG_MEMORY or the user's data folder if left out.",
        ),
        click.option("--no-memory", is_flag=True, help="Let the rules alone decide."),
        click.option("--remember", is_flag=True, help="Keep this failure as an incident, for a person to confirm."),
        click.option(
            "--llm",
            multiple=True,
            metavar="MODEL",
            help="A language model as provider:model, and when to ask it: always, unsure (default) or never.",
        ),
        click.option("--llm-timeout", type=float, metavar="SECONDS", help="How long the model may take altogether."),
        click.option(
            "--votes", type=int, metavar="N", help="How many answers of the model are held against each other."
        ),
        click.option("--offline", is_flag=True, default=None, help="No model, and no connection at all."),
        click.option(
            "-v", "--verbose", is_flag=True, help="Fold nothing; show on standard error what a model was asked."
        ),
        click.option(
            "--digest", is_flag=True, help="Print what is worth reading of the log, with a receipt, and no verdict."
        ),
        click.option(
            "--exit-code",
            "by_category",
            is_flag=True,
            help="Exit 0 healthy, 10 infrastructure, 11 framework, 12 script, 13 the log does not tell.",
        ),
    ):
        command = option(command)
    return command


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Diagnose the log of a dead job: what broke first, where, and what to do.\n\n"
    "logdiag PATH... diagnoses one job from its files and folders; without PATH it reads standard input "
    "(see logdiag diagnose --help).",
)
@click.version_option(__version__, prog_name="logdiag")
def commands() -> None:
    pass


@commands.command("diagnose", hidden=True)
@click.argument("paths", nargs=-1)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="text", show_default=True, help="How to print the answer."
)
@click.option(
    "--tee", is_flag=True, help="Pass standard input through as it comes; the report follows on standard error."
)
@click.option("--exit-code-of-job", "job_status", type=int, metavar="N", help="What the job itself ended with.")
@click.option("--brief", is_flag=True, help="The verdict in six lines at most.")
@click.option("--show-prompt", is_flag=True, help="Print what a model would be sent, and stop.")
@_shared
def diagnose_command(
    paths: tuple[str, ...],
    form: str,
    tee: bool,
    job_status: int | None,
    brief: bool,
    show_prompt: bool,
    digest: bool,
    by_category: bool,
    verbose: bool,
    **said: Any,
) -> None:
    """Diagnose ONE job from its files and folders; several paths are its ranks and nodes. Without PATH, or for -,
    read a pipe."""
    if not paths and sys.stdin.isatty():
        raise SourceError("no log was given; name a file or a folder, or pipe the job's output in: job 2>&1 | logdiag")
    if brief and form != "text":
        raise click.UsageError(f"--brief shortens the text report; it cannot be used with --format {form}")
    given = _given(said)
    if show_prompt:
        _show_prompt(paths or ("-",), given, job_status)
        return
    shown: list[Diagnosis] = []

    def first(answer: Diagnosis) -> None:
        if form == "text" and not digest:
            shown.append(answer)
            _print(answer, form, err=tee, brief=brief, verbose=verbose)
            print(f"\nasking {given['llm'].model} ...", file=sys.stderr, flush=True)

    with StandardInput(copy=tee) if "-" in (paths or "-") else nullcontext() as stdin:
        sources = [stdin if path == "-" else path for path in paths or ("-",)]
        with _ProgressBar(paths) as advance:
            answer = diagnose(*sources, **given, exit_code=job_status, advance=advance, first=first)
        if stdin:
            answer = replace(answer, notes=(*answer.notes, *stdin.notes))
        if shown and answer.decided_by != "agent":
            for note in answer.notes[len(shown[0].notes) :]:
                print(f"Note: {clean(note)}", file=sys.stderr if tee else sys.stdout)
        else:
            _print(answer, form, digest=digest, err=tee, brief=brief, verbose=verbose)
        if verbose:
            _print_trace(answer)
        sys.stdout.flush()
    if by_category:
        sys.exit(_status_of(answer))


@commands.command("batch")
@click.argument("paths", nargs=-1, required=True)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="jsonl", show_default=True, help="How to print each answer."
)
@_shared
def batch_command(
    paths: tuple[str, ...],
    form: str,
    digest: bool,
    by_category: bool,
    verbose: bool,
    **said: Any,
) -> None:
    """Diagnose one job a PATH and print one answer a line. A path that cannot be read does not stop the others."""
    given = _given(said)
    given["rules"] = RuleBook.load(given["rules"])
    worst = 0
    for path in paths:
        try:
            answer = diagnose(path, **given)
        except SourceError as error:
            click.echo(f"logdiag: {error}", err=True)
            worst = 2
            continue
        _print(answer, form, digest=digest)
        if verbose:
            _print_trace(answer)
        if by_category and worst != 2:
            worst = max(worst, _status_of(answer))
    sys.exit(worst)


def _given(said: Mapping[str, Any]) -> dict[str, Any]:
    """What the options, the environment and `logdiag.toml` say, as `diagnose` takes it."""
    when = [value for value in said["llm"] if value in WHEN]
    model = [value for value in said["llm"] if value not in WHEN]
    settings = settings_in_force(
        {
            "config": said["config_file"],
            "rules": said["rule_folders"],
            "memory": said["place"],
            "llm": model[-1] if model else None,
            "llm_when": when[-1] if when else None,
            "llm_timeout": said["llm_timeout"],
            "votes": said["votes"],
            "offline": said["offline"],
        }
    )
    llm = None
    if settings.may_ask:
        from logdiag.agent.opinion import AgentSettings

        llm = AgentSettings(settings.llm, settings.llm_timeout, settings.votes, settings.budget, settings.llm_when)
    return {
        "rules": settings.rules,
        "memory": False if said["no_memory"] else settings.store,
        "remember": said["remember"],
        "llm": llm,
        "job": metadata_of(said["job"]),
    }


def _show_prompt(paths: Sequence[str], given: Mapping[str, Any], job_status: int | None) -> None:
    """Prints what would leave the machine; nothing does."""
    if "-" in paths:
        raise SourceError("--show-prompt needs a file: standard input can be read only once")
    from logdiag.agent.consult import prompt_for
    from logdiag.agent.opinion import AgentSettings

    book = RuleBook.load(given["rules"])
    answer = diagnose(*paths, **{**given, "rules": book, "llm": None, "remember": False}, exit_code=job_status)
    print(prompt_for(answer, paths, given["llm"] or AgentSettings(""), book=book, job=given["job"]))


def _status_of(answer: Diagnosis) -> int:
    """The exit status of an answer with --exit-code."""
    return _NOT_KNOWN if answer.failed is None else _STATUS[answer.category]


def _print_trace(answer: Diagnosis) -> None:
    """What a model was asked, step by step."""
    trace = answer.stats.get("agent")
    if trace is None:
        print("no model was asked", file=sys.stderr)
        return
    for step in trace["steps"]:
        tokens = f"{step['tokens_in']} tokens in, {step['tokens_out']} out" if step["tokens_in"] else ""
        print(f"  {step['kind']:<18} {step['seconds']:6.2f} s  {tokens}".rstrip(), file=sys.stderr)
    for why in trace["refusals"]:
        print(f"  refused: {clean(why)}", file=sys.stderr)
    cost = "" if trace["cost"] is None else f", cost {trace['cost']:g}"
    total = f"{trace['tokens_in']} tokens in, {trace['tokens_out']} out{cost}, {trace['seconds']:.2f} s"
    print(f"  altogether {total}", file=sys.stderr)


def _print(
    answer: Diagnosis, form: str, *, digest: bool = False, err: bool = False, brief: bool = False, verbose: bool = False
) -> None:
    """The answer in one form; text in colour and to its width on a terminal."""
    out = sys.stderr if err else sys.stdout
    if form != "text" and not digest:
        out.write(render(answer, form) + "\n")
        return
    from logdiag.report import as_text

    if digest:
        rows = as_text.digest_rows(answer.digest)
    else:
        rows = as_text.brief_rows(answer) if brief else as_text.report_rows(answer, verbose=verbose)
    if out.isatty():
        repeat = "" if digest or brief else one_line(answer)
        as_text.print_rows(rows, out, colour="NO_COLOR" not in os.environ, repeat=repeat, wrap=not brief)
        return
    for row in rows:
        out.write(f"{row}\n")


class _ProgressBar:
    """A progress bar on standard error for long reads, only on a terminal."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        size = sum(os.path.getsize(path) for path in paths if os.path.isfile(path))
        self.bar: Any = None
        if size > _WORTH_A_PROGRESS_BAR and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

            console = Console(stderr=True)
            self.bar = Progress(BarColumn(), DownloadColumn(), TransferSpeedColumn(), console=console, transient=True)
            self.task = self.bar.add_task("reading", total=size)
        self.done: dict[int, int] = {}

    def __enter__(self) -> Callable[[Stream, int], None] | None:
        if self.bar is None:
            return None
        self.bar.start()
        return self._advance

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def _advance(self, stream: Stream, count: int) -> None:
        self.done[stream.index] = count
        self.bar.update(self.task, completed=sum(self.done.values()))


def main() -> NoReturn:
    """Runs the command; a LogdiagError becomes one sentence and exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    status = run()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        status = 141
    # Taking the interpreter down costs as much as a small diagnosis, and nothing is left that needs it.
    os._exit(status)


def run() -> int:
    """The command without its exit: what it would have ended with."""
    try:
        commands(standalone_mode=False)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    except LogdiagError as error:
        click.echo(f"logdiag: {error}", err=True)
        return 2
    except click.ClickException as error:
        click.echo(f"logdiag: {error.format_message()}; see logdiag --help", err=True)
        return 2
    except click.Abort:
        return 130
    except BrokenPipeError:
        return 141
    return 0
