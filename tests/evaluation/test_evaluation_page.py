"""The page: whole in itself, safe to open, and nothing is missing from it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from logdiag.evaluation.cases import load_cases
from logdiag.evaluation.page import page, shown_lines
from logdiag.evaluation.run import answer_case, document_of, evaluate
from logdiag.evaluation.scoring import judge
from logdiag.model import Reason
from logdiag.rules import RuleBook
from tests.evaluation_helpers import (
    HEALTHY_LOG,
    KEY_ERROR_LOG,
    accident,
    answer,
    case_of,
    healthy,
    labelled,
    out_of_memory,
    write_cases,
)
from tests.helpers import steps, traceback_of

ATTACK = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>"
ATTACKED = "\n".join([*steps(1, 30), ATTACK, *traceback_of(f"KeyError: '{ATTACK}' & \"quoted\" \x1b[31m\u202e")]) + "\n"
VOID = {"meta"}


class Reader(HTMLParser):
    """What elements there are, whether they are closed in order, and what is text."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(content)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of cases of which most are missed, one of them with an attack in its log and its labels."""
    folder = tmp_path_factory.mktemp("page")
    path = write_cases(
        folder / "cases.jsonl",
        labelled("right"),
        labelled("wrong reason", reason="IndexError"),
        labelled("wrong rank", rank=5),
        out_of_memory("wrong root", root_line="step: 3 "),
        labelled("wrong action", action="restart"),
        labelled("crash", tags=["raises"]),
        labelled("false alarm", category="none", reason="none", root_line="", action="none"),
        healthy("missed failure", category="script", reason="Others", root_line="step: 7 ", action="restart"),
        labelled(f"attack {ATTACK}", log=ATTACKED, root_line=ATTACK, reason="IndexError", tags=[ATTACK], split=ATTACK),
    )
    case_set = load_cases([path])
    results = evaluate(case_set.cases, jobs=1, diagnose_case=accident)
    return page(document_of(case_set, results, notes=[ATTACK]), case_set.cases, [result.row for result in results])


def test_the_page_is_well_formed(content: str) -> None:
    """Every element is closed, in order."""
    assert Reader(content).open == []


def test_the_page_needs_nothing_else(content: str) -> None:
    """No script, no address, nothing that would be fetched or run; and the policy forbids all but style."""
    elements = Reader(content).elements
    assert {tag for tag, _ in elements} <= {"html", "head", "meta", "title", "style", "body", "pre", "span"}
    assert {name for tag, attributes in elements if tag == "span" for name in attributes} == {"class"}
    assert "url(" not in content
    assert "@import" not in content
    policy = next(a["content"] for _, a in elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'"


def test_logs_and_labels_stay_text(content: str) -> None:
    """Markup is shown as it was printed; what would steer a terminal or turn the line is made visible."""
    assert "<script" not in content
    text = Reader(content).text
    assert text.count(ATTACK) >= 5
    assert "\x1b" not in content
    assert "\u202e" not in content
    assert "\\x202e" in text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("wrong reason", "reason: IndexError, answered KeyError"),
        ("wrong rank", "rank: 5, answered none"),
        ("wrong root", "root line: answered line 36"),
        ("wrong action", "action: restart, answered fix_and_resubmit"),
        ("crash", "crash: ZeroDivisionError: the diagnosis broke"),
        ("false alarm", "false alarm: KeyError"),
        ("missed failure", "reason: Others, answered none"),
    ],
)
def test_every_miss_is_there(content: str, name: str, words: str) -> None:
    """With what was missed, the label and the answer, and its log."""
    miss = miss_of(content, name)
    assert words in miss
    assert re.search(r"\d \| ", miss)
    assert "\nright " not in Reader(content).text


def test_the_labelled_and_the_answered_line_are_marked(content: str) -> None:
    """Each with five lines before and after it, a gap between them, and the numbers of the file."""
    miss = miss_of(content, "wrong root")
    assert [int(number) for number in re.findall(r"(\d+) \|", miss)] == [*range(1, 9), *range(31, 37)]
    assert re.findall(r"labelled +(\d+)", miss) == ["3"]
    assert re.findall(r"answered +(\d+)", miss) == ["36"]
    assert miss.count("\u22ee") == 1
    assert re.findall(r"both +(\d+)", miss_of(content, "wrong reason")) == ["36"]


def miss_of(content: str, name: str) -> str:
    """What the page says of one miss."""
    (miss,) = re.findall(rf"^{name}  .*?(?=\n\n|\Z)", Reader(content).text, re.DOTALL | re.MULTILINE)
    return str(miss)


def test_an_excerpt_of_a_long_line_holds_what_was_labelled(book: RuleBook) -> None:
    """However far to the right it stands."""
    case = case_of(log=f"{'x' * 5000} KeyError: 'caption' {'y' * 5000}\nend\n", reasons=(Reason.INDEX_ERROR,))
    _, _, text, kind = shown_lines(case, judge(case, answer_case(case, book), 0.0))[0]
    assert kind in ("labelled", "both")
    assert "KeyError: 'caption'" in text
    assert len(text) < 700


def test_an_excerpt_without_a_root_is_the_end_of_the_log() -> None:
    """What a reader looks at first."""
    case = case_of(log=HEALTHY_LOG, reasons=(Reason.NONE,), roots=())
    row = judge(case, answer(reason=Reason.NONE, root=None), 0.0)
    assert [number for _, number, _, _ in shown_lines(case, row)] == [57, 58, 59, 60, 61]


def test_an_excerpt_ends_where_nothing_more_is_wanted() -> None:
    """Both lines, merged when they are near each other."""
    case = case_of(log=KEY_ERROR_LOG)
    lines = shown_lines(case, judge(case, answer(root=("<bytes>", 31, "Traceback")), 0.0))
    assert [number for _, number, _, _ in lines] == [*range(26, 37)]
    assert [(number, kind) for _, number, _, kind in lines if kind] == [(31, "answered"), (36, "labelled")]
