"""Catalogues: one file that holds many small rules, and the harvest that says how much of a source they know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evals import gain, second_reading
from evals.harvest import PAGE, Component, components, coverage, judged, kept, messages, printed_line, report
from logdiag import Reason, RuleError, diagnose
from logdiag.evaluation.cases import load_cases
from logdiag.evaluation.run import answer_case
from logdiag.evaluation.scoring import judge
from logdiag.model import Role
from logdiag.read.prefixes import parse_line
from logdiag.rules import RuleBook
from logdiag.rules.check import check
from logdiag.rules.literals import scan_form
from tests.helpers import book_of, log_of

CATALOGUE = """
component: Widget
sources: ['example/widget v3']
why: The widget stopped; its users wait.
reason: NetworkError
quiet: ['widget: all is well']
rows:
  jammed:
    title: The widget is jammed
    at: src/jam.c
    match: 'widget: (?:jammed|stuck fast)'
    fires: 'widget: jammed at 7'
  polished:
    title: The widget was polished
    role: harmless
    at: src/polish.c
    match: 'widget: polish failed'
    fires: 'widget: polish failed'
"""


def written(folder: Path, text: str) -> Path:
    """A folder of one's own with a catalogue of this text."""
    (folder / "catalogues").mkdir()
    (folder / "catalogues" / "widget.yaml").write_text(text, encoding="utf-8")
    return folder


def test_each_row_of_a_catalogue_is_a_rule(tmp_path: Path) -> None:
    """It takes what it leaves out from its catalogue, and is proved by its own example."""
    book = book_of(written(tmp_path, CATALOGUE))
    found = book.confirm_all(parse_line("widget: stuck fast"))
    assert found is not None
    assert (found.rule, found.reason, found.role) == ("catalogues/widget/jammed", Reason.NETWORK_ERROR, Role.CAUSE)
    assert found.why == "The widget stopped; its users wait."
    polished = next(rule for rule in book.rules if rule.id == "catalogues/widget/polished")
    assert (polished.role, polished.reason, polished.references) == (
        "harmless",
        "none",
        ("example/widget v3: src/polish.c",),
    )
    assert [problem for problem in check(book) if "widget" in problem.rule] == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("reason: NetworkError", "reason: GremlinError", r"widget\.yaml:\d+: reason: "),
        ("    fires: 'widget: jammed at 7'\n", "", r"widget\.yaml:\d+: rows\.jammed\.fires: "),
        ("    at: src/jam.c\n", "", r"widget\.yaml:\d+: rows\.jammed\.at: "),
        (
            "    role: harmless\n",
            "    role: harmless\n    reason: OSError\n",
            r"polished.*a harmless rule has no reason",
        ),
        (
            "match: 'widget: polish failed'",
            "match: 'widget: (polish failed'",
            r"widget\.yaml:\d+: .*no regular expression",
        ),
    ],
)
def test_a_broken_row_is_refused_with_its_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    """The file, the line and the row."""
    assert old in CATALOGUE
    with pytest.raises(RuleError, match=message):
        book_of(written(tmp_path, CATALOGUE.replace(old, new)))


def test_a_row_that_shadows_another_is_told(tmp_path: Path) -> None:
    """Two rows that claim each other's examples have no order, and the check says so."""
    again = CATALOGUE.replace(
        "  polished:",
        "  stuck: {title: Again, at: src/a.c, match: 'widget: jam', fires: 'widget: jammed at 9'}\n  polished:",
    )
    book = book_of(written(tmp_path, again))
    assert any("takes 'widget: jammed" in problem.what for problem in check(book))


SOURCE = r"""
void f(int rank) {
  // WARN("a comment, no message");
  WARN("rank %d of " PRIu64
       " left the ring", rank, n);
  LOG(ERROR) << "link " << link << " is down; bring it up";
  INFO("nothing to see: %s", "really");
}
"""


def widget(**changed: Any) -> Component:
    """How the source above is read."""
    fields: dict[str, Any] = {
        "source": "example", "version": "1", "language": "c", "files": r"\.c$", "line": "widget: MESSAGE",
        "calls": r"\bWARN\(", "streams": r"LOG\(ERROR\)\s*<<",
    }  # fmt: skip
    return Component(**(fields | changed))


def test_the_harvest_lists_what_a_source_can_print(tmp_path: Path) -> None:
    """Calls and streams, their parts joined and their gaps filled, with the file; nothing below warning level."""
    (tmp_path / "ring.c").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "ring.h").write_text('WARN("another file: %d", 1)', encoding="utf-8")
    found = [(item.file, item.text) for item in messages(widget(), tmp_path)]
    assert ("ring.c", "rank 7 of word left the ring") in found
    assert ("ring.c", "link word is down; bring it up") in found
    assert not any("nothing to see" in text or "another file" in text for _, text in found)


PYTHON = '''
def save(path, rank, logger):
    """A docstring, no message."""
    if not path:
        raise ValueError("no place "
                         f"for rank {rank} in {path!r}")
    assert path.exists, "the %s is gone" % path
    try:
        write(path)
    except OSError:
        logger.error("writing to {} failed, trying {}".format(path, other), extra=1)
        logger.info("nothing to see")
        raise StoreError(f"store lost after {num_tries} tries") from None
    raise
'''


def test_the_harvest_lists_what_a_python_source_raises_asserts_and_logs(tmp_path: Path) -> None:
    """An exception stands behind its class, as Python prints it; nothing below warning level is listed."""
    (tmp_path / "tool").mkdir()
    (tmp_path / "tool" / "store.py").write_text(PYTHON, encoding="utf-8")
    (tmp_path / "tool" / "old.py").write_text("print 'no Python of today'", encoding="utf-8")
    component = widget(language="python", files=r"\.py$", calls=r"\.error$", line="E tool: MESSAGE")
    found = {item.text: item.raised for item in messages(component, tmp_path)}
    assert found == {
        "ValueError: no place for rank 7 in word": True,
        "AssertionError: the word is gone": True,
        "tool.StoreError: store lost after 7 tries": True,
        "writing to word failed, trying word": False,
    }


def test_what_a_python_source_logs_stands_at_its_level(tmp_path: Path) -> None:
    """The last word of the call is the kind, by which a component says what a printed line looks like."""
    (tmp_path / "a.py").write_text('log.warning("the widget squeaks")\nlog.error("the widget broke")', encoding="utf-8")
    component = widget(
        language="python",
        files=r"\.py$",
        calls=r"\.(?:error|warning)$",
        line="tool - ERROR - MESSAGE",
        lines={": warning$": "tool - WARNING - MESSAGE"},
    )
    assert [printed_line(component, item).text for item in messages(component, tmp_path)] == [
        "tool - WARNING - the widget squeaks",
        "tool - ERROR - the widget broke",
    ]


def test_a_traceback_that_is_put_on_an_exception_is_no_class_of_its_own(tmp_path: Path) -> None:
    """What is raised is the exception below; of one that only has a name the class is not known."""
    source = 'raise ValueError("the widget is bent").with_traceback(tb)\nraise error.with_traceback(tb)\n'
    (tmp_path / "a.py").write_text(source, encoding="utf-8")
    component = widget(language="python", files=r"\.py$", calls="x", line="E tool: MESSAGE")
    assert [item.text for item in messages(component, tmp_path)] == ["ValueError: the widget is bent"]


def test_a_raised_message_is_judged_without_a_loggers_prefix(tmp_path: Path, book: RuleBook) -> None:
    """It stands at the head of its line, where the rules of exceptions look for it."""
    (tmp_path / "a.py").write_text('raise ValueError("the widget is bent")', encoding="utf-8")
    component = widget(language="python", files=r"\.py$", calls="x", line="E tool: went wrong: MESSAGE")
    [message] = messages(component, tmp_path)
    assert judged(book, component, message) == "cause"


def test_the_harvest_reads_tables(tmp_path: Path) -> None:
    """What stands in the one group of the pattern: here the first line under each topic of a help file."""
    (tmp_path / "help-x.txt").write_text(
        "# -*- text -*-\n[lost]\n#\n-----\nThe node %s was lost.\nMore.\n[full]\nNo room for %d ranks.\n",
        encoding="utf-8",
    )
    component = widget(language="table", calls=components()["open-mpi"].calls, files="help-", line="MESSAGE")
    assert [item.text for item in messages(component, tmp_path)] == ["The node word was lost.", "No room for 7 ranks."]


def test_a_text_of_a_table_is_whole_though_it_holds_quotes(tmp_path: Path) -> None:
    """A log has the quotes without the backslashes that the source writes before them."""
    (tmp_path / "pbs_messages.c").write_text('char *msg_place = "Cannot have \\"place\\" alone";\n', encoding="utf-8")
    component = widget(language="table", calls=components()["openpbs"].calls, files="pbs_messages", line="MESSAGE")
    assert [item.text for item in messages(component, tmp_path)] == ['Cannot have "place" alone']


def test_the_harvest_reads_rust(tmp_path: Path) -> None:
    """A string may stand on two lines; its gaps are in braces."""
    (tmp_path / "main.rs").write_text(
        'tracing::error!("Shard {rank} \\\n    crashed with {err:?}"); info!("up");', encoding="utf-8"
    )
    component = widget(language="rust", files="rs$", calls=r"\berror!\s*\(", streams="")
    assert [item.text for item in messages(component, tmp_path)] == ["Shard word crashed with word"]


def test_the_class_or_status_that_a_call_names_stands_in_the_printed_line(tmp_path: Path) -> None:
    """An error's kind is part of its call, not of its text; a log has it before the text."""
    (tmp_path / "a.c").write_text('return errors::NotFoundError("widget %d is gone", id);', encoding="utf-8")
    component = widget(calls=r"\berrors::(?P<kind>\w+?)Error\(", line="Failed: KIND STATUS: MESSAGE")
    (message,) = messages(component, tmp_path)
    assert printed_line(component, message).text == "Failed: NotFound NOT_FOUND: widget 7 is gone"


def test_a_line_is_printed_as_its_call_and_its_file_print_it(tmp_path: Path) -> None:
    """A warning is not read as if it had been thrown, and a log names the file that speaks."""
    (tmp_path / "gear.c").write_text(
        'WIDGET_THROW("widget %d is gone", id); widget_warning("widget %d is slow", id);', encoding="utf-8"
    )
    component = widget(
        calls=r"\bWIDGET_THROW\(|\bwidget_(?P<kind>warning)\(",
        line="fatal FILE: MESSAGE",
        lines={": warning$": "KIND FILE: MESSAGE"},
    )
    lines = [printed_line(component, message).text for message in messages(component, tmp_path)]
    assert lines == ["fatal gear.c: widget 7 is gone", "warning gear.c: widget 7 is slow"]


def test_a_log_may_name_the_file_with_its_folders(tmp_path: Path) -> None:
    """A failed check of Gloo prints the whole path of the file that made it."""
    (tmp_path / "cogs").mkdir()
    (tmp_path / "cogs" / "gear.c").write_text('WIDGET_THROW("widget %d is gone", id);', encoding="utf-8")
    component = widget(calls=r"\bWIDGET_THROW\(", line="fatal PATH:12 MESSAGE")
    (message,) = messages(component, tmp_path)
    assert printed_line(component, message).text == "fatal cogs/gear.c:12 widget 7 is gone"


@pytest.mark.parametrize("before", ["// ", "  // if gone: ", " * e.g. "])
def test_what_is_commented_out_is_no_message(tmp_path: Path, before: str) -> None:
    """A call in a comment prints nothing; one behind a pointer on its line does."""
    (tmp_path / "gear.c").write_text(
        f'{before}WARN("widget %d is gone", id);\n*last = WARN("widget %d is slow", id);\n', encoding="utf-8"
    )
    (message,) = messages(widget(streams=""), tmp_path)
    assert message.text == "widget 7 is slow"


def test_the_report_counts_what_is_known_left_out_and_open(tmp_path: Path, book: RuleBook) -> None:
    """A message is known by a rule, by its speaker alone, left out with a reason, or open."""
    (tmp_path / "a.c").write_text(
        'WARN("NCCL WARN Trying to send to self without a matching recv"); WARN("NCCL WARN odd thing %d");'
        'WARN("usage: widget [options]"); WARN("the frobnicator sings");',
        encoding="utf-8",
    )
    component = widget(general=["nccl/nccl-warning"], left_out={"usage": ["usage: "]})
    verdicts = [judged(book, component, message) for message in messages(component, tmp_path)]
    row = report("widget", component, verdicts)
    assert (row["messages"], row["classified"], row["only_by_speaker"], row["open"]) == (4, 1, 1, 1)
    assert row["left_out"] == {"usage": 1}
    assert row["share"] == pytest.approx(33.3)


def test_the_table_of_components_can_be_read(book: RuleBook) -> None:
    """Every entry of the table names its source and version, and rules that exist."""
    rules = {rule.id for rule in book.rules}
    for name, component in components().items():
        assert component.source, name
        assert component.version, name
        assert set(component.general) <= rules, name
        assert "MESSAGE" in component.line, name


def test_a_node_that_lost_its_cards_is_told_by_nccls_own_words(book: RuleBook) -> None:
    """A message that no rule of its own knew names its reason, and a setting left out is no failure."""
    lost = "node-07:2210:2210 [0] p2p.cc:71 NCCL WARN NET/IB: Fatal error. Detected 1 failed devices out of 1"
    assert diagnose(log_of("step 1 loss 2.1", lost), rules=book, exit_code=1).reason is Reason.NETWORK_ERROR
    calm = "node-07:2210:2210 [0] param.cc:71 NCCL WARN Ignoring SHM locality, must be 1 or 2"
    assert not diagnose(log_of("step 1 loss 2.1", calm, "step 2 loss 2.0"), rules=book).failed


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nrt_execute failed: NRT_EXEC_HW_ERR_HBM_UE", Reason.ECC_ERROR),
        ("nrt_execute failed: NRT_NETWORK_PROXY_FAILURE", Reason.NETWORK_ERROR),
        ("nrt_execute failed: NRT_LOAD_NOT_ENOUGH_NC", Reason.CUDA_ERROR),
        ("jax.errors.JaxRuntimeError: UNAVAILABLE: the service is gone", Reason.CONNECTION_ERROR),
        ("OSError: (External) NCCL error(5), invalid usage.", Reason.NCCL_REMOTE_ERROR),
        ("Caused by: alluxio.exception.FileDoesNotExistException: no shard", Reason.FILE_NOT_FOUND_ERROR),
    ],
)
def test_a_status_code_selects_the_reason(book: RuleBook, line: str, reason: Reason) -> None:
    """A catalogue's row may be a table over a code."""
    assert diagnose(log_of("step 1 loss 2.1", line), rules=book, exit_code=1).reason is reason


def test_a_long_pattern_is_scanned_for_by_a_common_literal() -> None:
    """The words that begin all lines of one speaker are looked for once; a short pattern keeps its own expression."""
    branches = "|".join(f"fault {number} of a kind that has no long words of its own, {number}" for number in range(4))
    speaker = rf"NCCL WARN (?:\w{{1,9}}|{branches}|.{{0,9}}x)"
    assert len(speaker) >= 200
    assert scan_form(speaker, "nccl warn all is well") == (r"NCCL\ WARN\ ",)
    assert scan_form(r"NCCL WARN \w{1,9}", "nccl warn all is well") != (r"NCCL\ WARN\ ",)


def test_the_page_has_the_counts_of_the_results() -> None:
    """Its tables are those that are made of what was measured last."""
    rows, text = kept()["coverage"], PAGE.read_text(encoding="utf-8")
    assert {row["component"] for row in rows} == set(components())
    assert coverage(rows) in text
    assert gain.page(kept()["gain"]) in text


def test_the_gain_of_a_catalogue_is_what_is_right_with_it_alone(tmp_path: Path, book: RuleBook) -> None:
    """A log whose cause only the catalogue of MPICH knows is right with it and wrong without it."""
    line = "PMPI_Win_lock(112)..........: Wrong synchronization of RMA calls"
    case = {
        "id": "mpich/0", "source": "test", "category": "framework", "reason": "RuntimeError", "also_ok": [],
        "root_line": line, "action": "fix_and_resubmit", "log": f"step 100 loss 2.1\nstep 200 loss 2.0\n{line}\n",
    }  # fmt: skip
    (tmp_path / "one.jsonl").write_text(json.dumps(case) + "\n", encoding="utf-8")
    [found] = load_cases([str(tmp_path)]).cases
    assert gain.touched(found, book) >= {"mpich"}
    rows = [judge(found, answer_case(found, rules), 0.0) for rules in (book, gain.without(book, "mpich"))]
    counts = gain.difference([(rows[0], rows[1])])
    assert (counts["reasons_gained"], counts["roots_gained"], counts["roots_lost"]) == (1, 1, 0)


def test_a_second_reading_counts_reasons_and_roles_that_agree(tmp_path: Path, book: RuleBook) -> None:
    """A reader's own word and the accepted ones are right; silence about a harmless message is right too."""
    (tmp_path / "a.py").write_text(
        'raise KeyError("the widget is bent")\nraise ValueError("widget is blue")\nlog.error("all widgets sing")\n',
        encoding="utf-8",
    )
    component = widget(language="python", files=r"\.py$", calls=r"\.error$", line="I tool: MESSAGE")
    found = messages(component, tmp_path)
    labels = dict(
        zip(
            map(second_reading.name_of, found),
            ("KeyError cause", "TypeError|ValueError symptom", "none harmless"),
            strict=True,
        )
    )
    row = second_reading.compared(book, component, found, labels)
    assert (row["messages"], row["known"], row["reason"], row["own_reason"], row["role"]) == (3, 2, 3, 2, 2)
    assert row["apart"] == [f"{second_reading.name_of(found[1])} ValueError cause"]


def test_a_row_leaves_a_plain_word_of_the_gpu_its_weight(book: RuleBook) -> None:
    """No row of a catalogue makes the illegal access of a kernel a general rule, which would count for less."""
    [access] = [index for index, rule in enumerate(book.rules) if rule.id == "cuda/cuda-illegal-memory-access"]
    assert not book.narrower.get(access)


@pytest.mark.parametrize(
    "said",
    [
        "Ping redis: no route to host",
        "Put uuid object: no route to host",
        "mount process 412: no such process",
        "Attribute of /ckpt (inode 812) is missing",
        "load RSA key from /keys/jfs.pem: no such file",
    ],
)
def test_the_level_of_juicefs_tells_whether_it_went_on(book: RuleBook, said: str) -> None:
    """FATAL ends the program, after ERROR one call fails, after WARNING it tries again or works around it."""

    def role(level: str) -> Role | None:
        found = book.confirm_all(parse_line(f"juicefs[2210] <{level}>: {said}", "job.log", 1, position=0))
        return found.role if found else None

    assert [role(level) for level in ("FATAL", "ERROR", "WARNING")] == [Role.CAUSE, Role.SYMPTOM, Role.HINT]
