"""One conversation with a model about one log: the model reads lines, answers, and must cite what it was shown.

The agent is LangChain's. `_Bounds` limits its turns, tool calls, tokens, time and refused answers.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from logdiag.agent.answer import ANSWER_SCHEMA, Answer, AnswerError, ground, read_answer, read_text
from logdiag.agent.evidence import Prompt
from logdiag.agent.models import LOADING, TIMED_OUT, failure_of
from logdiag.agent.opinion import Opinion
from logdiag.agent.outbound import Channel
from logdiag.agent.tools import tools_for
from logdiag.agent.view import LogView
from logdiag.rules import RuleBook

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

ROUNDS = 8
_MOST_CALLS = 24
_REFUSALS = 2
# In and out altogether: each turn sends the whole conversation again.
_MOST_TOKENS = 100_000
# A server that reports more than this for one turn is wrong.
_MOST_COUNTED = 10**8
_SHORTEST_TURN = 0.05


@dataclass
class Conversation:
    """One conversation, which other threads may read. It ends with an `opinion`, or an `error` ("the model ...")."""

    channel: Channel
    ends: float
    none_allowed: bool
    opinion: Opinion | None = None
    error: str = ""
    steps: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    tokens: Counter[str] = field(default_factory=Counter)
    cost: float | None = None
    spent: int = 0

    @property
    def over(self) -> bool:
        """Whether the conversation has ended; sets `error` if a limit ended it."""
        if not (self.opinion or self.error):
            if time.monotonic() > self.ends - _SHORTEST_TURN:
                self.error = TIMED_OUT
            elif len(self.refusals) > _REFUSALS:
                self.error = f"gave no answer that holds, {len(self.refusals)} times"
            elif self.steps.count("model") >= ROUNDS:
                self.error = f"did not come to an answer in {ROUNDS} turns"
            elif self.spent > _MOST_TOKENS:
                self.error = f"did not come to an answer within {_MOST_TOKENS:,} tokens"
        return bool(self.opinion or self.error)

    def offer(self, read: Callable[[], Answer]) -> str:
        """Takes an answer as the opinion; returns why it was refused, empty if it was not."""
        try:
            opinion = ground(read(), self.channel, none_allowed=self.none_allowed)
        except AnswerError as refused:
            self.refusals.append(str(refused))
            self.steps.append("refused")
            return self.channel.redactor.hide(f"Refused: {refused}. Correct it and answer again.")
        self.opinion = self.opinion or opinion
        return ""

    def count_turn(self, sent: Sequence[Any], replies: Sequence[Any]) -> None:
        """Counts one turn from LangChain's messages. A server may report its tokens wrongly, so at least as many tokens
        are counted as the texts' lengths imply."""
        for name, messages in (("input_tokens", sent), ("output_tokens", replies)):
            counts = [message.usage_metadata[name] for message in replies if message.usage_metadata]
            reported = sum(count for count in counts if isinstance(count, int) and 0 <= count <= _MOST_COUNTED)
            texts = (
                f"{message.content}{getattr(message, 'tool_calls', '')}" for message in messages if message is not None
            )
            self.tokens[name] += reported
            self.spent += max(reported, sum(map(len, texts)) // 8)
        self.steps.append("model")
        for message in replies:
            cost = (message.response_metadata.get("token_usage") or {}).get("cost")
            if isinstance(cost, (int, float)) and 0 <= cost <= _MOST_COUNTED:
                self.cost = (self.cost or 0.0) + cost


def ask(
    model: BaseChatModel, prompt: Prompt, view: LogView, book: RuleBook, talk: Conversation, callbacks: Sequence[Any]
) -> None:
    """Runs a conversation until it is over; whatever a model's client or a callback raises becomes its error."""
    try:
        with LOADING:  # conversations that load it at the same time can find it half loaded
            from langchain.agents import create_agent
        from langchain_core.messages import HumanMessage
        from langchain_core.tools import StructuredTool
        from langsmith import tracing_context

        def answer(**arguments: Any) -> str:
            return talk.offer(lambda: read_answer(arguments)) or "Taken."

        words = "Your answer, once you have it."
        final = StructuredTool(name="answer", description=words, args_schema=ANSWER_SCHEMA, func=answer)
        tools = [*tools_for(view, talk.channel, book), final]
        agent = create_agent(model, tools, system_prompt=prompt.system, middleware=[_bounds(talk)])
        with tracing_context(enabled=False):  # whatever the environment says
            agent.invoke(
                {"messages": [HumanMessage(prompt.user)]},
                {"callbacks": list(callbacks), "recursion_limit": 20 * ROUNDS, "run_name": "logdiag failure agent"},
            )
    except Exception as error:
        talk.error = talk.error or failure_of(error)
    if not talk.over:
        talk.error = "stopped without an answer"


def _bounds(talk: Conversation) -> Any:
    """LangChain's hooks around each turn and each tool call of a conversation."""
    from langchain.agents.middleware import AgentMiddleware, hook_config
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    class _Bounds(AgentMiddleware[Any, Any, Any]):
        @hook_config(can_jump_to=["end"])
        def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
            return {"jump_to": "end"} if talk.over else None

        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            response = handler(request)
            replies = [message for message in response.result if isinstance(message, AIMessage)]
            talk.count_turn([*request.messages, request.system_message], replies)
            for message in replies:
                message.tool_calls = message.tool_calls[:_MOST_CALLS]
            return response

        @hook_config(can_jump_to=["model", "end"])
        def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
            message = state["messages"][-1]
            if message.additional_kwargs.get("refusal"):
                talk.error = "declined to answer"
            elif not message.tool_calls and (why := talk.offer(lambda: _answer_in(message))) and not talk.over:
                return {"jump_to": "model", "messages": [HumanMessage(why)]}
            return {"jump_to": "end"} if talk.over or not message.tool_calls else None

        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            call = request.tool_call
            calls = len(talk.steps) - talk.steps.count("model") - talk.steps.count("refused")
            if call["name"] != "answer" and (calls >= _MOST_CALLS or time.monotonic() > talk.ends):
                return ToolMessage("No more tool calls: answer now.", tool_call_id=call["id"], name=call["name"])
            talk.steps.append(call["name"][:40])
            result = handler(request)
            # A tool's own result went through the channel already, LangChain's message about a failed call did not.
            result.content = talk.channel.redactor.hide(str(result.content))
            return result

    return _Bounds()


def _answer_in(message: Any) -> Answer:
    """The answer in a message without valid tool calls: in an invalid call or in the text. Raises AnswerError."""
    for call in message.invalid_tool_calls:
        try:
            return read_text(str(call.get("args")))
        except AnswerError as refused:
            raise AnswerError(f"the arguments of {call.get('name')} are not valid JSON") from refused
    return read_text(str(message.text))
