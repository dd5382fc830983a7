"""The catalogue that comes with logdiag: proven by its examples, complete, and quiet on healthy logs."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

from logdiag import Action, Reason, diagnose
from logdiag.model import Role
from logdiag.read.prefixes import parse_line
from logdiag.rules import Rule, RuleBook
from logdiag.rules.book import example_line
from logdiag.rules.check import check
from logdiag.rules.folders import shipped_folder
from tests.helpers import LOGS, ROOT, SHARED, log_of, steps

# Facts of late 2025: NVIDIA's Xid catalogue, its decode sheet of 144 to 150, the Fabric Manager guide's appendix.
VENDOR = ROOT / "tests" / "data" / "vendor"
REAL = SHARED / "reallogs" / "dev.jsonl"
OURS = ("logdiag", "rules", "corpus", "tests", "evals")
_TEXTS = (".py", ".json", ".yaml", ".md", ".txt", ".log")
# Characters: shorter root lines are the fixed words of Python and CUDA.
_A_SENTENCE = 60


def test_the_check_has_nothing_to_say(book: RuleBook) -> None:
    """What `logdiag rules test` runs: every example, every pattern, every filter."""
    assert [str(problem) for problem in check(book)] == []


def test_every_reason_has_a_rule(book: RuleBook) -> None:
    """No reason of the taxonomy is out of reach."""
    reached = {rule.reason for rule in book.rules}
    reached |= {row["reason"] for rule in book.rules for row in rule.rows.values() if "reason" in row}
    assert {reason.value for reason in Reason} <= reached


def test_every_failure_rule_has_near_misses(book: RuleBook) -> None:
    """A rule that was never shown what it must leave alone is not proven."""
    roles = (Role.CAUSE.value, Role.SYMPTOM.value)
    assert [rule.id for rule in book.rules if rule.role in roles and not rule.quiet] == []


def test_every_example_is_diagnosed_as_a_jobs_last_words(book: RuleBook) -> None:
    """Whatever a rule catches under a fact's name, an answer is made of it, for a job that is known to have failed."""
    for rule in book.rules:
        for example in rule.fires:
            answer = diagnose(log_of("step 1 loss 2.1", example), rules=book, memory=False, exit_code=1)
            assert answer.failed, (rule.id, example)


def test_every_failure_rule_explains_itself(book: RuleBook) -> None:
    """A title without a full stop, and a sentence that says why."""
    for rule in book.rules:
        assert rule.title
        assert not rule.title.endswith(".")
        if rule.role in (Role.CAUSE.value, Role.SYMPTOM.value, Role.HINT.value):
            assert rule.why.endswith((".", "?")), rule.id


def test_every_fact_in_a_title_can_be_told(book: RuleBook) -> None:
    """A title's placeholders are groups of each of its patterns' rule, so that no report says `the xid`."""
    for rule in book.rules:
        groups = set(re.findall(r"\(\?P<(\w+)>", " ".join(rule.match)))
        for text in (rule.title, *(row.get("title", "") for row in rule.rows.values())):
            assert set(re.findall(r"\{([a-z_]+)\}", text)) <= groups, (rule.id, text)


def test_every_example_has_a_full_title(book: RuleBook) -> None:
    """No example gives a headline with a gap: a fact that its line does not tell is left out whole."""
    wanting = []
    for rule in book.rules:
        placeholders = [part.split("}")[0] for part in rule.title.split("{")[1:]]
        for example in rule.fires if rule.role in (Role.CAUSE.value, Role.SYMPTOM.value) and placeholders else ():
            finding = book.confirm_all(*example_line(example))
            gaps = [name for name in placeholders if finding and name not in finding.facts]
            if finding is None or "{" in finding.title or any(f"the {name}" in finding.title for name in gaps):
                wanting.append((rule.id, example, finding and finding.title))
    assert wanting == []


# --- tables of codes ---


def rows(name: str) -> list[dict[str, str]]:
    """A table of facts."""
    with (VENDOR / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def rule_of(book: RuleBook, identity: str) -> Rule:
    """One rule by its id."""
    return next(rule for rule in book.rules if rule.id == identity)


def test_the_xid_table_is_complete(book: RuleBook) -> None:
    """Each code of the vendor's catalogue has its own meaning, and each line with it is understood."""
    codes = [row["xid"] for row in rows("xid.csv")]
    assert len(codes) == 172
    table = rule_of(book, "nvidia/xid").rows
    elsewhere = set(codes) - set(table)
    titles = {}
    for code in codes:
        finding = book.confirm_all(parse_line(f"NVRM: Xid (PCI:0000:3b:00): {code}, pid=4711, name=python, something"))
        assert finding is not None, code
        titles[code] = finding.title
        assert code in table or finding.rule != "nvidia/xid", code
    assert len(set(titles.values())) >= len(codes) - len(elsewhere)


@pytest.mark.parametrize(
    ("codes", "reason"),
    [
        ((48, 64, 94, 95, 140, 171, 172), Reason.ECC_ERROR),
        ((74, 144, 145, 146, 147, 148, 149, 150), Reason.NVLINK_ERROR),
        ((13, 31, 43, 45, 79, 119), Reason.CUDA_ERROR),
    ],
)
def test_xids_have_the_reason_of_the_label_description(book: RuleBook, codes: tuple[int, ...], reason: Reason) -> None:
    """LABELS.md names the codes of each reason."""
    found = {code: book.confirm_all(parse_line(f"NVRM: Xid (PCI:0000:3b:00): {code}, pid=4711")) for code in codes}
    assert {code: finding.reason if finding else None for code, finding in found.items()} == dict.fromkeys(
        codes, reason
    )


@pytest.mark.parametrize("code", [63, 14, 23])
def test_an_xid_that_only_informs_is_no_failure(book: RuleBook, code: int) -> None:
    """63 is a remap that worked."""
    assert not diagnose(
        log_of("booted", f"NVRM: Xid (PCI:0000:3b:00): {code}, pid=4711, some information"), rules=book
    ).failed


@pytest.mark.parametrize("code", [79, 119, 120, 143, 158])
def test_an_xid_of_a_lost_gpu_excludes_the_node(book: RuleBook, code: int) -> None:
    """The card does not come back by a restart of the job."""
    answer = diagnose(
        log_of(f"Mar 11 18:04:11 gpu-node12 kernel: NVRM: Xid (PCI:0000:3b:00): {code}, pid=4711, x"), rules=book
    )
    assert answer.recovery.action is Action.RESTART_EXCLUDING_NODE
    assert answer.recovery.exclude_nodes == ("gpu-node12",)


@pytest.mark.parametrize("follower", [45, 154])
def test_an_xid_that_follows_another_is_not_the_root(book: RuleBook, follower: int) -> None:
    """45 and 154 point to the Xid before them."""
    text = f"NVRM: Xid (PCI:0000:3b:00): {follower}, pid=4711, GPU recovery action changed from 0x0 (None) to 0x1"
    answer = diagnose(
        log_of(
            f"[ 1000.123456] {text}",
            "[ 1000.123458] NVRM: Xid (PCI:0000:3b:00): 48, pid=4711, DBE detected",
            f"[ 1000.123460] {text}",
        ),
        rules=book,
    )
    assert answer.reason is Reason.ECC_ERROR


def test_the_sxid_table_is_complete(book: RuleBook) -> None:
    """Each code of the switch is known; one that is always fatal is an NVLink failure."""
    table = rows("sxid.csv")
    assert len(table) == 93
    for row in table:
        text = (
            f"nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): {row['sxid']}, Fatal, Link 30 {row['name'].replace('_', ' ')}"
        )
        finding = book.confirm_all(parse_line(text))
        assert finding is not None, row
        if row["always_fatal"] == "true":
            assert (finding.role, finding.reason) == (Role.CAUSE, Reason.NVLINK_ERROR), row


def test_a_switch_fault_that_says_it_is_not_fatal_fails_no_job(book: RuleBook) -> None:
    """The line itself says how bad it is."""
    line = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 22013, Non-fatal, Link 30 Minion Link DLREQ interrupt"
    assert not diagnose(log_of(*steps(1, 20), line, *steps(21, 3)), rules=book).failed


def test_every_nvlink5_unit_is_known(book: RuleBook) -> None:
    """The 144-150 lines name a unit and how bad it is; fatal ones are causes, others are not."""
    units = {(row["xid"], unit, row["error_status"]) for row in rows("nvlink5.csv") for unit in row["unit"].split("/")}
    for xid, unit, status in sorted(units):
        for severity, is_cause in (("Fatal", True), ("Nonfatal", False)):
            text = (
                f"NVRM: Xid (PCI:0018:01:00): {xid}, {unit} {severity} XC0 i0 Link 08 "
                f"(0x00000004 {status} 0x00000000 0x00000000 0x00000000 0x00000000)"
            )
            finding = book.confirm_all(parse_line(text))
            assert finding is not None, text
            assert finding.reason in (Reason.NVLINK_ERROR, Reason.NONE), text
            assert (finding.role is Role.CAUSE) == is_cause, text


# --- quiet where it must be ---


@pytest.mark.parametrize("name", ["healthy-scary.log", "recovered-connection.log"])
def test_no_cause_stands_on_a_healthy_log(name: str, book: RuleBook) -> None:
    """No root, and nothing that would be one but for the order."""
    answer = diagnose(LOGS / name, rules=book)
    assert not answer.failed
    assert answer.root_cause is None
    assert answer.candidates == ()


def test_no_cause_fires_on_lines_of_filters_and_progress(book: RuleBook) -> None:
    """What healthy jobs print all day is nobody's failure."""
    wrong = Counter[str]()
    healthy = [line for item in book.filters for line in item.drops]
    healthy += [line for rule in book.rules if rule.role in ("progress", "finished") for line in rule.fires]
    for text in healthy:
        line, _ = example_line(text)
        finding = book.confirm_all(line)
        if finding is not None and finding.role in (Role.CAUSE, Role.SYMPTOM):
            wrong[f"{finding.rule}: {text}"] += 1
    assert not wrong


def telling_lines(text: str) -> set[str]:
    """Long lines with numbers that a program filled in. Messages without any are the software's own fixed words."""
    lines = {line.strip() for line in text.splitlines()}
    return {line for line in lines if len(line) >= 60 and re.search(r"\b\d{2,}\b", line)}


def real_lines() -> set[str]:
    """The telling lines of the labelled failures, root lines among them."""
    cases = [json.loads(text) for text in REAL.read_text(encoding="utf-8").splitlines()]
    return {line for case in cases for line in telling_lines(case["log"])}


@pytest.mark.skipif(not REAL.exists(), reason="the real logs are not here")
def test_no_line_of_a_real_log_is_copied_into_the_rules(book: RuleBook) -> None:
    """The labelled failures are for development; examples have our own names and numbers."""
    examples = [example for rule in book.rules for example in (*rule.fires, *rule.quiet)]
    examples += [example for item in book.filters for example in (*item.drops, *item.keeps)]
    assert sorted(telling_lines("\n".join(examples)) & real_lines()) == []


@pytest.mark.skipif(not REAL.exists(), reason="the real logs are not here")
def test_no_root_line_of_a_real_log_stands_in_the_project() -> None:
    """Of no set of them, and nor in a comment, a sample log or a page; in YAML a quote may be doubled."""
    cases = [json.loads(text) for path in REAL.parent.glob("*.jsonl") for text in path.read_text("utf-8").splitlines()]
    told = {root.strip() for case in cases for root in (case.get("root_line") or "", *case.get("also_root", ()))}
    roots = {root for root in told if len(root) >= _A_SENTENCE}
    files = [path for folder in (*OURS, "docs") for path in (ROOT / folder).rglob("*") if path.suffix in _TEXTS]
    files += ROOT.glob("*.md")
    ours = "\n".join(path.read_text(encoding="utf-8").replace("''", "'") for path in files)
    assert len(roots) > 200
    assert sorted(root for root in roots if root in ours) == []


@pytest.mark.skipif(not REAL.exists(), reason="the real logs are not here")
def test_no_line_of_a_real_log_is_copied_into_the_tests() -> None:
    """The sample logs, and every other file below tests, are made up too."""
    tests = [path for path in (ROOT / "tests").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    ours = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in tests)
    assert sorted(line for line in real_lines() if line in ours) == []


def test_every_piece_is_part_of_a_pattern() -> None:
    """The table of pieces holds nothing that no rule asks for."""
    folder = Path(shipped_folder())
    patterns = "".join(path.read_text(encoding="utf-8") for path in folder.glob("context/processes/**/*.yaml"))
    pieces = yaml.safe_load((folder / "pieces.yaml").read_text(encoding="utf-8"))
    assert [name for name in pieces if f"{{{name}}}" not in patterns] == []


def test_every_rule_file_is_loaded(book: RuleBook) -> None:
    """Nothing in the folder is left aside; the forms of a line's head are proved on their own."""
    folder = Path(shipped_folder())
    found = {str(path.relative_to(folder).with_suffix("")) for path in folder.rglob("*.y*ml")}
    tables = {"confidence", "exceptions", "pieces", "reasons"}
    files = {name for name in found if not name.startswith("forms/")} - tables
    loaded = {rule.file for rule in book.rules} | {item.file for item in book.filters}
    assert files == {str(Path(file).relative_to(folder).with_suffix("")) for file in loaded}
