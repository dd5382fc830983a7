"""A real language model whose weights are random: nothing that it says becomes an opinion, and it is heard in time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from logdiag import diagnose
from logdiag.agent.consult import consult
from logdiag.agent.opinion import AgentSettings
from logdiag.rules import RuleBook
from tests.helpers import LOGS
from tests.noise_model import SHAPED, noise_model

pytest.importorskip("xllamacpp", reason="the noise model needs xllamacpp and gguf")
pytestmark = pytest.mark.xdist_group("noise")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of noise."""
    with noise_model(tmp_path_factory.mktemp("noise")) as address:
        yield address


@pytest.mark.parametrize("shape", [None, SHAPED], ids=["words", "answers"])
@pytest.mark.parametrize("name", ["demo.log"])
def test_noise_never_becomes_an_opinion(url: str, book: RuleBook, name: str, shape: dict[str, Any] | None) -> None:
    """Not even when a grammar makes every answer one of the right form."""
    path = LOGS / name
    model = ChatOpenAI(
        model="noise", base_url=url, api_key=SecretStr("none"), max_retries=0, timeout=10, extra_body=shape
    )
    began = time.monotonic()
    settings = AgentSettings("openai:noise", timeout=10.0, budget=500)
    done = consult(diagnose(path, rules=book), (path,), settings, book=book, model=model)
    assert time.monotonic() - began < 20
    assert done.opinion is None
    assert done.notes[0].startswith("the model openai:noise ")
    assert done.trace.tokens_out > 0
