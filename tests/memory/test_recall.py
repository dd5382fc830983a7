"""What the memory adds to a diagnosis: what a person confirmed is known at the next call, and it never does harm."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from logdiag import Action, Diagnosis, Reason, diagnose
from logdiag.memory.incident import Helped, Incident, masked
from logdiag.memory.recall import similar_to
from logdiag.memory.store import Store, open_store
from logdiag.read.prefixes import parse_line
from logdiag.rules import RuleBook
from tests.helpers import SAMPLES, log_of, run_logdiag, steps, traceback_of, watchdog
from tests.memory_helpers import python

# Words that no rule and no shipped incident knows.
LOST = "2026-11-20 10:00:0{second} [rank{rank}] lattice-daemon on {node}: quorum lost, lattice epoch {epoch} withdrawn"


def lost(rank: int = 3, node: str = "node-17", epoch: int = 4112, second: int = 7) -> str:
    """The failure that nothing knows, as it comes with other numbers at another place."""
    return LOST.format(rank=rank, node=node, epoch=epoch, second=second)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store above the shipped incidents."""
    return open_store(tmp_path / "memory")


def known(text: str, reason: Reason = Reason.S3_STORAGE_ERROR, **more: Any) -> Incident:
    """An incident that a person has confirmed."""
    given: dict[str, Any] = {
        "action": Action.RETRY_LATER,
        "confirmed_by": "mira",
        "cause": "The lattice lost its quorum.",
        **more,
    }
    return Incident("", masked(parse_line(text)), reason, **given)


def said(book: RuleBook, store: Store, *lines: str, exit_code: int | None = None) -> Diagnosis:
    """The diagnosis of a log of these lines, with this memory."""
    return diagnose(log_of(*lines), rules=book, memory=store, exit_code=exit_code)


def test_one_confirmed_incident_makes_the_next_occurrence_known(book: RuleBook, store: Store) -> None:
    """Nothing knew the line; with one confirmed incident it is the root with its reason and action, whatever its
    numbers, rank and node are."""
    before = said(book, store, *steps(1, 20), lost(), exit_code=1)
    assert before.reason is not Reason.S3_STORAGE_ERROR
    store.add(known(lost()))
    after = said(book, store, *steps(1, 50), lost(rank=12, node="node-203", epoch=9, second=1))
    assert (after.failed, after.reason, after.decided_by) == (True, Reason.S3_STORAGE_ERROR, "memory")
    assert after.recovery.action is Action.RETRY_LATER
    assert after.root_cause is not None
    assert (after.root_cause.line, after.root_cause.rank) == (51, 12)
    assert after.root_cause.rule.startswith("memory/i-")
    assert after.confidence >= 0.9


def test_a_confirmed_line_stands_before_what_a_later_program_died_of(book: RuleBook, store: Store) -> None:
    """It is only printed, and a traceback follows it: a person has said that such a line is the cause."""
    later = traceback_of("FileNotFoundError: [Errno 2] No such file or directory: 'results/summary.json'")
    assert said(book, store, *steps(1, 20), lost(), *later).decided_by != "memory"
    store.add(known(lost(), Reason.OS_ERROR))
    after = said(book, store, *steps(1, 20), lost(rank=1), *later)
    assert (after.reason, after.decided_by) == (Reason.OS_ERROR, "memory")


def test_a_confirmed_line_is_a_cause_though_it_is_printed_as_a_warning(book: RuleBook, store: Store) -> None:
    """The program only warned of it; the others then lost their peer."""
    warning = "2026-11-20 10:00:07,120 WARNING [rank 3] lattice: quorum lost, epoch 4112 withdrawn"
    lost_peer = "RuntimeError: [../gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.7]:923"
    lines = [*steps(1, 20), warning, *traceback_of(lost_peer, prefix="[rank1]: ")]
    later = traceback_of("FileNotFoundError: [Errno 2] No such file or directory: 'results/summary.json'")
    assert said(book, store, *lines).reason is not Reason.OS_ERROR
    store.add(known(warning, Reason.OS_ERROR))
    assert said(book, store, *lines).reason is Reason.OS_ERROR
    assert said(book, store, *steps(1, 20), warning, *later).reason is Reason.OS_ERROR


def test_what_nobody_confirmed_is_no_knowledge(book: RuleBook, store: Store) -> None:
    """An incident that logdiag remembered by itself is shown beside the answer and decides nothing."""
    store.add(known(lost(), confirmed_by=""))
    answer = said(book, store, *steps(1, 20), lost(), exit_code=1)
    assert answer.reason is not Reason.S3_STORAGE_ERROR
    assert answer.decided_by != "memory"


def test_a_known_line_that_the_job_survived_is_no_failure(book: RuleBook, store: Store) -> None:
    """The job made steps after it, as after any fault that was recovered."""
    store.add(known(lost()))
    answer = said(book, store, *steps(1, 20), lost(), *steps(21, 30))
    assert answer.failed is False
    assert any("recovered from" in note for note in answer.notes)


def test_a_correction_is_used_by_the_very_next_call(book: RuleBook, store: Store) -> None:
    """A person said that what the rules call one thing is another; the rules are overruled from then on."""
    lines = [*steps(1, 20), *traceback_of("ValueError: shard 7 has 12 columns, expected 11")]
    first = said(book, store, *lines)
    assert (first.reason, first.decided_by) == (Reason.VALUE_ERROR, "rules")
    remembered = diagnose(log_of(*lines), rules=book, memory=store, remember=True).incident
    store.correct(
        remembered, by="mira", reason=Reason.DATASET_LOADING_ERROR, remedy="Wrote the shard again.",
        outcome=Helped.WORKED,
    )  # fmt: skip
    again = said(book, store, *steps(1, 9), *traceback_of("ValueError: shard 41 has 3 columns, expected 11"))
    assert (again.reason, again.decided_by) == (Reason.DATASET_LOADING_ERROR, "memory")
    assert "Wrote the shard again." in again.recovery.steps
    assert again.confidence <= 0.97, "one person's word"
    assert again.recovery.why.startswith(f"Mira said so of incident {remembered} on ")


def test_a_confirmation_that_agrees_with_the_rules_leaves_them_the_verdict(book: RuleBook, store: Store) -> None:
    """What rules and memory both say is the rules' answer."""
    lines = [*steps(1, 20), *traceback_of("ZeroDivisionError: division by zero")]
    first = diagnose(log_of(*lines), rules=book, memory=store, remember=True)
    store.correct(first.incident, by="mira")
    again = said(book, store, *lines)
    assert (again.decided_by, again.reason) == ("rules", first.reason)
    assert again.similar[0].incident == first.incident


def test_a_remedy_that_did_not_help_is_not_advised_again(book: RuleBook, store: Store) -> None:
    """The reason stays known; the action is that of the reason's table, and the answer says what failed."""
    store.add(known(lost(), Reason.NODE_FAILURE, action=Action.RETRY_LATER, outcome=Helped.DID_NOT))
    answer = said(book, store, *steps(1, 20), lost())
    assert answer.reason is Reason.NODE_FAILURE
    assert answer.recovery.action is Action.RESTART_EXCLUDING_NODE
    assert "did not help" in answer.recovery.why


def test_unknown_exceptions_are_named_by_alike_incidents(book: RuleBook, store: Store) -> None:
    """The rules only say that some exception was raised, its words are a guess; three confirmed ones like it say which
    reason that is."""
    text = "quartz.lattice.ShardFault: the lattice shard {n} could not be decoded after {m} attempts"
    for number in range(3):
        incident = known(text.format(n=number, m=4) + " of " + "abc"[number] * 6, Reason.DATASET_LOADING_ERROR)
        store.add(incident)
    lines = [*steps(1, 20), *traceback_of(text.format(n=77, m=2) + " of zzzzzz")]
    alone = diagnose(log_of(*lines), rules=book, memory=False)
    answer = said(book, store, *lines)
    assert alone.decided_by == "suspects"
    assert (answer.reason, answer.decided_by) == (Reason.DATASET_LOADING_ERROR, "memory")
    assert alone.confidence < answer.confidence < 1


def test_a_sure_verdict_of_a_rule_is_not_voted_on(book: RuleBook, store: Store) -> None:
    """Any number of alike incidents with another reason leave a narrow rule's answer alone."""
    line = "NVRM: Xid (PCI:0000:3b:00): 48, pid=3121, An uncorrectable double bit error (DBE) has been detected on GPU"
    for number in range(8):
        store.add(known(f"{line} in framebuffer {chr(97 + number) * 4}", Reason.OTHERS))
    answer = said(book, store, *steps(1, 20), line)
    assert (answer.reason, answer.decided_by) == (Reason.ECC_ERROR, "rules")


def test_what_is_only_alike_does_not_make_a_machines_fault_a_programs(book: RuleBook, store: Store) -> None:
    """A rule names a fault of the GPU in general: alike incidents may name the machine's fault better, no other."""
    line = "RuntimeError: CUDA error: the lattice unit of the device gave up in stage"
    for word in ("alpha", "bravo", "charlie"):
        store.add(known(f"{line} {word}", Reason.VALUE_ERROR))
    softened = said(book, store, *steps(1, 20), *traceback_of(f"{line} delta"))
    assert (softened.reason, softened.decided_by) == (Reason.CUDA_ERROR, "rules")
    with open_store(f"{store.place}-machine") as other:
        for word in ("alpha", "bravo", "charlie"):
            other.add(known(f"{line} {word}", Reason.NVLINK_ERROR))
        named = said(book, other, *steps(1, 20), *traceback_of(f"{line} delta"))
    assert (named.reason, named.decided_by) == (Reason.NVLINK_ERROR, "memory")


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_the_shipped_incidents_change_no_sample_verdict(path: Path, book: RuleBook, tmp_path: Path) -> None:
    """With an empty store, reason, root and action are those of the rules alone."""
    alone = diagnose(path, rules=book, memory=False)
    answer = diagnose(path, rules=book, memory=tmp_path / "none")
    assert (answer.reason, answer.root_cause, answer.recovery) == (alone.reason, alone.root_cause, alone.recovery)


def test_similar_failures_are_ranked_by_likeness_age_and_outcome(store: Store) -> None:
    """Of equally alike ones the latest comes first, then the one whose remedy worked, and the words say when."""
    now = datetime.now(timezone.utc)

    def add(days: int, outcome: Helped) -> str:
        seen = (now - timedelta(days=days)).isoformat()
        return store.add(known(lost(), seen_at=seen, outcome=outcome, node="node-17",
                               action=Action.RESTART_EXCLUDING_NODE)).id  # fmt: skip

    old, failed, fresh = add(90, Helped.WORKED), add(2, Helped.DID_NOT), add(2, Helped.WORKED)
    found = similar_to(parse_line(lost(rank=1)), Reason.S3_STORAGE_ERROR, store)
    assert [item.incident for item in found] == [fresh, failed, old]
    assert found[0].similarity == pytest.approx(1, abs=0.001)
    day = now - timedelta(days=2)
    assert found[0].words == f"last time, on {day.day} {day:%B %Y}, restarting without the node worked"
    assert "did not help" in found[1].words


@pytest.mark.parametrize("reason", [Reason.CONNECTION_ERROR, Reason.NODE_FAILURE], ids=lambda item: item.value)
def test_a_confirmed_symptom_stays_a_symptom(book: RuleBook, store: Store, reason: Reason) -> None:
    """Once nothing but a lost peer was in the log, and a person confirmed what that was. Next time the cause is in the
    log too, and comes first; without it the person's word holds."""
    peer = "[rank1]: RuntimeError: [../gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.{n}]:4{n}811"
    store.add(known(peer.format(n=3), reason, action=Action.RESTART))
    cause = traceback_of("KeyError: 'caption'", prefix="[rank0]: ")
    both = said(book, store, *steps(1, 20), *traceback_of(peer.format(n=4)[9:], prefix="[rank1]: "), *cause)
    alone = said(book, store, *steps(1, 20), *traceback_of(peer.format(n=4)[9:], prefix="[rank1]: "))
    assert both.reason is Reason.KEY_ERROR
    assert alone.reason is reason


def test_a_log_without_a_failure_needs_more_than_a_likeness(book: RuleBook, store: Store) -> None:
    """Ordinary output that shares half its words with a past failure is no failure; the same words are one."""
    store.add(known("Train split: failed to read the lattice of shard 7 after nine attempts, giving up"))
    ordinary = [*(f"shard {number} opened" for number in range(5)), "Train split: read the lattice of shard 3"]
    assert said(book, store, *ordinary).failed is not True
    failing = [*ordinary, "Train split: failed to read the lattice of a shard after two attempts, giving up"]
    assert said(book, store, *failing).failed is True


def test_what_ships_does_not_speak_against_a_peers_word(book: RuleBook, store: Store) -> None:
    """Beside a collective's time-out a line that is like a shipped failure names no cause; one that is like a failure
    of one's own does."""
    lines = [*steps(1, 20), "/opt/loom/etc/weave.tab: No such file or directory", watchdog(1)]
    assert said(book, store, *lines).reason is Reason.NCCL_TIMEOUT_ERROR
    store.add(known("/opt/loom/etc/lattice.tab: No such file or directory", Reason.FILE_NOT_FOUND_ERROR))
    assert said(book, store, *lines).reason is Reason.FILE_NOT_FOUND_ERROR


def test_a_step_is_no_failure_though_one_like_it_was(book: RuleBook, store: Store) -> None:
    """A person once confirmed the step at which the loss was lost; other steps only look like it."""
    store.add(known("step: 812 loss: nan lr: 1e-04 lattice: 3", Reason.OTHERS))
    told = ["step: 811 loss: 2.1 lr: 1e-04 lattice: 3", "srun: error: node-4: task 3: Exited with exit code 1"]
    assert said(book, store, *told).decided_by == "rules"


def test_divided_votes_do_not_overrule_a_rule(book: RuleBook, store: Store) -> None:
    """Alike incidents of two reasons say nothing against a rule that fits in general."""
    text = "FileNotFoundError: [Errno 2] No such file or directory: the lattice of stage"
    for word, reason in (("alpha", Reason.DATASET_LOADING_ERROR), ("bravo", Reason.MODEL_LOADING_ERROR)) * 3:
        store.add(known(f"{text} {word}", reason))
    answer = said(book, store, *steps(1, 20), *traceback_of(f"{text} charlie"))
    assert (answer.reason, answer.decided_by) == (Reason.FILE_NOT_FOUND_ERROR, "rules")


def test_of_two_judgements_of_one_failure_the_latest_counts(book: RuleBook, store: Store) -> None:
    """What was thought last year gives way to what was learnt last week."""
    store.add(known(lost(), Reason.OS_ERROR, seen_at="2026-10-01"))
    store.add(known(lost(), Reason.S3_STORAGE_ERROR, seen_at="2026-11-01"))
    store.add(known(lost(), Reason.NETWORK_ERROR, seen_at="2026-09-01"))
    assert said(book, store, *steps(1, 20), lost()).reason is Reason.S3_STORAGE_ERROR


def test_where_the_nearest_and_the_many_disagree_nobody_speaks(book: RuleBook, store: Store) -> None:
    """One very alike incident says one thing, several less alike ones another: the answer without them stays."""
    text = "quartz.lattice.ShardFault: the lattice shard could not be decoded in stage"
    store.add(known(f"{text} alpha", Reason.ASSERTION_ERROR))
    for word in ("bravo", "charlie", "delta", "echo", "foxtrot"):
        store.add(known(f"{text} {word} of the wide pipeline", Reason.DATASET_LOADING_ERROR))
    lines = [*steps(1, 20), *traceback_of(f"{text} alpha zulu")]
    alone, answer = diagnose(log_of(*lines), rules=book, memory=False), said(book, store, *lines)
    assert (answer.reason, answer.decided_by) == (alone.reason, alone.decided_by)


def test_similar_failures_of_the_found_reason_come_first(store: Store) -> None:
    """What was the same thing helps more than what only looked the same."""
    other = store.add(known(lost(), Reason.OS_ERROR))
    same = store.add(known(lost().replace("withdrawn", "was withdrawn")))
    found = similar_to(parse_line(lost()), Reason.S3_STORAGE_ERROR, store)
    assert [item.incident for item in found][:2] == [same.id, other.id]


def test_every_failure_with_a_root_has_similar_ones_of_its_reason(book: RuleBook, tmp_path: Path) -> None:
    """The shipped incidents are there from the first day."""
    answer = diagnose(log_of(*traceback_of("ZeroDivisionError: division by zero")), rules=book, memory=tmp_path)
    assert answer.similar
    assert answer.similar[0].reason is Reason.ZERO_DIVISION_ERROR


def test_nodes_that_fail_too_often_are_excluded(book: RuleBook, store: Store) -> None:
    """A node failed first in six jobs, others once each: it is left out, and a plain restart on it becomes one without
    it."""
    for number in range(6):
        store.add(known(f"GPU fell off the bus, {'abcdef'[number] * 5}", Reason.CUDA_ERROR, node="node-9",
                        job={"name": f"job-{number}"}))  # fmt: skip
    for number in range(12):
        store.add(known(f"other {'abcdefghijkl'[number] * 5} broke", Reason.CUDA_ERROR, node=f"node-{number + 20}",
                        job={"name": f"other-{number}"}))  # fmt: skip
    crash = "node-9: RuntimeError: CUDA error: unspecified launch failure"
    alone = diagnose(log_of(*steps(1, 60), crash), rules=book, memory=False)
    answer = said(book, store, *steps(1, 60), crash)
    assert alone.recovery.action is Action.RESTART
    assert answer.recovery.action is Action.RESTART_EXCLUDING_NODE
    assert answer.recovery.exclude_nodes == ("node-9",)


@pytest.mark.parametrize("harm", ["newer", "foreign", "file"])
def test_a_store_that_cannot_be_used_is_a_note(harm: str, book: RuleBook, tmp_path: Path) -> None:
    """The rules decide as without it, and one sentence says what is wrong."""
    place = tmp_path / "memory"
    if harm == "file":
        place.write_text("no store")
    else:
        with open_store(place) as made:
            made.add(known(lost()))
        database = next(place.glob("*.db*"))
        if harm == "foreign":
            database.write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)
        else:
            import sqlite3

            with sqlite3.connect(database) as connection:
                connection.execute("PRAGMA user_version = 99")
            connection.close()
    lines = log_of(*steps(1, 20), *traceback_of("ZeroDivisionError: division by zero"))
    alone, answer = diagnose(lines, rules=book, memory=False), diagnose(lines, rules=book, memory=place)
    assert (answer.reason, answer.confidence, answer.recovery) == (alone.reason, alone.confidence, alone.recovery)
    notes = [note for note in answer.notes if "the memory was not asked" in note]
    assert len(notes) == 1
    assert str(place) in notes[0]


def test_remembering_gives_the_id_and_masks_the_log(book: RuleBook, tmp_path: Path) -> None:
    """--remember keeps the root line without paths and addresses, unconfirmed, and says under which id."""
    log = tmp_path / "job.log"
    log.write_bytes(log_of(*steps(1, 9), *traceback_of("FileNotFoundError: no shard in '/data/mira/x/shard-1.tar'")))
    place = tmp_path / "memory"
    done = run_logdiag("--remember", "--memory", str(place), "--job", "name=llm-7b", "--format", "json", str(log))
    answer = json.loads(done.stdout)
    with open_store(place) as store:
        kept = store.get(answer["incident"])
    assert kept.reason.value == answer["reason"]
    assert kept.job == {"name": "llm-7b"}
    assert kept.confirmed_by == ""
    assert "mira" not in kept.signature
    again = run_logdiag("--remember", "--memory", str(place), str(log))
    assert b"Remembered as i-" in again.stdout


def test_a_healthy_job_is_not_remembered(book: RuleBook, store: Store) -> None:
    """There is nothing to remember."""
    answer = diagnose(log_of(*steps(1, 30)), rules=book, memory=store, remember=True)
    assert answer.incident == ""
    assert store.count() == 0


def test_a_full_disk_is_a_note(book: RuleBook) -> None:
    """What cannot be remembered does not cost the diagnosis."""
    lines = log_of(*traceback_of("ZeroDivisionError: division by zero"))
    answer = diagnose(lines, rules=book, memory="/dev/full/memory", remember=True)
    assert answer.reason is Reason.ZERO_DIVISION_ERROR
    assert answer.incident == ""
    assert any(note.startswith("not remembered: ") for note in answer.notes)


def test_the_rules_decide_without_numpy(tmp_path: Path) -> None:
    """In a plain installation known lines still count, and a note says what similarity needs."""
    with open_store(tmp_path / "memory") as store:
        store.add(known(lost()))
    code = (
        "import sys\n"
        "for name in ('numpy', 'faiss'): sys.modules[name] = None\n"
        "from logdiag import diagnose\n"
        "answer = diagnose(sys.argv[2].encode(), memory=sys.argv[1])\n"
        "print(answer.reason.value, answer.decided_by, *answer.notes, sep='|')\n"
    )
    log = log_of(*steps(1, 20), lost(epoch=5)).decode()
    process = python(code, tmp_path / "memory", log)
    out, _ = process.communicate(timeout=60)
    assert out.startswith("S3StorageError|memory|")
    assert "pip install 'logdiag[memory]'" in out
