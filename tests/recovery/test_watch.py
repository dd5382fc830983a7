"""What a running job's output tells: steps, hangs, broken machines and spikes, at the seconds that the test says."""

from __future__ import annotations

import pytest

from logdiag.recovery.policy import load_policy
from logdiag.recovery.watch import Watch
from logdiag.rules import RuleBook

POLICY = load_policy()
XID = b"Nov 23 13:50:01 n3 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus.\n"


@pytest.fixture
def watch(book: RuleBook) -> Watch:
    """After 40 steps of ten seconds each: it is second 400."""
    watch = Watch(book, POLICY, 0.0)
    for step in range(1, 41):
        watch.saw(f"step {step}/900 loss 2.{step:02}\n".encode(), step * 10.0)
    return watch


def alarm_at(watch: Watch, first: int, last: int) -> tuple[int, str] | None:
    """The second of the first alarm, and its kind."""
    alarms = ((second, watch.alarm(second)) for second in range(first, last))
    return next(((second, alarm.kind) for second, alarm in alarms if alarm), None)


def test_silence_is_a_hang_after_the_time_that_the_policy_says(watch: Watch) -> None:
    """600 seconds, well before a watchdog of 30 minutes."""
    assert alarm_at(watch, 400, 4000) == (1001, "hang")


def test_what_still_prints_has_three_times_as_long(watch: Watch) -> None:
    """An evaluation prints, and so does a rank that waits."""
    for second in range(410, 4000, 10):
        if watch.alarm(second):
            break
        watch.saw(b"still waiting for the others\n", second)
    assert second == 2210


def test_a_pause_like_one_before_is_no_hang(watch: Watch) -> None:
    """Whoever took 15 minutes to save once is given twice that."""
    watch.saw(b"step 41/900 loss 2.4\n", 1300.0)
    assert alarm_at(watch, 1300, 9000) == (1300 + 1801, "hang")


@pytest.mark.parametrize(
    "end", [b"step 900/900 loss 2.0\n", b"step 41/900 loss 2.0\nTraining completed successfully\n"]
)
def test_after_the_last_step_there_is_time_to_save(watch: Watch, end: bytes) -> None:
    """Ten times as long."""
    watch.saw(end, 410.0)
    assert alarm_at(watch, 410, 9000) == (410 + 6001, "hang")


def test_a_job_that_tells_of_no_steps_never_hangs(book: RuleBook) -> None:
    """It may log elsewhere, or load for hours."""
    watch = Watch(book, POLICY, 0.0)
    watch.saw(b"loading\n", 1.0)
    assert alarm_at(watch, 1, 100_000) is None


@pytest.mark.parametrize(("slowest", "second"), [(30.0, 601), (500.0, 1501), (0.0, None)])
def test_what_started_before_and_now_does_not_hangs(book: RuleBook, slowest: float, second: int | None) -> None:
    """A link that is cut lets a restarted job wait for its peers for ever; a first attempt may take what it needs."""
    watch = Watch(book, POLICY, 0.0, slowest)
    watch.saw(b"waiting for all ranks\n", 0.0)
    assert alarm_at(watch, 0, 9000) == ((second, "hang") if second else None)


def test_a_broken_machine_is_acted_on_when_no_step_follows(watch: Watch) -> None:
    """An Xid that the job works on after is left alone; told once."""
    assert [finding.rule for finding in watch.saw(XID, 401.0)] == ["nvidia/xid"]
    for step in (41, 42, 43):
        watch.saw(f"step {step}/900 loss 2.4\n".encode(), step * 10.0)
    assert watch.alarm(500.0) is None
    assert watch.saw(XID, 501.0) == []
    watch.saw(b"step 44/900 loss 2.4\n", 502.0)  # it was under way
    assert alarm_at(watch, 502, 4000) == (533, "fault")


@pytest.mark.parametrize("bad", ["nan", "inf", "77.5", "1e9"])
def test_a_spike_is_one_that_stays(watch: Watch, bad: str) -> None:
    """One bad step is left alone, three in a row are not; ranks that print the same step count once."""
    watch.saw(f"step 41/900 loss {bad}\n".encode(), 410.0)
    watch.saw(b"step 42/900 loss 2.2\n", 420.0)
    assert watch.alarm(420.0) is None
    for step in (43, 44):
        watch.saw(f"step {step}/900 loss {bad}\nstep {step}/900 loss {bad}\n".encode(), step * 10.0)
    assert watch.alarm(440.0) is None
    watch.saw(f"step 45/900 loss {bad}\n".encode(), 450.0)
    alarm = watch.alarm(450.0)
    assert alarm is not None
    assert (alarm.kind, watch.bad, watch.good) == ("spike", [43, 44, 45], 42)


@pytest.mark.parametrize(
    "line",
    ["step {n}/900 loss nan, skipping this batch", "step {n}/900 loss 2.1 val_loss 90.0", "step {n}/900 loss 3.9"],
)
def test_what_looks_like_a_spike_and_is_none(watch: Watch, line: str) -> None:
    """A batch that the script itself skips, another loss, a loss that rises a little."""
    for step in range(41, 60):
        watch.saw(line.format(n=step).encode() + b"\n", step * 10.0)
    assert watch.alarm(595.0) is None


def test_ranks_that_compute_no_loss_make_no_spike(book: RuleBook) -> None:
    """Of a pipeline only the last ones know it; a job whose loss was never a number is left alone too."""
    watch, blind = (Watch(book, POLICY, 0.0) for _ in range(2))
    for step in range(60):
        blind.saw(f"\x1b[32mstep {step} loss nan\x1b[0m\n".encode(), step)
        ranks = ("nan", "2.1") if step % 5 else ("2.1", "nan")
        for loss in ranks:
            watch.saw(f"step {step} loss {loss}\n".encode(), step)
        assert watch.alarm(step) is None
    assert blind.alarm(59.0) is None
    assert blind.steps == 60


def test_lines_may_come_in_pieces_and_bars_on_one_line(book: RuleBook) -> None:
    """Steps are counted where a piece ends anywhere, and where a bar writes over itself."""
    watch = Watch(book, POLICY, 0.0)
    text = b"".join(b"\r 45%%|####  | %d/500 [00:10<00:12,  9.1it/s, loss=2.1]" % step for step in range(1, 30))
    for at in range(0, len(text), 7):
        watch.saw(text[at : at + 7], at / 10)
    assert watch.step == 28
    assert watch.steps == 28
