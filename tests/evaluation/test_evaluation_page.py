"""The page: whole in itself, safe to open, and nothing is missing from it."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from logdiag.evaluation.cases import load_cases
from logdiag.evaluation.document import document_of
from logdiag.evaluation.page import page, shown_lines
from logdiag.evaluation.run import answer_case, evaluate
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
VOID = {"meta", "col", "path", "rect"}


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
    """No script, no address, nothing that would be fetched or run; and the policy forbids all but its own style."""
    elements = Reader(content).elements
    fetching = {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
    assert {tag for tag, _ in elements} & fetching == set()
    for _, attributes in elements:
        assert not {"src", "href", "style", "srcset", "action"} & set(attributes)
        assert not [name for name in attributes if name.startswith("on")]
    style = re.findall(r"<style>(.*?)</style>", content, re.DOTALL)[0]
    assert "url(" not in style
    assert "@import" not in style
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = next(a["content"] for _, a in elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def test_logs_and_labels_stay_text(content: str) -> None:
    """Markup is shown as it was printed; what would steer a terminal or turn the line is made visible."""
    assert "<script" not in content
    text = Reader(content).text
    assert text.count(ATTACK) >= 5
    assert "\x1b" not in content
    assert "\u202e" not in content
    assert "\\x202e" in text


@pytest.mark.parametrize(
    ("name", "badge"),
    [
        ("wrong reason", "reason"),
        ("wrong rank", "rank"),
        ("wrong root", "root line"),
        ("wrong action", "action"),
        ("crash", "crash"),
        ("false alarm", "false alarm"),
        ("missed failure", "reason"),
    ],
)
def test_every_miss_is_there(content: str, name: str, badge: str) -> None:
    """With what was missed, the label and the answer, and its log."""
    (miss,) = re.findall(rf"<details><summary><b>{name}</b>.*?</details>", content, re.DOTALL)
    assert f'<span class="badge">{badge}</span>' in miss
    assert "<pre>" in miss
    assert "<b>right</b>" not in content


def test_the_labelled_and_the_answered_line_are_marked(content: str) -> None:
    """Each with five lines before and after it, a gap between them, and the numbers of the file."""
    (miss,) = re.findall(r"<details><summary><b>wrong root</b>.*?</details>", content, re.DOTALL)
    numbers = [int(number) for number in re.findall(r"<i> *(\d+)  </i>", miss)]
    assert numbers == [*range(1, 9), *range(31, 37)]
    assert re.findall(r'<span class="labelled"><i> *(\d+)', miss) == ["3"]
    assert re.findall(r'<span class="answered"><i> *(\d+)', miss) == ["36"]
    assert miss.count("\u22ee") == 1
    (same,) = re.findall(r"<details><summary><b>wrong reason</b>.*?</details>", content, re.DOTALL)
    assert re.findall(r'<span class="both"><i> *(\d+)', same) == ["36"]


def test_charts_show_their_numbers(content: str) -> None:
    """A dot for each tenth of confidence, a bar for each reason, a cell for each pair, all with their counts."""
    reader = Reader(content)
    tags = [tag for tag, _ in reader.elements]
    assert tags.count("svg") == 2
    assert tags.count("circle") >= 2
    titles = [attributes.get("title") or "" for tag, attributes in reader.elements if tag == "td"]
    assert "IndexError, answered KeyError: 2 of 2" in titles
    assert "KeyError, answered (no answer): 1 of 4" in titles


def test_a_page_without_misses_says_so(tmp_path: Path) -> None:
    """And the parts that need labels nobody gave say that."""
    case_set = load_cases([write_cases(tmp_path / "cases.jsonl", labelled())])
    results = evaluate(case_set.cases, jobs=1)
    rows = [result.row for result in results]
    text = Reader(page(document_of(case_set, results), case_set.cases, rows)).text
    assert "None: every judged answer is right." in text
    assert "not labelled" in text


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
