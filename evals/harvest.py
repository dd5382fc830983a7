"""What a component's source can print at warning level or above, and how much of it the rules know.

    python -m evals.harvest COMPONENT CHECKOUT            # one component of catalogues.yaml: counts
    python -m evals.harvest COMPONENT CHECKOUT --open     # the messages that no rule knows and nobody left out
    python -m evals.harvest COMPONENT CHECKOUT --list     # every message: file, message, what it is taken for
    python -m evals.harvest COMPONENT CHECKOUT --write    # its row of results/catalogues.json, too

CHECKOUT is a folder with the source, which is read and never kept. `catalogues.yaml` says for each component how its
language writes a string, which calls print, and what a printed line looks like.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from logdiag.model import Line
from logdiag.read.prefixes import parse_line
from logdiag.rules import RuleBook

HERE = Path(__file__).resolve().parent
TABLE = HERE / "catalogues.yaml"
RESULTS = HERE / "results" / "catalogues.json"
PAGE = HERE.parent / "docs" / "catalogues.md"
# The rows of this catalogue name the speaker of any component.
_SPEAKERS = "catalogues/speakers/"
_MOST_CHARACTERS = 1500
_FEWEST_LETTERS = 6

_QUOTED = r'"(?:[^"\\\n]|\\.)*"'
# How a language writes a string. Two that stand side by side are one message; a gap is what the program fills in.
STRINGS = {
    "c": re.compile(rf"R\"\((.*?)\)\"|{_QUOTED}", re.DOTALL),
    "go": re.compile(rf"{_QUOTED}|`[^`]*`"),
    "rust": re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL),
}
# "rank %d of " PRIu64 " bytes" and LOG << "rank " << rank << " left" are one message each.
_JOINS = {
    "c": re.compile(r"[\s\\]*(?:PRI\w+|<<[^;\"]{0,200}?<<|<<|\+[^;\",]{0,80}\+)?[\s\\]*"),
    "go": re.compile(r"\s*\+\s*"),
    "rust": re.compile(r"(?!)"),
}
_FILLED_IN = re.compile(
    r"%[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|z|j|t)?(?P<kind>[diuoxXcfgeEpsvqwTt])(?P<kernel>[A-Za-z]{0,2})"
    r"|\{\{?(?P<braces>[\w.:!?#\[\]()'\" ]*)\}\}?|\x00"
)
_A_NUMBER = re.compile(r"(?i)rank|num_|size|len\(|count|step|timeout|port\b|code\b|degree|\bpid\b|epoch")
_TABLE_OF_PAGE = re.compile(r"^\| component \|.*\n(?:\|.*\n)+", re.MULTILINE)
_IN_A_COMMENT = re.compile(r"[ \t]*(?://|\*[ \t])")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Message:
    """One message that a source can print: the file it stands in, and its text with numbers and words filled in.

    A raised one stands as Python prints it, behind the name of its class, and takes no other prefix. `kind` is the
    class or status that the call names, as the source writes it, or in Python the last word of the call that logs it.
    """

    file: str
    text: str
    raised: bool = False
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Component:
    """How a component's source is read. `calls` end before the arguments, `streams` before the first `<<`; in a `table`
    the one group of `calls` is the message. `lines` are printed lines of single files or kinds, by a pattern of `file:
    kind`. A group `kind` of `calls` or `streams` stands in the line as KIND, and as STATUS in the form of a status
    code; PATH is the source file, FILE its name without the folders."""

    source: str
    version: str
    language: str
    files: str
    line: str
    calls: str = ""
    streams: str = ""
    not_files: str = "$^"
    lines: Mapping[str, str] = field(default_factory=dict)
    general: Sequence[str] = ()
    left_out: Mapping[str, Sequence[str]] = field(default_factory=dict)


def components(table: Path = TABLE) -> dict[str, Component]:
    """The components by name."""
    return {name: Component(**entry) for name, entry in yaml.safe_load(table.read_text(encoding="utf-8")).items()}


def messages(component: Component, checkout: Path) -> list[Message]:
    """Every message of a checkout, each text once, in the order of the files."""
    found: dict[str, Message] = {}
    wanted, unwanted = re.compile(component.files), re.compile(component.not_files)
    for path in sorted(checkout.rglob("*")):
        name = path.relative_to(checkout).as_posix()
        if wanted.search(name) and not unwanted.search(name) and path.is_file():
            source = path.read_text(encoding="utf-8", errors="replace")
            if component.language == "python":
                printed = python_messages(component, name, source)
            elif component.language == "table":
                entries = re.findall(component.calls, source, re.MULTILINE)
                printed = (Message(name, _filled(entry.replace('\\"', '"'))) for entry in entries)
            else:
                printed = (Message(name, text, kind=kind) for kind, text in _printed(component, source))
            for message in printed:
                found.setdefault(message.text, message)
    return list(found.values())


def python_messages(component: Component, name: str, source: str) -> Iterator[Message]:
    """What a Python source raises, asserts and logs through a call whose dotted name `calls` matches; its last word is
    the kind of what is logged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        try:
            tree = ast.parse(source)
        except SyntaxError:
            return
    for node in ast.walk(tree):
        kind = ""
        if isinstance(node, ast.Raise) and (made := _made(node.exc)) is not None and made.args:
            made_of = ast.unparse(made.func).rpartition(".")[2]
            place = "" if hasattr(builtins, made_of) else f"{name.partition('/')[0]}."
            text, raised = f"{place}{made_of}: {_worded(made.args[0])}", _worded(made.args[0])
        elif isinstance(node, ast.Assert) and node.msg is not None:
            raised = _worded(node.msg)
            text = f"AssertionError: {raised}"
        elif isinstance(node, ast.Call) and node.args and re.search(component.calls, ast.unparse(node.func)):
            text, raised = _worded(node.args[0]), ""
            kind = ast.unparse(node.func).rpartition(".")[2]
        else:
            continue
        if len(re.sub(r"[^A-Za-z]|word", "", raised or text)) >= _FEWEST_LETTERS:
            yield Message(name, " ".join(text.split()), raised=bool(raised), kind=kind)


def _made(raised: ast.expr | None) -> ast.Call | None:
    """The call that makes what is raised; a traceback that is put on it makes nothing."""
    if isinstance(raised, ast.Call) and isinstance(raised.func, ast.Attribute) and raised.func.attr == "with_traceback":
        raised = raised.func.value
    return raised if isinstance(raised, ast.Call) else None


def _worded(value: ast.expr) -> str:
    """The text of an expression, its gaps filled; empty where it holds no string."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return _FILLED_IN.sub(_filling, value.value).replace("%%", "%")
    if isinstance(value, ast.JoinedStr):
        return "".join(
            _worded(part) if isinstance(part, ast.Constant) else "7" if _A_NUMBER.search(ast.unparse(part)) else "word"
            for part in value.values
        )
    if isinstance(value, ast.BinOp):
        if isinstance(value.op, ast.Mod):
            return _worded(value.left)
        left, right = _worded(value.left), _worded(value.right)
        return (left or "word") + (right or "word") if left or right else ""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in ("format", "join"):
        return _worded(value.func.value)
    if isinstance(value, ast.Call) and value.args:
        return _worded(value.args[0])
    return ""


def _printed(component: Component, source: str) -> Iterator[tuple[str, str]]:
    for pattern, end in ((component.calls, ")"), (component.streams, ";")):
        for call in re.finditer(pattern, source) if pattern else ():
            if _IN_A_COMMENT.match(source, source.rfind("\n", 0, call.start()) + 1):
                continue
            arguments = _arguments(source[call.end() : call.end() + _MOST_CHARACTERS], end, component.language)
            text = _first_text(arguments, component.language)
            if len(re.sub(r"[^A-Za-z]", "", text)) >= _FEWEST_LETTERS:
                yield call.groupdict().get("kind") or "", text


def _arguments(source: str, end: str, language: str) -> str:
    """The source up to the end of a call or a statement; what its strings hold ends nothing."""
    depth, at = 1, 0
    while at < len(source):
        string = STRINGS[language].match(source, at)
        if string:
            at = string.end()
            continue
        character = source[at]
        depth += (character in "([{") - (character in ")]}")
        if (character == ")" and depth == 0 and end == ")") or (character == ";" and end == ";"):
            return source[:at]
        at += 1
    return source


def _first_text(arguments: str, language: str) -> str:
    """The first message among the arguments of a call, its parts joined and its gaps filled."""
    arguments = STRINGS[language].sub(lambda match: match[0].replace("//", "/\x01/"), arguments)
    arguments = _COMMENT.sub(" ", arguments).replace("/\x01/", "//")
    parts: list[str] = []
    at = None
    for match in STRINGS[language].finditer(arguments):
        if at is not None:
            between = arguments[at : match.start()]
            if not _JOINS[language].fullmatch(between):
                break
            if between.strip(" \n\t\\+<") or (language == "go" and "+" in between):
                parts.append("\x00")
        parts.append(match[0][1:-1])
        at = match.end()
    text = re.sub(r"\\(?:[nrt]|\n\s*)", " ", "".join(parts)).replace('\\"', '"').replace("\\\\", "\\")
    return _filled(text)


def _filled(text: str) -> str:
    """A message with its gaps filled."""
    return " ".join(_FILLED_IN.sub(_filling, text).replace("%%", "%").split())


def _filling(gap: re.Match[str]) -> str:
    kind = gap["kind"]
    if kind and kind in "diuoxXfgeE":
        return "7" + (gap["kernel"] or "")
    if kind == "p":
        return "0x7f00"
    return "word" + ((gap["kernel"] or "") if kind != "p" else "")


def printed_line(component: Component, message: Message) -> Line:
    """A message as it stands in a log."""
    place = f"{message.file}: {message.kind}" if message.kind else message.file
    line = next((line for pattern, line in component.lines.items() if re.search(pattern, place)), component.line)
    line = line.replace("PATH", message.file).replace("FILE", message.file.rpartition("/")[2])
    status = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", message.kind).upper()
    line = line.replace("STATUS", status).replace("KIND", message.kind)
    return parse_line(message.text if message.raised else line.replace("MESSAGE", message.text))


def judged(book: RuleBook, component: Component, message: Message) -> str:
    """What a message is taken for: a rule's role, `general`, a reason why it is left out, or `open`."""
    printed = printed_line(component, message)
    finding = book.confirm_all(printed)
    if finding is not None and finding.rule not in component.general and not finding.rule.startswith(_SPEAKERS):
        return finding.role.value
    if finding is None and book.knows(printed):
        return "harmless"
    for why, patterns in component.left_out.items():
        if any(re.search(pattern, f"{message.file}: {message.text}") for pattern in patterns):
            return f"left out: {why}"
    return "general" if finding is not None else "open"


def report(name: str, component: Component, verdicts: Sequence[str]) -> dict[str, Any]:
    """The row of a component: how many messages, how many the rules know, what is left out and why."""
    counts = Counter(verdicts)
    left = {verdict.partition(": ")[2]: count for verdict, count in counts.items() if verdict.startswith("left out")}
    known = {verdict: count for verdict, count in counts.items() if verdict in ("cause", "symptom", "hint", "harmless")}
    known |= {verdict: count for verdict, count in counts.items() if verdict in ("finished", "retry", "structure")}
    asked = len(verdicts) - sum(left.values())
    return {
        "component": name,
        "source": component.source,
        "version": component.version,
        "messages": len(verdicts),
        "classified": sum(known.values()),
        "roles": dict(sorted(known.items())),
        "only_by_speaker": counts["general"],
        "open": counts["open"],
        "left_out": dict(sorted(left.items())),
        "share": round(100 * sum(known.values()) / asked, 1) if asked else 100.0,
    }


def kept() -> dict[str, Any]:
    """What was measured of the catalogues until now: coverage, gain, the second reading."""
    results: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return results


def keep(name: str, value: object) -> None:
    """Puts one measurement into the results."""
    RESULTS.write_text(json.dumps(kept() | {name: value}, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def write(row: dict[str, Any]) -> None:
    """Puts a component's row into the results, in the place of its last one, and into the page's table."""
    rows = [*(item for item in kept()["coverage"] if item["component"] != row["component"]), row]
    rows.sort(key=lambda item: str(item["component"]))
    keep("coverage", rows)
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_TABLE_OF_PAGE.sub(lambda _: coverage(rows), page, count=1), encoding="utf-8")


def coverage(rows: Sequence[Mapping[str, Any]]) -> str:
    """The page's table of all components."""
    lines = ["| component | version | messages | known | by speaker | left out | open | share, % |"]
    lines.append("| --- " * 8 + "|")
    sums = [0] * 5
    for row in rows:
        left = sum(row["left_out"].values())
        counts = [row["messages"], row["classified"], row["only_by_speaker"], left, row["open"]]
        sums = [total + count for total, count in zip(sums, counts, strict=True)]
        cells = [row["component"], row["version"], *(f"{count:,}" for count in counts), str(row["share"])]
        lines.append(f"| {' | '.join(cells)} |")
    lines.append(f"| all | | {' | '.join(f'{total:,}' for total in sums)} | |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Reads a checkout and says what is known of its messages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    table = components()
    parser.add_argument("component", choices=sorted(table))
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--open", action="store_true", help="print what no rule knows")
    parser.add_argument("--list", action="store_true", help="print every message")
    parser.add_argument("--write", action="store_true", help="keep the counts")
    asked = parser.parse_args()
    component, book = table[asked.component], RuleBook.load()
    found = messages(component, asked.checkout)
    verdicts = [judged(book, component, message) for message in found]
    for message, verdict in zip(found, verdicts, strict=True):
        if asked.list or (asked.open and verdict in ("open", "general")):
            print(f"{verdict}\t{message.file}\t{message.text}")
    row = report(asked.component, component, verdicts)
    if asked.write:
        write(row)
    print(json.dumps(row))


if __name__ == "__main__":
    main()
