"""The report as a page: whole in itself, safe, complete, and good to read in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from logdiag import Diagnosis, diagnose
from logdiag.model import Collectives, RankInGroup
from logdiag.report import render
from logdiag.report.processes import processes_of
from logdiag.rules import RuleBook
from tests.browser import BROWSER, Page, browser
from tests.helpers import LOGS, diagnosed, log_of, run_logdiag, steps, traceback_of

ATTACK = "</li></script><script>alert(1)</script><img src=x onerror=alert(2)> \x1b[31m\u202e 'quoted\""
RANKS = 1024


class Reader(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def demo() -> Diagnosis:
    """The answer for the log that ships."""
    return diagnose(LOGS / "demo.log", rules=RuleBook.load(), memory=False)


def rank_log(rank: int, *, fails: bool) -> str:
    """What one of many ranks prints: steps, then its error or, ten minutes later, its time-out."""
    head = f"INFO node-{rank // 8:03} train:"
    lines = [f"2026-02-03 01:{at // 60:02}:{at % 60:02},000 {head} step {at}/9000 loss=1.2" for at in range(1, 301)]
    lines[200] = f"2026-02-03 01:03:20,500 {head} saved checkpoint checkpoints/step-200.pt"
    if fails:
        return "\n".join([*lines[:-1], *traceback_of("torch.AcceleratorError: CUDA error: an illegal memory access")])
    told = f"[rank{rank}]:[E0203 01:15:02.604989258 ProcessGroupNCCL.cpp:632] [Rank {rank}] "
    return "\n".join(
        [*lines, f"{told}Watchdog caught collective operation timeout: WorkNCCL(SeqNum=300, OpType=ALLREDUCE)"]
    )


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a job of 1,024 ranks, each with a file of its own."""
    folder = tmp_path_factory.mktemp("job")
    for rank in range(RANKS):
        (folder / f"rank_{rank}.log").write_text(rank_log(rank, fails=rank == 37) + "\n")
    page = tmp_path_factory.mktemp("page") / "large.html"
    page.write_text(render(diagnose(folder, rules=RuleBook.load(), memory=False), "html"))
    return page


def test_the_page_needs_nothing_else(demo: Diagnosis) -> None:
    """Nothing is fetched; the policy lets only the page's own style and script run, and nothing in it is styled or run
    by an attribute."""
    content = render(demo, "html")
    elements = Reader(content).elements
    assert {tag for tag, _ in elements} & {"link", "img", "iframe", "object", "embed", "base"} == set()
    for tag, attributes in elements:
        assert not {"src", "style", "srcset", "action"} & set(attributes)
        assert not [name for name in attributes if name.startswith("on")]
        assert (attributes.get("href") or "#").startswith("#"), tag
    policy = next(a["content"] or "" for _, a in elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert [tag for tag, _ in elements if tag == "script"] == ["script"]


def test_text_of_a_log_stays_text(book: RuleBook) -> None:
    """In every part of the page, and the line is there as it was printed."""
    answer = diagnosed(book, *steps(1, 30), ATTACK, *traceback_of(f"KeyError: {ATTACK}"))
    content = render(replace(answer, notes=(ATTACK,), source=ATTACK), "html")
    assert content.count("<script>") == 1
    assert "<img" not in content
    assert "\u202e" not in content
    assert Reader(content).text.count("<img src=x onerror=alert(2)>") >= 5


def test_the_page_tells_the_whole_answer(demo: Diagnosis) -> None:
    """The verdict, what to do, what is lost, all evidence, every consequence, all ranks and the log."""
    text = Reader(render(demo, "html")).text
    for said in (demo.reason.value, demo.summary, *demo.recovery.steps, *demo.notes):
        assert said in text
    for item in demo.evidence:
        assert item.text in text
    for consequence in demo.consequences:
        assert consequence.title in text
    assert "25 steps since the checkpoint of step 100" in text
    content = render(demo, "html")
    assert set(re.findall(r"<tr><td class=n>(\d+)</td>", content)) == set(map(str, range(8)))


@pytest.mark.parametrize("apart", [True, False])
def test_a_rank_is_not_called_behind_because_its_steps_were_not_kept(
    apart: bool, tmp_path: Path, book: RuleBook
) -> None:
    """Of ranks that share a log only the furthest step is told; in a log of its own a rank's last step is known."""
    ranks = [[f"[rank{rank}] step {at} of 900 loss=1.2" for at in range(1, 400 - rank % 2)] for rank in range(8)]
    ends = [f"[rank{rank}] " + "KeyError: 'x'" for rank in range(8)]
    for rank in range(8):
        (tmp_path / f"rank_{rank}.log").write_text("\n".join([*ranks[rank], ends[rank]]) + "\n")
    together = [line for at in range(400) for lines in ranks for line in lines[at : at + 1]]
    answer = diagnose(tmp_path if apart else log_of(*together, *ends), rules=book, exit_code=1)
    told = {one.rank: one.last_step for one in processes_of(answer) if one.rank is not None}
    behind = {told[rank] for rank in range(1, 8, 2)}
    assert {told[rank] for rank in range(0, 8, 2)} <= {399, None}
    assert behind == ({398} if apart else {None})


def test_the_page_tells_where_each_rank_stood(demo: Diagnosis) -> None:
    """In the collective that hung; the rank that kept the others waiting comes first."""
    waiting = RankInGroup(0, "default", "waits", enqueued=12, operation=ATTACK, sequence=12)
    late = RankInGroup(3, "default", "behind", enqueued=11, sequence=11, stack=("train.py:9 step",))
    table = Collectives("missing-rank", (3,), "rank 3 never entered it.", "default", ATTACK, 12, (waiting, late))
    content = render(replace(demo, collectives=table), "html")
    section = content.partition("Where each rank stood")[2].partition("</section>")[0]
    assert "rank 3 never entered it." in section
    assert re.findall(r"<tr><td class=n>(\d+)</td><td>(\w+)</td>", section) == [("3", "behind"), ("0", "waits")]
    assert "train.py:9 step" in section
    assert "<img" not in content


def test_marks_lead_to_their_lines(demo: Diagnosis) -> None:
    """Each address within the page is that of one line of the log."""
    content = render(demo, "html")
    pointed = set(re.findall(r'<a href="#(\w+)"', content))
    named = re.findall(r'<li value="\d+" id="(\w+)"', content)
    assert len(named) == len(set(named))
    assert pointed
    assert pointed <= set(named)


def test_the_timeline_is_on_one_clock(demo: Diagnosis) -> None:
    """The first failure lies on the line of 0; what followed lies behind it, checkpoints and steps before it."""
    content = render(demo, "html")
    places = {
        kind: [float(x) for x in re.findall(rf'<use href="#m-{kind}" x="([\d.]+)%"', content)]
        for kind in ("root", "consequence", "checkpoint", "step")
    }
    (zero,) = map(float, re.findall(r'<line class="zero" x1="([\d.]+)%"', content))
    assert places["root"] == [zero]
    assert min(places["consequence"]) >= zero
    assert max(places["consequence"]) > zero + 30
    assert places["checkpoint"]
    assert max(places["checkpoint"]) < zero
    assert max(places["step"]) <= zero


@pytest.mark.parametrize("log", ["healthy-scary.log", "kernel-xid79.log", "docker-json.log"])
def test_every_answer_makes_a_page(log: str, book: RuleBook) -> None:
    """Healthy ones, a machine's log, and an answer that was read again from JSON, which has no log."""
    answer = diagnose(LOGS / log, rules=book)
    assert "</main>" in render(answer, "html")
    again = render(Diagnosis.from_dict(answer.to_dict()), "html")
    assert "</main>" in again
    assert 'id="search"' not in again


def test_an_empty_log_makes_a_page(book: RuleBook) -> None:
    """Which says that the log does not tell."""
    assert "The log does not tell" in render(diagnose(b"\n", rules=book), "html")


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    """To standard output and, by the ending of its name, to a file."""
    (tmp_path / "job.log").write_bytes(log_of(*steps(1, 9), *traceback_of("KeyError: 'x'")))
    done = run_logdiag(tmp_path / "job.log", "--format", "html", "-o", tmp_path / "page.html")
    assert done.stdout.startswith(b"<!DOCTYPE html>")
    assert (tmp_path / "page.html").read_bytes() == done.stdout
    assert run_logdiag("batch", tmp_path / "job.log", "-o", tmp_path / "page.html").returncode == 2


@pytest.mark.xdist_group("browser")  # where the other test of the large page runs
def test_the_page_of_1024_ranks_is_small(large: Path) -> None:
    """Under 5 MB, with a row for every rank, the first failing one on top."""
    assert large.stat().st_size < 5_000_000
    content = large.read_text()
    ranks = re.findall(r"<tr><td class=n>(\d+)</td>", content)
    assert ranks[0] == "37"
    assert sorted(map(int, ranks)) == list(range(RANKS))


needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on this machine")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page in a real browser."""
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


@needs_browser
@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [400, 1280])
def test_a_browser_shows_it_whole(width: int, dark: bool, demo: Diagnosis, shown: Page, tmp_path: Path) -> None:
    """On a telephone and on a screen nothing sticks out, nothing else is asked for, and no rule of safety is broken."""
    file = tmp_path / "page.html"
    file.write_text(render(demo, "html"))
    shown.said.clear()
    shown.asked.clear()
    shown.open(file, width=width, dark=dark)
    assert shown.value("document.documentElement.scrollWidth") <= width
    assert shown.value("document.querySelector('.plot').getBoundingClientRect().width") > width * 0.5
    light = shown.value("getComputedStyle(document.body).backgroundColor") == "rgb(246, 247, 249)"
    assert light is not dark
    assert shown.said == []
    assert shown.asked == [file.resolve().as_uri()]


@needs_browser
@pytest.mark.xdist_group("browser")
def test_the_log_can_be_searched(demo: Diagnosis, shown: Page, tmp_path: Path) -> None:
    """Only lines with the words stay, and are counted; a mark of the timeline leads to its line, whatever is hidden."""
    file = tmp_path / "page.html"
    file.write_text(render(demo, "html"))
    shown.open(file)
    shown.value("document.getElementById('search').value = 'ecc ERROR'; document.forms[0].requestSubmit()")
    seen = (
        "[...document.querySelectorAll('#log li')].filter(line => line.checkVisibility()).map(line => line.textContent)"
    )
    lines = shown.value(seen)
    assert lines
    assert all("ecc error" in line.lower() for line in lines)
    assert shown.value("document.getElementById('found').value") == f"{len(lines)} line{'s' * (len(lines) > 1)}"
    shown.value("document.querySelector('.plot a:has(use[href=\"#m-root\"])').dispatchEvent(new MouseEvent('click'))")
    shown.value("new Promise(done => setTimeout(done, 200))")
    (line,) = shown.value("[...document.querySelectorAll('#log li:target')].map(line => line.textContent)")
    assert "uncorrectable ECC error encountered" in line
    top = shown.value("document.querySelector('#log li:target').getBoundingClientRect().top")
    assert 0 <= top <= 900


@needs_browser
@pytest.mark.xdist_group("browser")
def test_1024_ranks_open_within_two_seconds(large: Path, shown: Page) -> None:
    """Loaded, laid out and painted; one of ten tries, for other work on the machine is not the page's."""
    assert any(shown.open(large) < 2 for _ in range(10))
    assert shown.value("document.documentElement.scrollWidth") <= 1280
