"""Which answers of a model are taken: their form, their citations, and the vote."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from logdiag.agent.answer import ANSWER_SCHEMA, Answer, AnswerError, ground, read_answer, read_text
from logdiag.agent.opinion import Opinion, vote
from logdiag.agent.outbound import Channel
from logdiag.agent.redaction import Redactor
from logdiag.model import Reason
from tests.agent_helpers import LOG_LINES, answer
from tests.helpers import parsed


@pytest.fixture
def channel() -> Channel:
    """A conversation that was shown lines 40 to 52 of the shared log."""
    channel = Channel(Redactor(), "abc")
    channel.rows(parsed(LOG_LINES)[39:52])
    return channel


def taken(channel: Channel, given: dict[str, Any], *, none_allowed: bool = False) -> Opinion:
    """What becomes of an answer."""
    return ground(read_answer(given), channel, none_allowed=none_allowed)


def test_the_schema_that_is_sent_is_the_one_that_is_read() -> None:
    """Field for field, at the top and within a citation."""
    model = Answer.model_json_schema()
    assert set(ANSWER_SCHEMA["properties"]) == set(model["properties"])
    assert set(ANSWER_SCHEMA["properties"]["root_line"]["properties"]) == set(model["$defs"]["Citation"]["properties"])
    assert ANSWER_SCHEMA["properties"]["reason"]["enum"] == [reason.value for reason in Reason]
    assert "action" not in json.dumps(ANSWER_SCHEMA)


def test_a_right_answer_becomes_an_opinion_with_the_logs_own_lines(channel: Channel) -> None:
    """Rank and position of the lines are the parser's, not the model's."""
    opinion = taken(channel, answer())
    assert opinion.reason is Reason.DATASET_LOADING_ERROR
    assert opinion.root == parsed(LOG_LINES)[45]
    assert [line.number for line in opinion.evidence] == [52]
    assert opinion.cause == "The loader's feeder jammed, and the step starved."


def test_an_action_in_an_answer_is_nothing(channel: Channel) -> None:
    """There is no place for it to go."""
    opinion = taken(channel, answer(action="restart", automatic=True))
    assert "restart" not in repr(opinion)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (answer(reason="Sabotage"), "reason: Input should be 'NVLinkError'"),
        (answer(confidence=3), "confidence: "),
        ({"reason": "KeyError"}, "cause: Field required"),
        (answer(root_line={"source": 1}), "root_line.number: Field required"),
        (answer(root_line={"source": 1, "number": 46, "quote": ""}), "root_line.quote: "),
        ([], "answer: "),
        (None, "answer: "),
    ],
)
def test_a_wrong_form_is_told_field_by_field(given: object, said: str) -> None:
    """So that the model can correct it."""
    with pytest.raises(AnswerError, match=f"^the answer does not have the form asked for: .*{said}"):
        read_answer(given)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "I think {{ it is ```json\n{}\n``` as I said.",
        '<think>perhaps {{"reason": "KeyError"}}</think> {}',
        '{{"name": "answer", "arguments": {}}}',
        "a {{b}} c [1] {} d",
    ],
)
def test_an_answer_in_words_is_found(text: str) -> None:
    """Bare, in a fence, after thoughts, or as a call written out."""
    assert read_text(text.format(json.dumps(answer()))) == read_answer(answer())


@pytest.mark.parametrize("text", ["", "restart it", "{", "{" * 30_000, '{"action": "restart"}', "[1, 2]", '"reason"'])
def test_words_without_an_answer_are_refused(text: str) -> None:
    """Also those that would take a parser long."""
    with pytest.raises(AnswerError, match=r"^there is no answer: call the tool"):
        read_text(text)


@pytest.mark.parametrize(
    "quote",
    [
        "[rank3] feeder jammed: the conveyor of shard 18 does not turn",
        "s1:46 | [rank3] feeder jammed: the conveyor",
        "feeder  jammed:\tthe conveyor",
        "...jammed: the conveyor of shard 18...",
    ],
)
def test_a_quote_may_be_a_part_of_the_line(channel: Channel, quote: str) -> None:
    """With or without the row's number, blanks as they come."""
    assert isinstance(taken(channel, answer(quote=quote)), Opinion)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (answer(number=12), "line s1:12 was not shown to you"),
        (answer(number=10**11), f"line s1:{10**11} was not shown to you"),
        (answer(root_line={"source": 2, "number": 46, "quote": "feeder jammed: the"}), "line s2:46 was not shown"),
        (answer(quote="node-9 fell off the bus"), "line s1:46 does not say 'node-9 fell off the bus'"),
        (answer(quote="jammed"), "'jammed' is too short to tell line s1:46 from others"),
        (answer(rank=7), "no line that you cite names rank 7"),
        (answer(number=47), "line s1:47 does not say 'feeder jammed: the conveyor'"),
        (answer(root_line=None), "root_line is missing"),
        (answer(evidence=[{"source": 1, "number": 3, "quote": "step: 3 loss"}]), "line s1:3 was not shown to you"),
        (answer(reason="none", root_line=None), "the reason `none` cannot be given"),
    ],
)
def test_what_the_log_does_not_say_is_refused(channel: Channel, given: dict[str, Any], said: str) -> None:
    """Lines that were not shown, words that are not there, and `none` where a failure was found."""
    with pytest.raises(AnswerError, match=re.escape(said)):
        taken(channel, given)


def test_none_may_be_said_where_no_rule_found_a_failure(channel: Channel) -> None:
    """It needs no root line."""
    opinion = taken(channel, answer(reason="none", root_line=None, evidence=[]), none_allowed=True)
    assert opinion.root is None


def test_words_become_plain_text_with_the_real_names() -> None:
    """No escape sequences, no line breaks, no pseudonyms of names."""
    channel = Channel(Redactor(), "abc")
    row = channel.rows(parsed(["[node-17] the link of node-17 went down"]))
    shown = row.partition("| ")[2]
    cause = f"{shown}\x1b]8;;http://x\x07 see\n\nit"
    opinion = taken(channel, answer(number=1, quote=shown, cause=cause, evidence=[]))
    assert opinion.cause == "[node-17] the link of node-17 went down\\x1b]8;;http://x\\x07 see it"
    assert opinion.root is not None
    assert opinion.root.text == "[node-17] the link of node-17 went down"


def opinion_of(reason: Reason, number: int, confidence: float) -> Opinion:
    """An opinion about a line."""
    line = parsed(LOG_LINES)[number - 1]
    return Opinion(reason, line, (), "cause", "", confidence)


def test_the_majority_decides_and_two_of_three_are_as_sure_as_one_alone() -> None:
    """Two of three say KeyError, and of those the more confident is taken."""
    said = [
        opinion_of(Reason.KEY_ERROR, 46, 0.6),
        opinion_of(Reason.OTHERS, 46, 1),
        opinion_of(Reason.KEY_ERROR, 46, 0.9),
    ]
    assert vote(said, 3) == said[2]._replace(confidence=0.75, votes=3, agreed=2)


def test_of_the_same_reason_the_line_that_most_name_is_the_root() -> None:
    """Not that of the most confident."""
    said = [opinion_of(Reason.KEY_ERROR, number, 0.5 + number / 100) for number in (46, 46, 47)]
    decided = vote(said, 3)
    assert decided is not None
    assert decided.root is not None
    assert decided.root.number == 46
    assert decided.agreed == 3


def test_a_tie_decides_nothing() -> None:
    """Nor do no votes at all; a missing vote is one that disagrees."""
    one, other = opinion_of(Reason.KEY_ERROR, 46, 0.9), opinion_of(Reason.OTHERS, 46, 0.9)
    assert vote([one, other], 2) is None
    assert vote([], 3) is None
    alone = vote([one], 3)
    assert alone is not None
    assert (alone.confidence, alone.agreed) == (0.3, 1)


@pytest.mark.parametrize("line", ["[rank3] feeder jammed", "w03 E0312 feeder jammed", "3/48 E feeder: jammed, rank 3"])
def test_a_rank_is_taken_from_the_cited_line(line: str) -> None:
    """From its prefix or its words; one that stands nowhere is refused."""
    channel = Channel(Redactor(), "abc")
    channel.rows(parsed([line]))
    given = answer(number=1, quote=line, evidence=[])
    assert taken(channel, {**given, "rank": "rank 3"}).rank == 3
    with pytest.raises(AnswerError, match="no line that you cite names rank 5"):
        taken(channel, {**given, "rank": 5})


def test_a_short_quote_is_taken_where_it_is_the_whole_message() -> None:
    """Else the refusal says that it is too short, which is true."""
    channel = Channel(Redactor(), "abc")
    channel.rows(parsed(["[rank3] Killed", "arena full at once"]))
    assert taken(channel, answer(number=1, quote="Killed", evidence=[])).root is not None
    with pytest.raises(AnswerError, match="too short"):
        taken(channel, answer(number=2, quote="full", evidence=[]))
