"""Nothing leaves with a name or a secret in it: both are planted in every field of every input, and a real HTTP server
looks for them in all that it receives."""

from __future__ import annotations

import string
import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from logdiag import diagnose
from logdiag.agent.consult import consult
from logdiag.memory.incident import Helped
from logdiag.memory.store import open_store
from logdiag.rules import RuleBook
from tests.agent_helpers import SETTINGS, chat
from tests.chat_server import ChatServer, Reply, calls, says
from tests.helpers import log_of, steps, traceback_of
from tests.memory_helpers import incident

_FAULT = "quartz.lattice.ShardFault: the lattice shard could not be decoded"


@dataclass(frozen=True)
class Planted:
    """Made-up names and secrets, none of them a word."""

    user: str
    colleague: str
    person: str
    host: str
    other_host: str
    named_host: str
    project: str
    customer: str
    team: str
    bucket: str
    pod: str
    account: str
    password: str
    token: str
    uuid: str
    serial: str

    @classmethod
    def of(cls, seed: int) -> Planted:
        """Some of each kind."""
        random = Random(seed)

        def word(most: int = 9) -> str:
            return "".join(random.choices("bcdfghjklmnpqrstvwxz", k=random.randint(6, most)))

        def number(most: int = 99) -> str:
            return str(random.randint(2, most))

        hexadecimal = "".join(random.choices("0123456789abcdef", k=32))
        parts = (hexadecimal[:8], hexadecimal[8:12], hexadecimal[12:16], hexadecimal[16:20], hexadecimal[20:])
        return cls(
            user=word(), colleague=word(), person=word(),
            host=word(6) + number() + random.choice(["", f"-{number()}"]),
            other_host=f"{word(6)}-{number()}",
            named_host=word(),
            project=f"{word().capitalize()}-{word()}", customer=word().capitalize() + word().capitalize(),
            team=f"{word()}-{word()}", bucket=f"{word()}-{word()}", pod=f"{word()}-{word()}-0",
            account=word() + number(),
            password=word() + number() + "X", token="hf_" + "".join(random.choices(string.ascii_letters, k=33)) + "7",
            uuid="GPU-" + "-".join(parts), serial=str(random.randint(10**12, 10**13 - 1)),
        )  # fmt: skip

    def lines(self, random: Random) -> list[str]:
        """A log that tells what is whose, and says it again where nothing tells; in any order."""
        told = [
            f"MASTER_ADDR={self.host} SLURM_NODELIST={self.other_host},{self.named_host}",
            f"SLURM_JOB_USER={self.user} SLURM_JOB_ACCOUNT={self.account}",
            f"login as: {self.colleague} password is {self.password}",
            f"saving to s3://{self.bucket}/ckpt/step_500",
            f"wandb: view run at https://wandb.ai/{self.team}/{self.project}/runs/x1",
            f"pod {self.pod} was scheduled on node {self.other_host}",
            f"reading /fsx/{self.colleague}/data.bin and /scratch/{self.user}/{self.project}/a.bin",
            f"NVRM: GPU {self.uuid} Serial Number : {self.serial}",
            f"export HF_TOKEN={self.token}",
            f"customer: {self.customer}",
        ]
        bare = [
            f"[rank3] connection from {self.host} was lost, {self.other_host} waits, so does {self.named_host}",
            f"{self.user} and {self.colleague} of {self.team} were told about {self.project} for {self.customer}",
            f"{self.named_host}<38752> left; {self.bucket} is full; {self.pod} stays; {self.account} has no hours",
            f"again {self.password} and {self.token} and {self.uuid}",
        ]
        lines = [*told, *bare]
        random.shuffle(lines)
        return [*steps(1, 5), *lines, f"[rank3] {self.host} did not answer", *traceback_of(_FAULT)]

    @property
    def metadata(self) -> dict[str, str]:
        """A job's metadata, with names in each of its fields."""
        return {
            "name": f"{self.user}-llama-{self.project}",
            "user": self.user,
            "framework": f"megatron on {self.host}",
            "image": f"{self.named_host}:5000/{self.team}/train@{self.account}",
            "owner": self.customer,
        }

    def past(self) -> dict[str, Any]:
        """What people wrote about a past failure, names that stand nowhere else among it."""
        return {
            "cause": f"{self.person} on {self.host} broke the shard with {self.password}. Ask {self.person}.",
            "remedy": f"call {self.person}, token {self.token}",
            "outcome": Helped.WORKED,
            "confirmed_by": self.person,
            "provenance": f"job of {self.person}",
            "node": self.other_host,
            "job": {"user": self.person, "name": self.project},
        }


def _reads_everything(body: dict[str, Any]) -> Reply:
    """A model that calls each tool, rightly and wrongly, and then quotes what is not there."""
    wanted: list[tuple[str, dict[str, Any] | str]] = [
        ("read_lines", {"source": 1, "first": 1, "last": 60}),
        ("read_lines", {"source": 7, "first": 1, "last": 60}),
        ("read_lines", {"source": "one", "first": None}),
        ("grep_log", {"pattern": "."}),
        ("grep_log", {"pattern": "(<host-1>"}),
        ("explain_code", {"kind": "<user-1>", "code": "<host-1>"}),
        ("no_such_tool", {"of": "<user-1>"}),
    ]
    turn = sum(message["role"] == "assistant" for message in body["messages"])
    if turn == 0:
        return Reply(calls=tuple(wanted))
    if turn == 1:
        cited = {"source": 1, "number": 7, "quote": "<host-1> and <user-1> did it"}
        return calls("answer", reason="Others", root_line=cited, evidence=[], cause="<user-1>",
                     would_prove="", confidence=1, rank=None)  # fmt: skip
    return says("that was all")


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), with_memory=st.booleans())
def test_no_planted_name_or_secret_reaches_the_server(book: RuleBook, seed: int, with_memory: bool) -> None:
    """From rows, facts, paths, metadata, incidents, tools' results and refusals."""
    planted = Planted.of(seed)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, planted.person, planted.customer, planted.other_host)
        folder.mkdir(parents=True)
        path = folder / f"{planted.user}_rank_3.log"
        path.write_bytes(log_of(*planted.lines(Random(seed))))
        with open_store(Path(place, "memory")) as store:
            if with_memory:
                store.add(incident(_FAULT, **planted.past()))
            found = diagnose(path, rules=book, memory=store if with_memory else False, job=planted.metadata)
        assert not with_memory or found.decided_by == "memory", "the incident was not found: the test tests nothing"
        with ChatServer(_reads_everything) as server:
            done = consult(found, (path,), SETTINGS, book=book, model=chat(server), job=planted.metadata)
    assert len(server.requests) >= 3, done.notes
    sent = server.sent.lower()
    left = {name: value for name, value in vars(planted).items() if value.lower() in sent}
    assert left == {}
    assert "did not answer" in sent, "the log itself must be shown"
