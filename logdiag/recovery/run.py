"""`logdiag run`: starts a job, watches it, and on a failure diagnoses, decides and starts it again. What must outlive
logdiag goes into the ledger first."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

from logdiag.errors import LogdiagError
from logdiag.model import Action, Diagnosis, Reason
from logdiag.recovery.checkpoints import SavedCheckpoint, checkpoints_in, newest
from logdiag.recovery.child import Child, end_all
from logdiag.recovery.launch import Launcher
from logdiag.recovery.ledger import Ledger, Rollback
from logdiag.recovery.notices import Notice, Notifier
from logdiag.recovery.policy import Choice, Failure, Policy, failure_of
from logdiag.recovery.watch import Alarm, Watch
from logdiag.rules import RuleBook

_TICK = 0.1
# Signals that end a job, those of them that a person sends, and signals that only inform it.
_ENDING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
_BY_A_PERSON = ("SIGINT", "SIGQUIT")
_INFORMING = ("SIGUSR1", "SIGUSR2", "SIGWINCH")


@dataclass(frozen=True, slots=True)
class Setup:
    """What a job is run with. `diagnosed` gives the answer for a log and an exit status (None where the job was ended
    from here), `say` tells the user a sentence, `show` prints the whole answer."""

    launcher: Launcher
    policy: Policy
    book: RuleBook
    ledger: Ledger
    notifier: Notifier
    checkpoint_dir: str | None
    diagnosed: Callable[[str, int | None], Diagnosis]
    say: Callable[[str], None]
    show: Callable[[Diagnosis], None]

    def checkpoints(self) -> list[SavedCheckpoint]:
        """Those that are there now, the furthest last."""
        return checkpoints_in(self.checkpoint_dir) if self.checkpoint_dir else []


@dataclass(frozen=True, slots=True)
class _Ended:
    """How an attempt ended."""

    status: int
    alarm: Alarm | None
    watch: Watch
    answer: Diagnosis | None
    start: SavedCheckpoint | None


def run_job(setup: Setup) -> int:
    """Runs the job until it is done, left to a person, or ended by a signal. Returns the exit status of the last
    attempt, 128 plus the signal's number where one ended it."""
    with _Signals() as signals:
        _take_over(setup)
        status = 0
        while not signals.ended_by:
            ended = _attempt(setup, signals)
            status = ended.status if ended.status >= 0 else 128 - ended.status
            if signals.ended_by:
                break
            if status == 0 and ended.alarm is None:
                attempts = setup.ledger.course.attempt
                done = f"the job is done{f', after {attempts} attempts' if attempts > 1 else ''}"
                setup.ledger.add("over", how="done", why=done)
                _tell(setup, Notice("done", done, attempts))
                return 0
            status = status or 1
            choice = _decide(setup, ended)
            if choice.step == "stop":
                return status
            signals.sleep(choice.seconds)
        # A person who ends it is done with it; a scheduler will start the same command again.
        if signals.ended_by in _BY_A_PERSON:
            setup.ledger.add("over", how="ended", why=f"by {signals.ended_by}")
        setup.say(f"ended by {signals.ended_by}; the same command goes on from the last checkpoint")
        return status


def _take_over(setup: Setup) -> None:
    """Goes on with a job whose logdiag was killed. Processes it left running are ended: nobody reads their output."""
    ledger, course = setup.ledger, setup.ledger.course
    if not ledger.begin(setup.launcher.command):
        return
    if course.running:
        left = end_all(course.running)
        setup.say(f"attempt {course.attempt} lost its logdiag; {left} of its processes were ended")
        ledger.add("end", attempt=course.attempt, status=None)
    setup.say(f"going on with {ledger.path}: {course.attempt} attempts, {len(course.failures)} failures so far")


def _attempt(setup: Setup, signals: _Signals) -> _Ended:
    ledger, course = setup.ledger, setup.ledger.course
    number, mark = course.attempt + 1, uuid.uuid4().hex
    checkpoints = setup.checkpoints()
    start = newest(checkpoints, course.distrusted)
    for torn in (item.torn for item in checkpoints if item.torn):
        setup.say(f"not used: {torn}")
    path = start.path if start else ""
    log = os.path.join(ledger.folder, f"attempt-{number}.log")
    words = setup.launcher.words(course, number, path)
    ledger.add("start", attempt=number, mark=mark, checkpoint=path, log=log, command=words, excluded=course.excluded,
               skip=course.skipped)  # fmt: skip
    child = Child(words, setup.launcher.environ(course, number, path, mark), log)
    signals.child = child
    watch = Watch(setup.book, setup.policy, time.monotonic(), course.slowest_start)
    alarm = _follow(setup, child, watch, number)
    status = child.status
    answer = None
    if alarm or status:
        ledger.add("detected", attempt=number, seen=alarm.kind if alarm else "exit", why=alarm.why if alarm else "",
                   status=status, step=watch.step)  # fmt: skip
        # Of an attempt that we ended the exit status proves nothing: it failed after a fault, else that is not known.
        proved = status if alarm is None else 1 if alarm.kind == "fault" else None
        try:
            answer = setup.diagnosed(log, proved)
        except LogdiagError as error:
            setup.say(f"no diagnosis: {error}")
        end_all(mark, child)
    signals.child = None
    child.close()
    for note in child.notes:
        setup.say(note)
    status = child.status or 0
    ledger.add("end", attempt=number, status=status)
    return _Ended(status, alarm, watch, answer, start)


def _follow(setup: Setup, child: Child, watch: Watch, number: int) -> Alarm | None:
    """Follows an attempt to its end; returns None then, or earlier the alarm for which it is to be ended."""
    while child.status is None:
        before = watch.steps
        _look(setup, watch, child.read(_TICK))
        if watch.steps and not before:
            setup.ledger.add("progress", attempt=number, step=watch.step)
        if alarm := watch.alarm(time.monotonic()):
            setup.say(alarm.why)
            return alarm
    for words in child.last_words():
        _look(setup, watch, words)
    return None


def _look(setup: Setup, watch: Watch, printed: bytes) -> None:
    for finding in watch.saw(printed, time.monotonic()):
        setup.say(f"seen: {finding.title} ({finding.rule})")


def _decide(setup: Setup, ended: _Ended) -> Choice:
    ledger, course, checkpoints = setup.ledger, setup.ledger.course, setup.checkpoints()
    failure = _failure(setup, ended, checkpoints)
    node = setup.launcher.can_exclude(failure.node, course.excluded) if failure.node else ""
    saved = max((item.step for item in checkpoints if item.step is not None and not item.torn), default=-1)
    rollback = partial(_rollback, setup.policy, ended, checkpoints)
    choice, failure = ledger.decide(setup.policy, failure, node, course.attempt, saved, rollback)
    where = f" at step {failure.step}" if failure.step is not None else ""
    text = f"attempt {course.attempt} failed{where}: {_reason_words(failure, ended)}; {choice.why}"
    event = "stopped" if choice.step == "stop" else "restarted"
    notice = Notice(event, text, course.attempt, failure.reason.value, failure.node, failure.step)
    if event == "stopped":
        if ended.answer is not None:
            setup.show(ended.answer)
        ledger.add("over", how=event, why=text)
    _tell(setup, notice)
    return choice


def _failure(setup: Setup, ended: _Ended, checkpoints: Sequence[SavedCheckpoint]) -> Failure:
    """Returns the failure for the policy, from the diagnosis and the watch. What the watch measured is known."""
    answer, course = ended.answer, setup.ledger.course
    step = ended.watch.step
    if step is None and answer and answer.times:
        step = answer.times.last_step
    progressed = step is not None and step > course.furthest
    if saved := newest(checkpoints, course.distrusted):
        # Steps may be counted anew in each epoch, or not be printed at all.
        progressed = progressed or (saved != ended.start if saved.step is None else saved.step > course.saved)
    in_log = failure_of(answer, step, progressed=progressed) if answer else None
    unnamed = partial(Failure, reason=Reason.OTHERS, step=step, progressed=progressed)
    if ended.alarm and ended.alarm.kind == "spike":
        return unnamed("spike", advice=Action.ROLLBACK_AND_SKIP, known=True)
    if ended.alarm and ended.alarm.kind == "hang" and not (in_log and in_log.known):
        return unnamed("hang", advice=Action.RESTART, known=True)
    return in_log or unnamed("log", advice=Action.NONE, known=False)


def _rollback(policy: Policy, ended: _Ended, checkpoints: Sequence[SavedCheckpoint], choice: Choice) -> Rollback:
    """Returns the batches to skip, and the checkpoints that may be damaged by them: those after the last good loss, and
    each further time one more before them."""
    watch = ended.watch
    if choice.step != "rollback" or watch.step is None:
        return [], {}
    first = watch.bad[0] if watch.bad else watch.step + 1
    good = watch.good if watch.bad and watch.good is not None else first - 1
    bad_at = watch.bad_at if watch.bad else time.time()

    def is_healthy(item: SavedCheckpoint) -> bool:
        return not item.torn and (item.saved_at < bad_at if item.step is None else item.step <= good)

    healthy = [item for item in checkpoints if is_healthy(item)]
    kept = healthy[: len(healthy) - (choice.times - 1)]
    skip = (max(0, first - policy.skip.before), max(first, watch.step) + policy.skip.after)
    return [skip], {item.path: item.saved_at for item in checkpoints if item not in kept}


def _reason_words(failure: Failure, ended: _Ended) -> str:
    if failure.seen != "log" and ended.alarm:
        return ended.alarm.why
    if not failure.known:
        return "for no reason that is known for sure"
    return f"{failure.reason}{f' on {failure.node}' if failure.node else ''} ({failure.rule})"


def _tell(setup: Setup, notice: Notice) -> None:
    setup.say(notice.text)
    setup.notifier.send(notice)


class _Signals:
    """Passes signals on to the job; `ended_by` is the name of the one that ended it, empty while none did."""

    def __init__(self) -> None:
        self.child: Child | None = None
        self.ended_by = ""
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Signals:
        for number in (signal.Signals[name] for name in (*_ENDING, *_INFORMING)):
            # A shell starts a background command with some signals ignored: leave them so.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._came)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def sleep(self, seconds: float) -> None:
        """Waits so long, or until a signal ends the job."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.ended_by:
            time.sleep(min(_TICK, max(0.0, until - time.monotonic())))

    def _came(self, number: int, _frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        self.ended_by = name if name in _ENDING else self.ended_by
        if self.child is None:
            return
        if name == "SIGWINCH":
            self.child.resize()
        else:
            self.child.signal(number)
