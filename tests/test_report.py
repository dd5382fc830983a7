"""Reports in every form: complete, unchanging, and harmless whatever the log lines hold."""

from __future__ import annotations

import io
import json
import re
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdiag import Diagnosis, diagnose
from logdiag.model import Consequence, Evidence
from logdiag.report import FORMATS, render
from logdiag.report.as_text import digest_rows, print_rows, report_rows
from logdiag.report.words import clean, rank_ranges
from logdiag.rules import RuleBook
from tests.helpers import DATA, LOGS, diagnosed, steps, traceback_of

GOLDEN = DATA / "golden"

HOSTILE = [
    "\x1b[31mred\x1b[0m",
    "\x1b]0;new title\x07",
    "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "\x9b31m C1 control",
    "\x07bell \x08back \x0cfeed \x0bvertical",
    "\u202edesrever\u202c \u2066isolate\u2069 \u061cmark \u200fmark",
    "zero\u200bwidth \ufeffmark \u2028line \u2029paragraph",
    "[bold red]markup[/bold red] [link=http://evil.example]x[/link]",
    "<script>alert(1)</script> <img src=x onerror=alert(1)>",
    "# heading **bold** _it_ `code` [a](javascript:alert(1)) ![i](x) | cell | &amp;",
    "``` closes the fence",
    "````` closes a longer fence",
    "~~~ closes another fence",
    "\udc80\udcff lone surrogates",
]


@pytest.fixture
def hostile(book: RuleBook) -> Diagnosis:
    """An answer that holds hostile text wherever text of a log can reach."""
    answer = diagnose(LOGS / "demo.log", rules=book)
    nasty = " ".join(HOSTILE)
    assert answer.root_cause is not None
    return replace(
        answer,
        source=nasty,
        summary=nasty,
        root_cause=replace(answer.root_cause, source=nasty, text=nasty, node=nasty, time=nasty),
        evidence=(
            *(Evidence(nasty, number, text, "context", "a/b") for number, text in enumerate(HOSTILE, 1)),
            Evidence(nasty, 99, nasty, "root", "a/b"),
            Evidence("other", 3, nasty, "consequence", None),
        ),
        consequences=(Consequence(nasty, nasty, 3, (1, 2)),),
        recovery=replace(answer.recovery, exclude_nodes=(nasty,), steps=(nasty,), why=nasty),
        notes=(nasty,),
    )


def assert_harmless(text: str) -> None:
    """Nothing that steers a terminal, turns the direction of text, or hides."""
    for character in text:
        kind = unicodedata.category(character)
        assert kind not in ("Cc", "Cf", "Cs", "Zl", "Zp") or character == "\n", repr(character)


@pytest.mark.parametrize("form", FORMATS)
def test_hostile_log_text_can_do_no_harm(hostile: Diagnosis, form: str) -> None:
    """No control character, direction mark, hidden character or lone surrogate leaves the report."""
    text = render(hostile, form)
    assert_harmless(text)
    text.encode("utf-8")


def test_json_holds_the_log_text_unchanged(hostile: Diagnosis) -> None:
    """Escaped on the way out, whole when it is read."""
    read = json.loads(render(hostile, "json"))
    assert read["evidence"][0]["text"] == HOSTILE[0]
    assert read == json.loads(render(hostile, "jsonl"))


def test_json_lines_is_one_line(hostile: Diagnosis) -> None:
    """Whatever the log lines hold."""
    assert len(render(hostile, "jsonl").splitlines()) == 1


def fences(markdown: str) -> list[str]:
    """What stands outside of code fences, by the rules of CommonMark."""
    outside: list[str] = []
    fence = ""
    for line in markdown.splitlines():
        opened = re.match(r" {0,3}(`{3,}|~{3,})", line)
        if fence:
            if (
                opened
                and opened[1][0] == fence[0]
                and len(opened[1]) >= len(fence)
                and not line.strip().strip(fence[0])
            ):
                fence = ""
        elif opened:
            fence = opened[1]
        else:
            outside.append(line)
    assert not fence, "a fence stays open"
    return outside


def test_log_text_cannot_leave_its_fence(book: RuleBook) -> None:
    """The evidence is inside one fence, which none of its lines closes."""
    answer = diagnose(LOGS / "demo.log", rules=book)
    evidence = tuple(Evidence("a.log", number, text, "context", None) for number, text in enumerate(HOSTILE, 1))
    markdown = render(replace(answer, evidence=evidence), "markdown")
    outside = "\n".join(fences(markdown))
    printable = [text for text in HOSTILE if text.isascii() and text.isprintable()]
    assert [text for text in printable if text not in markdown] == []
    assert [text for text in printable if text in outside] == []


def test_log_text_outside_a_fence_is_no_markup(hostile: Diagnosis) -> None:
    """No tag, link, heading, emphasis or table cell comes out of a log line."""
    outside = "\n".join(fences(render(hostile, "markdown")))
    without_code = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", outside)
    assert not re.search(r"(?<!\\)<(?:script|img)", without_code)
    assert not re.search(r"(?<!\\)\]\(", without_code)
    assert "**bold**" not in without_code
    for line in without_code.splitlines():
        assert not re.match(r"#+ heading", line)
    rows = [line for line in outside.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {4}


class Terminal(io.StringIO):
    """What a terminal would be sent."""

    def isatty(self) -> bool:
        """A terminal."""
        return True


def test_log_text_is_never_read_as_markup_on_a_terminal(hostile: Diagnosis) -> None:
    """Tags of `rich` are printed as they are, and only colours of our own are sent."""
    out = Terminal()
    print_rows(report_rows(hostile), out)
    sent = out.getvalue()
    assert "[bold red]markup[/bold red]" in sent
    assert_harmless(re.sub(r"\x1b\[[\d;]*m", "", sent))
    assert "\x1b]" not in sent


def test_hostile_lines_of_a_log_are_harmless_in_its_digest(book: RuleBook) -> None:
    """From the log's bytes to the digest's text."""
    lines = [text.encode(errors="surrogatepass").decode(errors="replace") for text in HOSTILE]
    answer = diagnosed(book, *lines, *traceback_of(f"KeyError: '{lines[5]}'"))
    assert_harmless("\n".join("".join(text for text, _ in row) for row in digest_rows(answer.digest)))
    assert_harmless(render(answer, "text"))


@given(st.text(max_size=300))
def test_cleaned_text_is_harmless(text: str) -> None:
    """Any text, and a newline is made visible too."""
    cleaned = clean(text)
    assert_harmless(cleaned)
    assert "\n" not in cleaned


@given(st.text(alphabet="`~ \n*_[](){}<>|\\#-+!ab", max_size=80))
def test_no_text_can_close_its_fence(text: str) -> None:
    """Runs of the fence's own characters only make the fence longer."""
    answer = _ANSWERS[0] if _ANSWERS else _remember(diagnose(LOGS / "slurm-oom.log"))
    evidence = (Evidence("a.log", 1, "before", "context", None), Evidence("a.log", 2, text, "root", None))
    outside = fences(render(replace(answer, evidence=evidence), "markdown"))
    assert outside == fences(render(replace(answer, evidence=evidence[:1]), "markdown"))


_ANSWERS: list[Diagnosis] = []


def _remember(answer: Diagnosis) -> Diagnosis:
    _ANSWERS.append(answer)
    return answer


def test_a_very_long_line_is_cut(book: RuleBook) -> None:
    """A report stays readable; JSON keeps more of it."""
    answer = diagnosed(book, *traceback_of("KeyError: '" + "x" * 5000 + "'"))
    assert max(map(len, render(answer, "text").splitlines())) < 600
    assert max(map(len, render(answer, "markdown").splitlines())) < 600


@pytest.mark.parametrize(
    ("ranks", "shown"),
    [
        ((), ""),
        ((3,), "3"),
        ((0, 1, 2, 3, 4, 6, 7), "0-4, 6-7"),
        ((9, 1, 5, 5), "1, 5, 9"),
        (tuple(range(1024)), "0-1023"),
    ],
)
def test_ranks_are_shown_as_ranges(ranks: tuple[int, ...], shown: str) -> None:
    """A thousand ranks take no more room than one."""
    assert rank_ranges(ranks) == shown


def test_the_text_report_has_what_a_person_needs(book: RuleBook) -> None:
    """Verdict, where, the root line in its context, consequences folded, what to do and why."""
    text = render(diagnose(LOGS / "demo.log", rules=book), "text")
    for part in (
        "FAILED",
        "infrastructure / ECCError",
        "demo.log:159",
        "> 159 |",
        "ranks 0-4, 6-7",
        "restart_excluding_node",
        "Why:",
    ):
        assert part in text


def test_a_healthy_report_says_so_and_nothing_to_do(book: RuleBook) -> None:
    """Short, and without an action."""
    text = render(diagnosed(book, *steps(1, 50), "Training finished."), "text")
    assert text.startswith("NO FAILURE")
    assert "What to do" not in text


def test_a_report_without_a_known_failure_that_is_not_sure_says_so(book: RuleBook) -> None:
    """A log that complains in the end in words that no rule knows is not called healthy in capitals."""
    text = render(diagnosed(book, "the store opens", "the store could not be reconciled with its journal"), "text")
    assert text.startswith("NO FAILURE KNOWN, NOT SURE")
    assert "could not be reconciled with its journal" in text


def normalised(text: str) -> str:
    """Without what differs between two runs."""
    text = re.sub(r"read in [\d.]+ s", "read in 0.00 s", text)
    text = re.sub(r'"(seconds|load|read|causes|memory|digest)": [\d.e-]+', r'"\1": 0.0', text)
    text = re.sub(r'"matcher": "\w+"', '"matcher": "any"', text)
    return text.replace(str(LOGS) + "/", "").rstrip("\n") + "\n"


SUFFIX = {"text": "txt", "json": "json", "jsonl": "jsonl", "markdown": "md"}


@pytest.mark.parametrize("form", ["text", "json", "markdown"])
@pytest.mark.parametrize("name", ["demo", "keyerror-rank2"])
def test_reports_are_as_agreed(name: str, form: str, book: RuleBook) -> None:
    """The golden reports; after a wanted change, write them anew with `python -m tests.test_report`."""
    golden = GOLDEN / f"{name}.{SUFFIX[form]}"
    assert normalised(render(diagnose(str(LOGS / f"{name}.log"), rules=book), form)) == golden.read_text(
        encoding="utf-8"
    )


def write_golden(folder: Path) -> None:
    """Writes the golden reports anew."""
    for name in ("demo", "keyerror-rank2"):
        answer = diagnose(str(LOGS / f"{name}.log"))
        for form in ("text", "json", "markdown"):
            (folder / f"{name}.{SUFFIX[form]}").write_text(normalised(render(answer, form)), encoding="utf-8")


if __name__ == "__main__":
    write_golden(GOLDEN)
