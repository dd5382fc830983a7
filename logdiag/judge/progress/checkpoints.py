"""What of the job's work is saved and what is lost: the last complete checkpoint, and what came after it."""

from __future__ import annotations

from collections.abc import Iterable

from logdiag.judge.merge.clocks import Clocks
from logdiag.judge.progress.times import seconds_to_end
from logdiag.model import Checkpoint, Line, Progress, Times
from logdiag.patterns import pattern_of
from logdiag.rules import RuleBook
from logdiag.scan.steps import step_number
from logdiag.scan.survey import Survey

# checkpoints/step-0500.pt   /ckpt/global_step500   /out/checkpoint-500   iter_0000500   (epoch 4 @ 500 updates)
_STEP = pattern_of(
    r"(?i)(?:step|iteration|iter|checkpoint|ckpt)s?[\"']?[ _=:-]{0,10}(\d{1,9})(?![\d.]*\d)|@ (\d{1,9}) updates\b"
)
# world_size=64   World size: 64   comm 0x55d0 rank 3 nranks 64 cudaDev 3   rank 1 of 64
_WORLD = pattern_of(r"(?i)\b(?:world[_ ]?size|nranks)\b[\"']?[ :=]{1,4}(\d{1,6})\b|\brank \d{1,6} of (\d{1,6})\b")
_MOST_RANKS = 200_000


def progress_of(
    survey: Survey, book: RuleBook, times: Times | None, root: Line | None, clocks: Clocks
) -> Progress | None:
    """What is saved and what is lost of the job's work, as far as its logs show it; None if they name no checkpoint."""
    if not survey.checkpoints:
        return None
    complete, cut_off = _latest_checkpoints(survey, book)
    kept = _checkpoint(complete, survey) if complete else None
    ranks = _ranks(survey)
    seconds = seconds_to_end(complete, root, survey, clocks) if complete else None
    last_step = times.last_step if times else None
    steps = last_step - kept.step if kept and kept.step is not None and last_step is not None else None
    return Progress(
        checkpoint=kept,
        unfinished=_checkpoint(cut_off, survey) if cut_off else None,
        steps_lost=steps if steps is not None and steps >= 0 else None,
        seconds_lost=seconds,
        ranks=ranks,
        gpu_hours_lost=round(seconds * ranks / 3600, 2) if seconds is not None and ranks else None,
    )


def _latest_checkpoints(survey: Survey, book: RuleBook) -> tuple[Line | None, Line | None]:
    """The line of the last complete checkpoint, and of one that was begun after it; None for none."""
    kinds_by_line = list(zip(survey.checkpoints, book.kinds_of(survey.checkpoints), strict=True))
    saved = [line for line, kinds in kinds_by_line if "checkpoint-saved" in kinds]
    loaded = [line for line, kinds in kinds_by_line if "checkpoint-loaded" in kinds]
    begun = [line for line, kinds in kinds_by_line if "checkpoint-begun" in kinds and line not in saved]
    # If the job never reports one as complete, a step after its begin shows that it is.
    complete = _latest([*(saved or (line for line in begun if _worked_on(line, survey))), *loaded])
    last_begun = _latest(begun)
    cut_off = last_begun if last_begun and (complete is None or _order(last_begun) > _order(complete)) else None
    return complete, cut_off


def _order(line: Line) -> tuple[float, int]:
    return line.time or 0.0, line.position


def _latest(lines: Iterable[Line]) -> Line | None:
    return max(lines, key=_order, default=None)


def _worked_on(line: Line, survey: Survey) -> bool:
    """Whether the process that printed a line made a step after it."""
    return any(step.stream == line.stream and step.position > line.position for step in survey.progress)


def _checkpoint(line: Line, survey: Survey) -> Checkpoint:
    """A checkpoint with the step that its line names, or else the last one before it."""
    named = _STEP.search(line.message)
    before = [step for step in survey.progress if step.stream == line.stream and step.position <= line.position]
    step = int(named[1] or named[2]) if named else step_number(_latest(before) or line)
    return Checkpoint(line.source, line.number, line.text, step, line.clock)


def _ranks(survey: Survey) -> int | None:
    """How many processes the job had: the number that its log names, else by the ranks that printed; else None."""
    named = (int(match[1] or match[2]) for line in survey.lines for match in _WORLD.finditer(line.text))
    printing = {line.rank for line in survey.lines if line.rank is not None}
    ranks = max((number for number in named if number < _MOST_RANKS), default=max(printing, default=0) + 1)
    return ranks if ranks > 1 or printing else None
