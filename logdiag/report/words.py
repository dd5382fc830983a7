"""Words and numbers that all readable forms share, and the cleaning of log text."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from logdiag.judge.verdict import SURE
from logdiag.model import Candidate, Change, Diagnosis, Ended, Log, Place, RankInGroup, Reason, Recovery, Suspect
from logdiag.model.plain import rank_ranges
from logdiag.patterns import pattern_of
from logdiag.read.prefixes import parse_line

# Control, format (hidden or direction-turning), surrogate and unassigned characters, and separators of lines.
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_LONGEST = 400
# More logs of one kind are counted, not named.
_MOST_LOGS_NAMED = 3
# Below this a share would be printed as 0 %.
_LEAST_SHARE = 0.005
# Ranks of a collective that stood alike share a line: the most lines printed, and the most frames of a call.
_MOST_STANDINGS, _MOST_FRAMES = 4, 3
# torch.AcceleratorError: CUDA error: ...   exited with exit code 1   [Rank 2] Watchdog caught collective timeout
TELLING = pattern_of(
    r"(?i)\b(?:\w*error|\w*exception|fail(?:ed|ure|s)?|fatal|abort(?:ed|ing)?|kill(?:ed)?|traceback|"
    r"s?xid|time[d-]? ?-?out|refused|denied|rejected|lost|unreachable|panic|segfault|oom|out of memory|no space|"
    r"cannot|unable|terminated|signal|exit(?:ed)?|corrupt\w*|invalid|mismatch|missing|not found|nan|"
    r"unhealthy|uncorrectable|reset)\b"
)
"""Words of trouble, such as a person would search a log for."""
# srun: error: node-3: task 2: Exited with exit code 137   exited on signal 9 (Killed)
_STATUS = pattern_of(
    r"(?i)\b(?:exit(?:ed)?[ _-]?(?:code|status)?|return(?:ed)?[ _-]?code|signal|status)\b[ :=(]{1,3}-?\d{1,3}\b"
)


def clean(text: str, longest: int = _LONGEST) -> str:
    """Log text that cannot steer a terminal: controls made visible, tabs as spaces, cut at `longest` characters."""
    expanded = text[: longest * 2].replace("\t", "    ")
    shown = expanded if expanded.isascii() and expanded.isprintable() else "".join(map(_visible, expanded))
    return shown if len(shown) <= longest else shown[: longest - 1] + "\u2026"


def _visible(character: str) -> str:
    if unicodedata.category(character) not in _UNSAFE_CATEGORIES:
        return character
    return f"\\x{ord(character):02x}"


def cut(text: str, width: int) -> str:
    """Cuts cleaned log text to `width` characters around a status or a word of trouble, else the message's start."""
    if len(text) <= width or width < 3:
        return text[: max(width, 1)]
    trouble = _STATUS.search(text) or TELLING.search(text)
    focus = trouble.start() if trouble else parse_line(text).starts[-1]
    # Most of the width goes to the text behind it, which says what happened.
    start = min(max(0, focus - width // 8), len(text) - width + 1)
    before, after = "\u2026" * bool(start), "\u2026" * (start + width <= len(text))
    return before + text[start + len(before) : start + width - len(after)] + after


def standing_words(diagnosis: Diagnosis) -> list[str]:
    """Returns lines that say where the ranks of a hung collective stood, one for all ranks that stood alike. The ranks
    to look at come first, with the place in the program of their last call."""
    table = diagnosis.collectives
    if table is None:
        return []
    alike: dict[tuple[bool, str, int | None, str], list[RankInGroup]] = {}
    for row in table.rows:
        key = row.rank not in table.ranks, row.standing, row.sequence, f"{row.operation} {row.sizes}".strip()
        alike.setdefault(key, []).append(row)
    words = []
    for (_, standing, sequence, call), rows in sorted(alike.items(), key=lambda item: (item[0][0], -len(item[1]))):
        last = "" if sequence is None else f", {'last ' * (standing in ('behind', 'silent'))}{sequence} {call}".rstrip()
        frames = rows[0].stack[:_MOST_FRAMES] if rows[0].rank in table.ranks else ()
        stack = f", at {clean(' < '.join(frames))}" if frames else ""
        words.append(f"{rank_words(tuple(row.rank for row in rows))}: {standing}{clean(last)}{stack}")
    more = len(words) - _MOST_STANDINGS
    return words if more <= 0 else [*words[:_MOST_STANDINGS], f"and {more} more ways to stand (--format json has all)"]


def rank_words(ranks: tuple[int, ...]) -> str:
    """`rank 3`, `ranks 0-4, 6`, empty for none."""
    return f"rank{'s' if len(ranks) > 1 else ''} {rank_ranges(ranks)}" if ranks else ""


def headline(diagnosis: Diagnosis) -> str:
    """Whether the job failed, did not, or it is not known; the reason and the confidence."""
    sure = f"confidence {diagnosis.confidence:.0%}"
    if diagnosis.failed:
        return f"FAILED  {diagnosis.category.value} / {diagnosis.reason.value}  {sure}"
    if diagnosis.failed is None and diagnosis.root_cause and all(log.whose == "machine" for log in diagnosis.logs):
        return f"NO JOB'S LOG  {diagnosis.category.value} / {diagnosis.reason.value}  {sure}"
    if diagnosis.failed is None:
        return "NOT KNOWN  the log does not tell"
    if diagnosis.confidence < SURE:
        return f"NO FAILURE KNOWN, NOT SURE  {sure}"
    return f"NO FAILURE{' SEEN, LOG STOPS' if _stops(diagnosis) else ''}  {sure}"


def _stops(diagnosis: Diagnosis) -> bool:
    """Whether the log shows neither a failure nor an end."""
    return diagnosis.failed is False and diagnosis.ended is Ended.STOPS


def advice(diagnosis: Diagnosis) -> str:
    """Advises a reader whose log shows neither a failure nor a clean exit; empty otherwise."""
    known = diagnosis.failed or not (diagnosis.failed is None or _stops(diagnosis))
    return "" if known else "If you know how the job ended, say so with --exit-code-of-job N."


def suspects_of(diagnosis: Diagnosis) -> tuple[Suspect, ...]:
    """The suspicious lines that a reader should see: those of an answer that is not sure."""
    return diagnosis.suspects if diagnosis.failed is None or diagnosis.confidence < SURE else ()


def likely(diagnosis: Diagnosis) -> tuple[Candidate, ...]:
    """The other possible reasons that are worth a mention: those of 0.5 % and more."""
    named = (item for item in diagnosis.candidates if item.reason is not Reason.OTHERS)
    return tuple(item for item in named if item.confidence >= _LEAST_SHARE)


def change_words(change: Change) -> str:
    """How a line differs from a good run: `new`, `new, 12x`, `6.5 times as often, 120x`."""
    difference = "new" if change.times_more is None else f"{change.times_more:g} times as often"
    return f"{difference}, {change.count:,}x" if change.count > 1 else difference


def where(shown: Place | None) -> str:
    """`file:line`; empty for None."""
    return f"{clean(shown.source)}:{shown.line}" if shown else ""


def logs_words(diagnosis: Diagnosis) -> str:
    """Says of what kind the logs are, where they are not all a job's own output: `rank output of 8 logs, kernel log of
    node-3 (dmesg.txt)`; empty where they are."""
    if all(log.whose == "job" for log in diagnosis.logs):
        return ""
    kinds: dict[str, list[Log]] = {}
    for log in diagnosis.logs:
        kinds.setdefault(log.kind, []).append(log)
    return ", ".join(_kind_words(kind, logs) for kind, logs in kinds.items())


def _kind_words(kind: str, logs: Sequence[Log]) -> str:
    name = kind.replace("-", " ")
    if len(logs) > _MOST_LOGS_NAMED:
        return f"{name} ({len(logs)} files)"
    node = f" of {clean(logs[0].node)}" if len(logs) == 1 and logs[0].node else ""
    return f"{name}{node} ({', '.join(clean(log.source) for log in logs)})"


def times_words(diagnosis: Diagnosis) -> str:
    """The times in words: `last step 198 at 03:06:38, first failure at 03:08:14, the log ends 10 min after ...`."""
    times = diagnosis.times
    if times is None:
        return ""
    parts = []
    together = times.last_progress_at is not None and times.last_progress_at == times.first_failure_at
    if times.last_step is not None or times.last_progress_at:
        step = f"last step {times.last_step}" if times.last_step is not None else "last step"
        when = f" at {clean(times.last_progress_at)}" if times.last_progress_at else ""
        parts.append(f"{step} and first failure{when}" if together else step + when)
    if times.first_failure_at and not together:
        parts.append(f"first failure at {clean(times.first_failure_at)}")
    if times.idle_seconds and times.idle_seconds >= 1:
        since = "last step" if times.last_progress_at else "first failure"
        parts.append(f"the log ends {_duration(times.idle_seconds)} after the {since}")
    return ", ".join(parts)


def lost_words(diagnosis: Diagnosis) -> str:
    """Says how much work is lost: `73 steps since the checkpoint of step 125, 12 min of 8 ranks (1.6 GPU-hours)`."""
    progress = diagnosis.progress
    if progress is None or not diagnosis.failed:
        return ""
    if progress.checkpoint is None:
        return "no checkpoint was completed"
    at = progress.checkpoint.step
    step = "the last checkpoint" if at is None else f"the checkpoint of step {at}"
    lost = f"{progress.steps_lost} steps" if progress.steps_lost is not None else "the work"
    time = f", {_duration(progress.seconds_lost)}" if progress.seconds_lost else ""
    of_several = progress.gpu_hours_lost and progress.ranks != 1
    hours = f" of {progress.ranks} ranks ({progress.gpu_hours_lost:g} GPU-hours)" if of_several else ""
    begun = progress.unfinished
    cut = f"; a later one was begun and not finished ({clean(begun.source)}:{begun.line})" if begun else ""
    return f"{lost} since {step}{time}{hours}{cut}"


def _duration(seconds: float) -> str:
    """`42 s`, `11 min 36 s`, `3 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def action_words(recovery: Recovery) -> str:
    """The action, whether it needs a person, and which nodes to leave out."""
    unsure = "advice, for it is not sure: needs a person" if recovery.action.automatic else "needs a person"
    needs = "no person needed" if recovery.automatic else unsure
    without = f", without {', '.join(clean(node) for node in recovery.exclude_nodes)}" if recovery.exclude_nodes else ""
    return f"{recovery.action.value} ({needs}){without}"


def one_line(diagnosis: Diagnosis) -> str:
    """The verdict, what to do and where, in one line."""
    if not diagnosis.failed:
        return headline(diagnosis).replace("  ", ": ", 1)
    root_line = where(diagnosis.root_cause)
    verdict = f"FAILED: {diagnosis.reason.value} {diagnosis.confidence:.0%}; {action_words(diagnosis.recovery)}"
    return f"{verdict}; {root_line}" if root_line else verdict


def job_line(diagnosis: Diagnosis) -> str:
    """One of many jobs: its name, the reason, how sure, and the rank, node and line of the root."""
    name, root = clean(diagnosis.source), diagnosis.root_cause
    if not diagnosis.failed:
        return f"{name}: {headline(diagnosis).replace('  ', ', ')}"
    parts = [f"{diagnosis.reason.value} {diagnosis.confidence:.0%}"]
    if root:
        parts += [f"rank {root.rank}"] if root.rank is not None else []
        parts += [clean(root.node)] if root.node else []
        parts.append(f"line {root.line}" if root.source == diagnosis.source else where(root))
    return f"{name}: {', '.join(parts)}"


def amount(diagnosis: Diagnosis) -> str:
    """How much was read, how fast, and how much of it was kept."""
    size, lines, kept, seconds = (_figure(diagnosis, name) for name in ("bytes", "lines", "kept_lines", "seconds"))
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    shown = f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
    return f"{lines:,.0f} lines, {shown} read in {seconds:.2f} s; {kept:,.0f} lines worth reading"


def _figure(diagnosis: Diagnosis, name: str) -> float:
    """One of the answer's statistics; an answer that was read from JSON may lack it, or hold anything there."""
    value = diagnosis.stats.get(name)
    return float(value) if isinstance(value, (int, float)) else 0.0
