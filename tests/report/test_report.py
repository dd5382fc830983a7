"""Reports in every form: complete, unchanging, and harmless whatever the log lines hold."""

from __future__ import annotations

import io
import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from logdiag import Action, Candidate, Category, Diagnosis, Reason, Recovery, Suspect, diagnose
from logdiag.model import Consequence, Evidence
from logdiag.model.plain import rank_ranges
from logdiag.report import FORMATS, render
from logdiag.report.as_text import Row, brief_rows, digest_rows, print_rows, report_rows
from logdiag.report.words import clean, cut, one_line
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
    assert not re.search(r"(?<!\\)\|", without_code)


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
    assert_harmless("\n".join(map(str, digest_rows(answer.digest))))
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
        "first failure at 2025-11-13 02:03:30",
        "10 min 9 s after the last step",
        "restart_excluding_node",
        "Why:",
    ):
        assert part in text


def test_verdict_and_action_come_first(book: RuleBook) -> None:
    """What broke and what to do stand in the first three lines."""
    rows = render(diagnose(LOGS / "demo.log", rules=book), "text").splitlines()
    assert rows[0].startswith("FAILED  infrastructure / ECCError")
    assert rows[2].startswith("What to do  restart_excluding_node")


def test_consequences_are_folded_and_do_not_hold_the_root(book: RuleBook) -> None:
    """The launcher's farewells take one row, the failed rank's own words none; `-v` shows each."""
    answer = diagnose(LOGS / "demo.log", rules=book)
    folded, whole = render(answer), "\n".join(map(str, report_rows(answer, verbose=True)))
    assert folded.count("x  Others") == 1
    assert whole.count("x  Others") == len([item for item in answer.consequences if item.reason == "Others"]) > 1
    assert "ECCError" not in [item.reason for item in answer.consequences]
    assert "rests on narrow" in whole


def test_one_rank_is_no_ranks(book: RuleBook) -> None:
    """Nor are two one."""
    answer = diagnose(LOGS / "demo.log", rules=book)
    one = replace(answer, consequences=(Consequence("KeyError", "A key", 1, (3,)),))
    assert "A key  rank 3\n" in render(one, "text")
    assert "A key  ranks 3-4\n" in render(
        replace(one, consequences=(Consequence("KeyError", "A key", 1, (3, 4)),)), "text"
    )


def test_other_readings_carry_no_probability(book: RuleBook) -> None:
    """Only those that are worth a word are named, and without a figure that nothing was fitted on."""
    answer = diagnose(LOGS / "demo.log", rules=book)
    three = (Candidate(Reason.CUDA_ERROR, 0.03), Candidate(Reason.OTHERS, 0.02), Candidate(Reason.NETWORK_ERROR, 0.001))
    for form in ("text", "markdown"):
        row = next(row for row in render(replace(answer, candidates=three), form).splitlines() if "possible" in row)
        assert row.replace("**", "") == "Also possible: CUDAError"


def unknown(answer: Diagnosis, **changes: Any) -> Diagnosis:
    """The answer that a log does not tell."""
    suspects = (Suspect("job.log", 101, "FATAL flux_capacitor: tachyon drift", 0.9), Suspect("job.log", 7, "odd", 0.4))
    return replace(
        answer,
        **{
            "failed": None, "category": Category.NONE, "reason": Reason.NONE, "confidence": 0.4, "root_cause": None,
            "evidence": (), "consequences": (), "candidates": (), "suspects": suspects, "similar": (),
            "recovery": Recovery(Action.NONE, False, (), (), "The log does not tell."),
            "summary": "The log does not tell whether the job failed.", **changes,
        },
    )  # fmt: skip


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_a_log_that_does_not_tell_is_neither_failed_nor_healthy(form: str, book: RuleBook) -> None:
    """The headline says so, and the most suspicious lines follow with their places."""
    text = render(unknown(diagnose(LOGS / "demo.log", rules=book)), form)
    assert text.removeprefix("## ").startswith("NOT KNOWN  the log does not tell")
    assert "Most suspicious lines" in text
    assert text.index("job.log:101") < text.index("FATAL flux") < text.index("job.log:7")
    assert "FAILED" not in text
    assert "What to do" not in text
    assert "exit-code-of-job" in text.replace("\\", "")


def test_the_three_answers_differ_in_json(book: RuleBook) -> None:
    """true, false and null."""
    answer = diagnose(LOGS / "demo.log", rules=book)
    document = json.loads(render(unknown(answer), "jsonl"))
    assert document["failed"] is None
    assert [item["line"] for item in document["suspects"]] == [101, 7]
    assert json.loads(render(answer, "jsonl"))["failed"] is True


def test_suspects_are_shown_where_the_reason_is_not_sure_and_only_there(book: RuleBook) -> None:
    """Below 0.6, also of a failure."""
    answer = replace(diagnose(LOGS / "demo.log", rules=book), suspects=(Suspect("job.log", 4, "odd words", 0.9),))
    assert "odd words" in render(replace(answer, confidence=0.59), "text")
    assert "odd words" not in render(replace(answer, confidence=0.6), "text")


def test_a_log_that_stops_is_told_from_one_that_ends(book: RuleBook) -> None:
    """The headline, the last step, and what to do about it."""
    stops = render(diagnosed(book, *steps(1, 50)), "text")
    ends = render(diagnosed(book, *steps(1, 50), "Training finished."), "text")
    assert stops.startswith("NO FAILURE SEEN, LOG STOPS  confidence")
    assert "last step 50" in stops
    assert "--exit-code-of-job" in stops
    assert ends.startswith("NO FAILURE  confidence")
    assert "stops" not in ends


@pytest.mark.parametrize("name", ["demo.log", "keyerror-rank2.log", "healthy-scary.log", "kernel-xid79.log"])
def test_the_brief_report_has_six_rows_at_most(name: str, book: RuleBook) -> None:
    """With the verdict, and the root line where there is one."""
    answer = diagnose(LOGS / name, rules=book)
    rows = list(map(str, brief_rows(answer)))
    assert 2 <= len(rows) <= 6
    assert rows[0] == render(answer, "text").splitlines()[0]
    assert answer.root_cause is None or answer.root_cause.text in rows[-1]
    assert len(list(brief_rows(unknown(answer)))) <= 6


def test_sarif_points_at_the_root_line_or_the_suspicious_ones(book: RuleBook) -> None:
    """By file and line, as code hosts show it; a healthy log has no result."""
    answer = diagnose(LOGS / "demo.log", rules=book)
    failed, not_known, healthy = (
        json.loads(render(item, "sarif"))["runs"][0]
        for item in (answer, unknown(answer), diagnose(LOGS / "healthy-scary.log", rules=book))
    )
    place = failed["results"][0]["locations"][0]["physicalLocation"]
    assert (failed["results"][0]["level"], place["region"]["startLine"]) == ("error", 159)
    assert place["artifactLocation"]["uri"] == f"file://{LOGS}/demo.log"
    assert failed["tool"]["driver"]["rules"] == [{"id": "nvidia/ecc-uncorrectable"}]
    assert len(failed["results"][0]["relatedLocations"]) == sum(e.role == "consequence" for e in answer.evidence)
    lines = [item["locations"][0]["physicalLocation"]["region"]["startLine"] for item in not_known["results"]]
    assert lines == [101, 7]
    assert healthy["results"] == []


def on_screen(rows: Iterable[Row], width: int, height: int, **options: Any) -> list[str]:
    """What stands on a terminal of so many columns, row by row."""
    out = Terminal()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        patch.setenv("LINES", str(height))
        print_rows(rows, out, colour=False, **options)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("name", ["demo.log", "s3-forbidden.log", "torchelastic"])
def test_no_row_is_wider_than_the_terminal(name: str, width: int, book: RuleBook) -> None:
    """Sentences wrap at words, behind their label; log lines are cut with a mark."""
    answer = diagnose(LOGS / name, rules=book)
    shown = on_screen(report_rows(answer), width, 500)
    assert max(map(len, shown)) <= width
    words = set(re.findall(r"[a-z]{4,}", " ".join(answer.recovery.steps)))
    assert words <= set(re.findall(r"[a-z]{4,}", " ".join(shown)))
    first = next(at for at, row in enumerate(shown) if row.startswith("  1. "))
    following = next((row for row in shown[first + 1 :] if not row.startswith("  2. ")), "")
    assert following.startswith(("     ", "  Why: "))


def test_wide_characters_take_two_columns(book: RuleBook) -> None:
    """A log line in Chinese is cut to the screen's cells, not to its characters."""
    answer = diagnosed(book, *traceback_of("KeyError: '" + "\u4e2d" * 100 + "'"))
    shown = on_screen(report_rows(answer), 60, 500)
    assert any("\u4e2d" in row for row in shown)
    assert max(map(cell_len, shown)) <= 60


def test_a_cut_line_keeps_what_tells_of_trouble() -> None:
    """Marks show on which side something is missing."""
    text = "prefix " * 30 + "torch.OutOfMemoryError: CUDA out of memory. " + "suffix " * 30
    shown = cut(text, 60)
    assert len(shown) == 60
    assert "torch.OutOfMemoryError: CUDA out of memory" in shown
    assert (shown[0], shown[-1]) == ("\u2026", "\u2026")
    assert cut("short", 60) == "short"
    assert cut("plain " * 30, 20) == ("plain " * 30)[:19] + "\u2026"
    glog = "I0417 09:02:13.604671   1407 optim_registry.cc:22] 14 optimizers known: adam adamw lion"
    assert "14 optimizers known" in cut(glog, 40)


@given(st.text(max_size=200), st.integers(min_value=1, max_value=120))
def test_a_cut_text_fits(text: str, width: int) -> None:
    """Whatever it holds."""
    assert len(cut(text, width)) <= width


def test_a_cut_line_keeps_its_exit_status() -> None:
    """The number is what matters of it, whatever the line begins with."""
    line = "srun: error: node-3: task 2: Exited with exit code 137"
    assert "exit code 137" in cut(line, 40)
    assert "signal 9" in cut(
        "mpirun noticed that process rank 3 with PID 812 on node n4 exited on signal 9 (Killed)", 40
    )


def test_the_repeated_verdict_is_whole_on_a_narrow_screen(book: RuleBook) -> None:
    """The nodes to leave out and the place of the root stand in it, wrapped at words."""
    answer = diagnose(str(LOGS / "demo.log"), rules=book)
    shown = on_screen(report_rows(answer), 60, 30, repeat=one_line(answer))
    last = " ".join(shown[-3:])
    assert "without node-004" in last
    assert ":159" in last
    assert max(map(len, shown)) <= 60


def test_the_verdict_is_repeated_where_the_report_is_longer_than_the_screen(book: RuleBook) -> None:
    """In a sentence, the last one; not where all of it is seen."""
    answer = diagnose(LOGS / "demo.log", rules=book)
    said = one_line(answer)
    assert said.startswith("FAILED: ECCError 95%; restart_excluding_node")
    assert " ".join(on_screen(report_rows(answer), 120, 30, repeat=said)[-2:]).endswith(said)
    assert not any(said[:20] in row for row in on_screen(report_rows(answer), 120, 500, repeat=said))


def test_links_of_foreign_words_are_no_links_in_markdown(book: RuleBook) -> None:
    """Bare addresses, which GitHub would link, are shown as code."""
    words = "see http://evil.example/a?b, www.evil.example and mira@evil.example now"
    answer = replace(diagnose(LOGS / "demo.log", rules=book), summary=words)
    row = next(row for row in render(answer, "markdown").splitlines() if "evil" in row)
    assert row == "see `http://evil.example/a?b,` `www.evil.example` and `mira@evil.example` now"


def test_a_healthy_report_says_so_and_nothing_to_do(book: RuleBook) -> None:
    """Short, and without an action."""
    text = render(diagnosed(book, *steps(1, 50), "Training finished."), "text")
    assert text.startswith("NO FAILURE")
    assert "What to do" not in text


def test_a_report_of_a_log_that_does_not_tell_says_so(book: RuleBook) -> None:
    """A log that complains in the end in words that no rule knows is not called healthy in capitals."""
    settings = [f"option {letter} = on" for letter in "abcdefghijklmnopqrstuvwxyz"]
    text = render(diagnosed(book, *settings, "warning: the mirror failed to polish"), "text")
    assert text.startswith("NOT KNOWN")
    assert "the mirror failed to polish" in text


def normalised(text: str) -> str:
    """Without what differs between two runs."""
    text = re.sub(r"read in [\d.]+ s", "read in 0.00 s", text)
    text = re.sub(r'"(seconds|load|read|causes|judgement|memory|digest)": [\d.e-]+', r'"\1": 0.0', text)
    text = re.sub(r'"matcher": "\w+"', '"matcher": "any"', text)
    return text.replace(str(LOGS) + "/", "").rstrip("\n") + "\n"


SUFFIX = {"text": "txt", "json": "json", "jsonl": "jsonl", "markdown": "md"}


@pytest.mark.parametrize("form", ["text", "json", "markdown"])
@pytest.mark.parametrize("name", ["demo", "keyerror-rank2"])
def test_reports_are_as_agreed(name: str, form: str, book: RuleBook) -> None:
    """The golden reports; after a wanted change, write them anew with `python -m tests.report.test_report`."""
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
