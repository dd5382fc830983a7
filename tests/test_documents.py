"""The pages say what the program does: options, commands, paths, examples and figures are held to it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from logdiag import diagnose, render
from logdiag.cli.main import commands
from logdiag.read.prefixes import parse_line
from logdiag.rules import RuleBook

ROOT = Path(__file__).parents[1]
PAGES = (
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "rules/README.md",
    "evals/README.md",
    *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))),
)
# ```json   ```
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
# `logdiag explain LOG`
_QUOTED = re.compile(r"`([^`\n]+)`")
# [ARCHITECTURE.md](ARCHITECTURE.md)
_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
# rules/context/kinds/   logdiag/judge/root.py
_PATH = re.compile(r"(?:logdiag|rules|tests|docs|evals|corpus)/[\w./-]*")
_OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def fences(name: str, language: str) -> list[str]:
    return [body for kind, body in _FENCE.findall(page(name)) if kind == language]


def quoted_commands(name: str) -> Iterator[str]:
    """All commands of logdiag on a page, without comments and redirections."""
    rows = [row for body in fences(name, "") for row in body.splitlines()]
    for text in [*rows, *_QUOTED.findall(_FENCE.sub("", page(name)))]:
        found = re.search(r"(?:^|[|=] ?|\.venv/bin/)(logdiag(?: .*)?)$", text.split("  #")[0].strip())
        if found:
            yield found[1]


def options_of(command: click.Command) -> set[str]:
    names = {name for item in command.get_params(click.Context(command)) for name in [*item.opts, *item.secondary_opts]}
    return {name for name in names if name.startswith("-")}


def problems_of(words: list[str]) -> Iterator[str]:
    """What the program does not know of a command that a page names."""
    context = click.Context(commands)
    words = words[: words.index("--")] if "--" in words else words  # what `logdiag run` runs
    command: click.Command | None = commands.get_command(context, "diagnose")
    top: click.Command = commands
    if words and words[0] in commands.list_commands(context):
        command = top = commands.get_command(context, words.pop(0)) or commands
    elif words and re.fullmatch(r"[a-z]+", words[0]):
        yield f"no command {words[0]}"
    if isinstance(top, click.Group) and top is not commands and words:
        names = words.pop(0).split("|")
        yield from (f"no command {top.name} {name}" for name in names if name not in top.commands)
        command = top.commands.get(names[0])
    known = (options_of(command) if command else set()) | options_of(commands)
    yield from (f"no option {word}" for word in words if _OPTION.fullmatch(word) and word not in known)


@pytest.mark.parametrize("name", PAGES)
def test_every_command_that_a_page_names_exists(name: str) -> None:
    """Each `logdiag ...` names a command of the program, and options of that command."""
    wrong = {text: found for text in quoted_commands(name) if (found := list(problems_of(shlex.split(text)[1:])))}
    assert not wrong


def test_a_command_that_does_not_exist_is_found() -> None:
    """What holds the pages to the program sees a wrong command, subcommand and option."""
    assert list(problems_of(["diagnoze", "job.log"])) == ["no command diagnoze"]
    assert list(problems_of(["rules", "prove"])) == ["no command rules prove"]
    assert list(problems_of(["job.log", "--fast"])) == ["no option --fast"]


def test_the_table_of_options_is_that_of_the_help() -> None:
    """The table of docs/command.md has each option of `logdiag` and of `logdiag diagnose`, and no other."""
    section = page("docs/command.md").split("## Options")[1].split("\n## ")[0]
    rows = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
    table = {option for row in rows for option in _OPTION.findall(row)}
    diagnosis = commands.get_command(click.Context(commands), "diagnose")
    assert diagnosis is not None
    assert table == options_of(diagnosis) | options_of(commands) | {"-h", "--help"}


@pytest.mark.parametrize("name", PAGES)
def test_every_path_that_a_page_names_exists(name: str) -> None:
    """Links lead somewhere, and files and folders of the repository that a page names are there."""
    text = page(name)
    links = {link for link in _LINK.findall(text) if not ((ROOT / name).parent / link).exists()}
    named = {path for quoted in _QUOTED.findall(_FENCE.sub("", text)) if (path := _PATH.fullmatch(quoted))}
    assert not links | {path[0] for path in named if not (ROOT / path[0]).exists()}


def test_every_target_of_make_that_a_page_names_exists() -> None:
    """`make X` on a page is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z]+):", page("Makefile"), re.MULTILINE))
    named = {(name, word) for name in PAGES for word in re.findall(r"(?:^|`)make ([a-z]+)", page(name), re.MULTILINE)}
    assert {(name, word) for name, word in named if word not in targets} == set()


def test_every_name_in_the_table_of_changes_exists() -> None:
    """A name that ARCHITECTURE.md puts into a file (`RECOVERED`, ...) stands in that file."""
    found = re.findall(r"`(\w+)` in `(logdiag/[\w/]+\.py)`", page("ARCHITECTURE.md"))
    assert len(found) >= 6
    assert [(word, path) for word, path in found if not re.search(rf"\b{word}\b", page(path))] == []


def test_the_example_of_json_is_the_programs_answer(monkeypatch: pytest.MonkeyPatch, book: RuleBook) -> None:
    """Each key of the JSON in docs/command.md, the confidence too, is what the program answers for that log."""
    monkeypatch.chdir(ROOT)
    example = json.loads(fences("docs/command.md", "json")[0])
    answer = json.loads(diagnose(example["source"], rules=book, memory=False).to_json())
    assert example.keys() >= {"schema", "failed", "reason", "confidence", "root_cause", "recovery"}
    assert part_of(answer, example) == example


def test_the_example_of_the_report_is_the_programs_report(monkeypatch: pytest.MonkeyPatch, book: RuleBook) -> None:
    """Each line of README's report stands in what the program prints for that log."""
    monkeypatch.chdir(ROOT)
    example = next(body for body in fences("README.md", "") if body.startswith("FAILED"))
    report = render(diagnose("tests/data/logs/demo.log", rules=book, memory=False)).splitlines()
    assert [line for line in example.splitlines() if line.strip() not in ("", "...") and line not in report] == []


def part_of(answer: dict[str, Any], example: dict[str, Any]) -> dict[str, Any]:
    """The answer with no more keys than the example has."""
    return {
        key: part_of(answer[key], value) if isinstance(value, dict) else answer[key] for key, value in example.items()
    }


def test_the_figures_in_the_readme_are_the_measured_ones() -> None:
    """README's table of accuracy is that of evals/results/cases.json, to the digit."""
    metrics = json.loads(page("evals/results/cases.json"))["metrics"]
    rows = dict(re.findall(r"^\| ([a-z ]+) \| ([\d.]+) % \|", page("README.md"), re.MULTILINE))
    assert rows == {
        "reason right": f"{metrics['reason_accuracy']:.1%}"[:-1],
        "root line right": f"{metrics['root_line_hit']:.1%}"[:-1],
        "first failing rank right": f"{metrics['first_rank_hit']:.1%}"[:-1],
        "action right": f"{metrics['action_accuracy']:.1%}"[:-1],
        "false alarms on healthy jobs": f"{metrics['false_alarm_rate']:.1%}"[:-1],
    }


def test_the_figures_of_both_halves_are_the_measured_ones() -> None:
    """The columns of the committed cases in evals/README.md are those of evals/results/cases.json, to the digit."""
    splits = json.loads(page("evals/results/cases.json"))["by_split"]
    rows = re.findall(r"^\| ([a-z ]+) \| ([\d.]+) \| ([\d.]+) \|", page("evals/README.md"), re.MULTILINE)
    names = {
        "reason right": "reason_accuracy",
        "root line right": "root_line_hit",
        "first failing rank right": "first_rank_hit",
        "action right": "action_accuracy",
        "false alarms on healthy jobs": "false_alarm_rate",
        "confident errors": "confident_error_rate",
    }
    shown = {name: (float(one), float(other)) for name, one, other in rows if name in names}
    measured = {
        name: tuple(round(100 * splits[half][key], 1) for half in ("dev", "heldback")) for name, key in names.items()
    }
    assert shown == measured


def test_the_minimal_rule_is_a_rule(tmp_path: Path) -> None:
    """The six lines that rules/README.md begins with can be loaded, and find their line."""
    text = fences("rules/README.md", "yaml")[0]
    assert len(text.splitlines()) == 6
    rule = yaml.safe_load(text)
    file = tmp_path / "feed" / "empty.yaml"
    file.parent.mkdir()
    file.write_text(text, encoding="utf-8")
    finding = RuleBook.load([tmp_path]).confirm_all(
        parse_line(rule["examples"]["fires"][0], source="job.log", number=1)
    )
    assert finding is not None
    assert (finding.rule, finding.reason.value) == ("feed/empty", rule["reason"])


def test_the_readme_is_short_enough_to_be_read() -> None:
    """README.md has at most 100 lines, and the first answer stands in the first 20."""
    lines = page("README.md").splitlines()
    assert len(lines) <= 100
    assert any(line.startswith("FAILED ") for line in lines[:20])


def test_architecture_is_short_enough_to_be_read() -> None:
    """ARCHITECTURE.md has at most 150 lines, and at least 20 rows of "where do I change X"."""
    text = page("ARCHITECTURE.md")
    assert len(text.splitlines()) <= 150
    assert len(re.findall(r"^\| .* \| .*`logdiag|^\| .* \| .*`rules", text, re.MULTILINE)) >= 20
