"""`logdiag [PATH ...]`; other commands have modules of their own, loaded when called."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any, NoReturn

import click

from logdiag._version import __version__
from logdiag.cli.options import COUNT, arguments_of, form_of_report, shared, status_of_job
from logdiag.cli.output import (
    Printing,
    note,
    print_answer,
    print_trace,
    printing,
    progress_bar,
    standard,
    status_of,
    write_outputs,
)
from logdiag.cli.standard_input import StandardInput
from logdiag.errors import LogdiagError, SourceError
from logdiag.model import Diagnosis
from logdiag.patterns import keep
from logdiag.pipeline import diagnose
from logdiag.read.sources import Source
from logdiag.report.words import clean
from logdiag.rules import RuleBook

COMPLETE = "_LOGDIAG_COMPLETE"
"""The environment variable by which a shell asks for completions."""

# The module and the name of each command, which is loaded only when it is called.
_LAZY_COMMANDS = {
    "explain": "logdiag.cli.reference:explain",
    "batch": "logdiag.cli.batch:batch",
    "run": "logdiag.cli.run:run_command",
    "nodecheck": "logdiag.cli.nodecheck:nodecheck_command",
    "slurm": "logdiag.cli.clusters:slurm_command",
    "k8s": "logdiag.cli.clusters:k8s_command",
    "rules": "logdiag.cli.rules:rules",
    "forms": "logdiag.cli.rules:forms",
    "incidents": "logdiag.cli.incidents:incidents",
    "eval": "logdiag.cli.evaluate:evaluate_command",
    "config": "logdiag.cli.reference:config",
    "reasons": "logdiag.cli.reference:reasons",
    "schema": "logdiag.cli.reference:schema",
    "completion": "logdiag.cli.reference:completion",
}
_COMMANDS = ("diagnose", *_LAZY_COMMANDS)
_ALIKE = 0.75
_LONGEST_COMPLAINT = 2000
_STANDARD = (0, 1, 2)
# The errors of a standard stream to which nothing more can be written.
_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
_EXAMPLES = """\b
Examples:
  logdiag slurm-4711.out                    what broke first in a job's output
  logdiag run_dir/                          the logs of all ranks of one job
  torchrun train.py 2>&1 | logdiag --tee    pass the output on, report at its end
  logdiag job.log --brief -o answer.json    six lines here, everything in a file
  logdiag job.log --exit-code-of-job 137    when you know how the job ended"""


class _Commands(click.Group):
    """A group whose first argument, when it is no command, is a log to diagnose."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in {*_COMMANDS, "--help", "-h", "--version"}:
            args = ["diagnose", *args]
        return super().parse_args(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _LAZY_COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _, name = _LAZY_COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage("logdiag", "[OPTIONS] [PATH]...")
        formatter.write_usage("logdiag", "COMMAND [OPTIONS] ...", prefix="   or: ")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options of `diagnose`, whose name may be left out, then the list of commands."""
        context = click.Context(diagnose_command, info_name="diagnose", parent=ctx)
        params = [*diagnose_command.get_params(context), *self.get_params(ctx)]
        options = [item for item in params if isinstance(item, click.Option)]
        with formatter.section("Options"):
            formatter.write_dl(list(dict.fromkeys(row for item in options if (row := item.get_help_record(context)))))
        self.format_commands(ctx, formatter)


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """Returns the completions of a word: file names, and for the first word the commands too."""
    from glob import escape, iglob

    from click.shell_completion import CompletionItem

    names = [name for name in _COMMANDS if not ctx.params.get("paths") and name.startswith(incomplete)]
    if not names:
        return [CompletionItem(incomplete, type="file")]
    files = [f"{path}/" if os.path.isdir(path) else path for path in iglob(escape(incomplete) + "*")]
    return [CompletionItem(item) for item in (*names, *sorted(files))]


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    help="Diagnose the log of a dead job: what broke first, where, and what to do. PATHs are the files and folders of "
    "ONE job; without PATH, or for -, standard input is read.",
    epilog=_EXAMPLES,
)
@click.version_option(__version__, prog_name="logdiag")
def commands() -> None:
    pass


@commands.command("diagnose", epilog=_EXAMPLES, short_help="Diagnose ONE job: what logdiag PATH... does.")
@click.argument(
    "paths", nargs=-1, type=click.Path(readable=False, allow_dash=True), metavar="[PATH]...", shell_complete=_complete
)
@form_of_report
@click.option("--tee", is_flag=True, help="Pass standard input on as it comes; the report follows on standard error.")
@status_of_job
@click.option(
    "--run", type=COUNT, metavar="N", help="Of several runs in one log the one to answer for; else the last that tells."
)
@click.option("--show-prompt", is_flag=True, help="Print what a model would be sent, and stop.")
@shared
def diagnose_command(
    paths: tuple[str, ...], tee: bool, job_status: int | None, run: int | None, show_prompt: bool, **options: Any
) -> None:
    """Diagnose ONE job from its files and folders; several paths are its ranks and nodes. Without PATH, or for -,
    read a pipe."""
    _check_paths(paths)
    paths = paths or ("-",)
    style = printing(options, err=tee)
    arguments = arguments_of(options)
    if tee and "-" not in paths:
        note("--tee passes standard input on; of files there is nothing to pass on")
    if show_prompt:
        _show_prompt(paths, arguments, job_status)
        return
    with StandardInput(copy=tee) if "-" in paths else nullcontext() as stdin:
        sources: list[Source] = [stdin if stdin and path == "-" else path for path in paths]

        def run_diagnosis(first: Callable[[Diagnosis], None]) -> Diagnosis:
            with progress_bar(paths) as advance:
                answer = diagnose(*sources, **arguments, exit_code=job_status, run=run, advance=advance, first=first)
            return replace(answer, notes=(*answer.notes, *stdin.notes)) if stdin else answer

        report_on(run_diagnosis, arguments, style)


def report_on(
    run_diagnosis: Callable[[Callable[[Diagnosis], None]], Diagnosis], arguments: Mapping[str, Any], style: Printing
) -> None:
    """Runs a diagnosis, prints it and writes the files; exits by its category if asked. `run_diagnosis` is called
    with a function that prints the answer before a model is asked; `arguments` are those of `arguments_of`."""
    shown: list[Diagnosis] = []

    def first(answer: Diagnosis) -> None:
        if style.text:
            shown.append(answer)
            print_answer(answer, style)
            click.echo(f"\nasking {arguments['llm'].model} ...", err=True)

    answer = run_diagnosis(first)
    if shown and answer.decided_by != "agent":
        for text in answer.notes:
            if text not in shown[0].notes:
                print(f"Note: {clean(text)}", file=standard(err=style.err))
    else:
        print_answer(answer, style)
    if style.verbose:
        print_trace(answer)
    write_outputs(answer, style.outputs)
    if arguments["remember"] and answer.failed is False and not any(" good run" in text for text in answer.notes):
        why = "the log shows no failure; logdiag incidents add LOG --reason REASON does"
        note(f"nothing was remembered: {why}")
    if sys.stdout is not None:
        sys.stdout.flush()
    if style.by_category:
        sys.exit(status_of(answer))


def _check_paths(paths: Sequence[str]) -> None:
    """Raises SourceError where there is nothing to read, or where a path looks like a misplaced or misspelt command."""
    if not paths or "-" in paths:
        if sys.stdin is None:
            raise SourceError("standard input is closed; name a file or a folder")
        if not paths and sys.stdin.isatty():
            raise SourceError("no log was given; name a file or a folder, or pipe one in: job 2>&1 | logdiag")
    for index, path in enumerate(paths):
        if os.path.exists(path):
            continue
        if path in _COMMANDS:
            raise SourceError(f"{path}: no such file or folder; a command comes first: logdiag {path} [OPTIONS] ...")
        from difflib import get_close_matches

        if index == 0 and (similar := get_close_matches(path, _COMMANDS, 1, _ALIKE)):
            raise SourceError(f"{path}: no such file, folder or command; did you mean logdiag {similar[0]}?")


def _show_prompt(paths: Sequence[str], arguments: Mapping[str, Any], job_status: int | None) -> None:
    if "-" in paths:
        raise SourceError("--show-prompt needs a file: standard input can be read only once")
    from logdiag.agent.consult import prompt_for
    from logdiag.agent.opinion import AgentSettings

    book = RuleBook.load(arguments["rules"])
    answer = diagnose(*paths, **{**arguments, "rules": book, "llm": None, "remember": False}, exit_code=job_status)
    print(prompt_for(answer, paths, arguments["llm"] or AgentSettings(""), book=book, job=arguments["job"]))


def main() -> NoReturn:
    """Runs the command; a LogdiagError becomes one sentence and exit status 2."""
    for number in _STANDARD:
        try:
            os.fstat(number)
        except OSError:
            # A stand-in for a closed stream, so that no log opened later gets its descriptor number.
            os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    status = run()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except BrokenPipeError:
            status = 141
        except OSError as error:
            status = _unwritable(error) if stream is sys.stdout else 2
    keep()
    # Taking the interpreter down costs as much as a small diagnosis, and nothing is left that needs it.
    os._exit(status)


def run() -> int:
    """Runs the command without exiting. Returns the exit status."""
    if COMPLETE in os.environ:
        from click.shell_completion import shell_complete

        return shell_complete(commands, {}, "logdiag", COMPLETE, os.environ[COMPLETE])
    try:
        with commands.make_context("logdiag", sys.argv[1:]) as context:
            commands.invoke(context)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except LogdiagError as error:
        return _complain(str(error))
    except click.ClickException as error:
        # Say what is wrong with the command line, and which --help explains it.
        invoked = getattr(error, "ctx", None)
        path = invoked.command_path.removesuffix(" diagnose") if invoked else "logdiag"
        return _complain(f"{error.format_message().rstrip('.')}; see {path} --help")
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        return 141
    except OSError as error:
        if error.filename is not None or error.errno not in _UNWRITABLE:
            raise
        return _unwritable(error)
    return 0


def _complain(message: str) -> int:
    """Prints an error in rows that cannot steer a terminal. Returns the exit status."""
    shown = "\n".join(clean(row, _LONGEST_COMPLAINT) for row in f"logdiag: {message}".split("\n"))
    with suppress(OSError):  # standard error may be closed
        click.echo(shown, err=True)
    return 2


def _unwritable(error: OSError) -> int:
    return _complain(f"standard output cannot be written ({error.strerror}); free some space or redirect it")
