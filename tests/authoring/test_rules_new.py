"""`logdiag rules new`: the first draft of a rule from one line."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.helpers import run_logdiag

LINE = "2026-11-23 10:00:01 ERROR [rank3] shardd: LKV-204 feed 7 gave no shard after 3 tries at /data/run7/part"


def test_a_draft_is_a_valid_rule_that_fires_on_its_line(tmp_path: Path) -> None:
    """Numbers and paths may vary, `rules test` has nothing to say, and a second draft of the line is not written."""
    done = run_logdiag("rules", "new", LINE, "--reason", "DatasetLoadingError", "--rules", tmp_path)
    file = Path(done.stdout.decode().strip())
    assert file.is_relative_to(tmp_path)
    rule = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert rule["reason"] == "DatasetLoadingError"
    assert rule["examples"]["fires"] == [LINE]
    tested = run_logdiag("rules", "test", tmp_path)
    assert tested.stdout.decode().strip() == "1 rules, 0 filters, 1 examples, 0 problems"
    other = "shardd: LKV-981 feed 12 gave no shard after 40 tries at /mnt/x"
    why = run_logdiag("rules", "why", "--rules", tmp_path, other).stdout.decode()
    assert f"* {file.relative_to(tmp_path).with_suffix('')}" in why


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "OutOfMemoryError"),
        ("the dataset's index is corrupt, cannot read sample", "DatasetLoadingError"),
    ],
)
def test_the_reason_is_guessed(line: str, reason: str) -> None:
    """By the rule that fires on the line today, else by its meaning; without --rules the file is printed."""
    text = run_logdiag("rules", "new", line).stdout.decode()
    assert yaml.safe_load(text)["reason"] == reason


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["12 34"], "give the whole line"), ([LINE, "--reason", "Gremlins"], "'Gremlins' is not one of")],
)
def test_what_cannot_become_a_rule_is_refused(arguments: list[str], said: str) -> None:
    """In one sentence with a remedy."""
    done = run_logdiag("rules", "new", *arguments)
    assert done.returncode == 2
    assert said in done.stderr.decode()
