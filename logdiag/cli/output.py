"""What the command prints: the answer in one form or several, the model's trace, and progress."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TextIO

import click

from logdiag.errors import LogdiagError
from logdiag.model import Category, Diagnosis
from logdiag.read.streams import Stream
from logdiag.report import render
from logdiag.report.words import clean, one_line

_STATUS = {Category.NONE: 0, Category.INFRASTRUCTURE: 10, Category.FRAMEWORK: 11, Category.SCRIPT: 12}
_NOT_KNOWN = 13
_LONGEST_ROW = 10_000
_WORTH_A_PROGRESS_BAR = 100_000_000
_FORM_OF = {
    ".txt": "text", ".json": "json", ".jsonl": "jsonl", ".md": "markdown", ".html": "html", ".sarif": "sarif"
}  # fmt: skip
# Formats whose file holds one answer: two documents in one file would be invalid.
_OF_ONE = (".json", ".html", ".sarif")


def say(text: str, *, err: bool = False) -> None:
    """Prints one row whose parts may come from outside: they can neither steer a terminal nor start another row."""
    click.echo(clean(text, _LONGEST_ROW), err=err)


def note(text: str) -> None:
    """Prints a remark of logdiag's own on standard error."""
    say(f"logdiag: {text}", err=True)


def print_listed(form: str, document: object, rows: Iterable[str] = ()) -> None:
    """Prints the document as JSON, or its rows for people, as the option `text_or_json` chose."""
    if form == "json":
        import json

        click.echo(json.dumps(document, indent=2))
        return
    for row in rows:
        say(row)


def status_of(answer: Diagnosis) -> int:
    """Returns the exit status of an answer with --exit-code."""
    return _NOT_KNOWN if answer.failed is None else _STATUS[answer.category]


def standard(*, err: bool = False) -> TextIO:
    """Returns the stream to print to. Raises LogdiagError where it was closed before the command started."""
    stream: TextIO | None = sys.stderr if err else sys.stdout
    if stream is None:
        name = "standard error" if err else "standard output"
        raise LogdiagError(f"{name} is closed: the answer cannot be printed; open it, or redirect it to a file")
    return stream


class Printing(NamedTuple):
    """How an answer is printed, the files that it is written to, and whether its category makes the exit status; `err`
    for standard error."""

    form: str = "text"
    digest: bool = False
    brief: bool = False
    verbose: bool = False
    outputs: tuple[str, ...] = ()
    by_category: bool = False
    err: bool = False

    @property
    def text(self) -> bool:
        """Whether it is the report for people."""
        return self.form == "text" and not self.digest


def print_answer(answer: Diagnosis, style: Printing) -> None:
    """Prints the answer in one form; on a terminal text is coloured and fitted to its width."""
    out = standard(err=style.err)
    if style.form != "text" and not style.digest:
        out.write(render(answer, style.form) + "\n")
        return
    from logdiag.report import as_text

    if style.digest:
        rows = as_text.digest_rows(answer.digest, answer.changes)
    else:
        rows = as_text.brief_rows(answer) if style.brief else as_text.report_rows(answer, verbose=style.verbose)
    if out.isatty():
        repeat = "" if style.digest or style.brief else one_line(answer)
        as_text.print_rows(rows, out, colour="NO_COLOR" not in os.environ, repeat=repeat, wrap=not style.brief)
        return
    for row in rows:
        out.write(f"{row}\n")


def printing(options: Mapping[str, Any], *, err: bool = False, many: bool = False) -> Printing:
    """Returns how to print one answer, or `many`, which JSON, HTML and SARIF files cannot hold. Raises click.UsageError
    for options that exclude each other, and LogdiagError for a file that cannot be written, or a closed stream."""
    style = Printing(**{name: options[name] for name in Printing._fields if name in options}, err=err)
    if style.brief and style.form != "text":
        raise click.UsageError(f"--brief shortens the text report; it cannot be used with --format {style.form}")
    known = [name for name in _FORM_OF if not (many and name in _OF_ONE)]
    for path in style.outputs:
        if os.path.splitext(path)[1].lower() not in known:
            raise LogdiagError(f"--output {path}: the end of its name tells no format; end it in {', '.join(known)}")
        check_writable("--output", path)
    if not err:  # what is passed on must not wait for anything
        standard()
    return style


def write_outputs(answer: Diagnosis, paths: Iterable[str], *, append: bool = False) -> None:
    """Writes the answer to each file, in the format of its suffix."""
    for path in paths:
        form = _FORM_OF[os.path.splitext(path)[1].lower()]
        write_file("--output", path, render(answer, form) + "\n", append=append)


def check_writable(option: str, path: str) -> None:
    """Raises LogdiagError for a path that cannot be written, before the work is done."""
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path) or not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise LogdiagError(f"{option} {path}: cannot be written; give the name of a file in a folder of yours")


def write_file(option: str, path: str, content: str, *, append: bool = False) -> None:
    """Writes the content to the file that an option names. Raises LogdiagError where that fails."""
    try:
        with open(path, "a" if append else "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.write(content)
    except OSError as error:
        raise LogdiagError(f"{option} {path}: cannot be written ({error.strerror}); name another file") from error


def print_trace(answer: Diagnosis) -> None:
    """Prints on standard error what a model did, its tokens, its cost and its seconds."""
    trace = answer.stats.get("agent")
    if trace is None:
        say("no model was asked", err=True)
        return
    say(f"  {', '.join(clean(step, 40) for step in trace['steps'])}", err=True)
    for why in trace["refusals"]:
        say(f"  refused: {clean(why)}", err=True)
    cost = "" if trace["cost"] is None else f", cost {trace['cost']:g}"
    total = f"{trace['tokens_in']} tokens in, {trace['tokens_out']} out{cost}, {trace['seconds']:.2f} s"
    say(f"  altogether {total}", err=True)


@contextmanager
def progress_bar(paths: tuple[str, ...]) -> Iterator[Callable[[Stream, int], None] | None]:
    """A progress bar on standard error for long reads. Gives the function to call with a stream and the bytes read of
    it; None where the read is short or standard error is no terminal."""
    size = sum(os.path.getsize(path) for path in paths if os.path.isfile(path))
    if size <= _WORTH_A_PROGRESS_BAR or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    with click.progressbar(length=size, label="reading", file=sys.stderr) as bar:
        bytes_read: dict[int, int] = {}

        def advance(stream: Stream, count: int) -> None:
            bar.update(count - bytes_read.get(stream.index, 0))
            bytes_read[stream.index] = count

        yield advance
