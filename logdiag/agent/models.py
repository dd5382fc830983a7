"""Chat models by name, and what their failures mean. LangChain and the providers' errors are mapped here."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from logdiag.agent.connection import Connection
from logdiag.errors import AgentError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

TIMED_OUT = "did not answer in time"

LOADING = threading.Lock()
"""Held while packages are loaded: an interpreter that ends amid it aborts, so its end waits for it."""
# Seconds.
_LONGEST_WAIT = 2.0
atexit.register(LOADING.acquire, timeout=_LONGEST_WAIT)

# What a provider calls the variable with its key, where that is not PROVIDER_API_KEY.
_KEYS = {"azure_openai": "AZURE_OPENAI_API_KEY", "google_genai": "GOOGLE_API_KEY", "mistralai": "MISTRAL_API_KEY"}
# A server that is one's own asks for no key, but OpenAI's client does.
_NO_KEY = "none"
# Room for a model that thinks aloud before it answers.
_MOST_ANSWER_TOKENS = 8192
# Ollama cuts what is longer than its window off without a word, and its window is small unless one asks.
_OLLAMA_WINDOW = 32_768
_TOO_MUCH = ("refused the request", "; it may lack tool calls or room for the prompt")
_STATUS = {
    **dict.fromkeys((401, 403), ("refused the key", "; set the provider's key")),
    404: ("is not known to its server", "; check the model's name and the address"),
    429: ("is over its rate limit", "; try again later"),
    **dict.fromkeys((400, 413, 422), _TOO_MUCH),
}

# Providers whose clients are OpenAI's, or take an HTTP client under the same name.
_TAKE_A_CLIENT = frozenset({"openai", "azure_openai", "deepseek", "xai", "openrouter", "groq", "perplexity"})


def is_bounded(name: str) -> bool:
    """Whether the client of `provider:model` keeps to our bounds of size and time, and follows no redirects."""
    return name.partition(":")[0] in _TAKE_A_CLIENT | {"ollama"}


def load_model(name: str, connection: Connection) -> BaseChatModel:
    """The chat model `provider:model`, without retries, over a bounded connection. Raises AgentError."""
    provider, colon, model = name.partition(":")
    if not (provider and colon and model):
        raise AgentError(f"--llm {name}: not provider:model; for instance openai:gpt-5 or ollama:llama3.1")
    try:
        from langchain.chat_models import init_chat_model
    except ImportError as error:
        raise AgentError("a language model needs LangChain: pip install 'logdiag[agent]'") from error
    try:
        return _initialised(init_chat_model, model, provider, connection)
    except ImportError as error:
        package = f"langchain-{provider.replace('_', '-')}"
        raise AgentError(f"--llm {name}: the provider's package is missing: pip install {package}") from error
    except Exception as error:  # each provider's client has errors of its own for what it was set up with
        if "Unsupported provider" in str(error) or "Unsupported model_provider" in str(error):
            raise AgentError(f"--llm {name}: LangChain knows no provider {provider}; check its spelling") from error
        if "api_key" in str(error).lower() or "credential" in str(error).lower():
            key = _KEYS.get(provider, f"{provider.upper()}_API_KEY")
            raise AgentError(f"--llm {name}: no key; set {key}") from error
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise AgentError(f"--llm {name}: cannot be set up ({lines[0][:200]}); check its variables") from error


def _initialised(init: Callable[..., Any], model: str, provider: str, connection: Connection) -> BaseChatModel:
    """The model; without bounds of its own where its client knows no such arguments."""
    try:
        bounded: BaseChatModel = init(model, model_provider=provider, **_arguments(provider, connection))
        return bounded
    except (TypeError, ValueError) as error:
        if not any(name in str(error) for name in ("timeout", "max_retries", "max_tokens", "http_client")):
            raise
        plain: BaseChatModel = init(model, model_provider=provider)
        return plain


def _arguments(provider: str, connection: Connection) -> dict[str, Any]:
    """What bounds one request, in the words of a provider's client."""
    timeout = connection.seconds_left
    if provider == "ollama":
        bounds = {"timeout": timeout, "follow_redirects": False}
        return {
            "client_kwargs": bounds,
            "sync_client_kwargs": {"transport": connection.transport()},
            "num_predict": _MOST_ANSWER_TOKENS,
            "num_ctx": _OLLAMA_WINDOW,
        }
    arguments: dict[str, Any] = {"timeout": timeout, "max_retries": 0, "max_tokens": _MOST_ANSWER_TOKENS}
    if provider in _TAKE_A_CLIENT:
        arguments["http_client"] = connection.client()
    own_server = os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE")
    if provider == "openai" and own_server and not os.environ.get("OPENAI_API_KEY"):
        arguments["api_key"] = _NO_KEY
    return arguments


def failure_of(error: BaseException) -> str:
    """What an error of a model's client means, as the end of the sentence "the model ..."."""
    if (cause := _of_ours(error)) is not None:
        return TIMED_OUT if isinstance(cause, TimeoutError) else f"could not be asked: {cause}"
    status = getattr(error, "status_code", None) or getattr(getattr(error, "response", None), "status_code", None)
    names = {kind.__name__.lower() for kind in type(error).__mro__}
    if isinstance(status, int) and status >= 400:
        says, advice = _STATUS.get(status, ("failed on its server", ""))
        return f"{says} (HTTP {status}){advice}"
    if isinstance(status, int) and status >= 300:
        return f"sends on to another address (HTTP {status}), which is not followed; set the address that is meant"
    if any("timeout" in name for name in names):
        return TIMED_OUT
    if any("connect" in name or "protocol" in name or "transport" in name for name in names):
        return "could not be reached, or the connection broke; check its address and that it runs"
    if any("json" in name or "decode" in name or "validation" in name for name in names):
        return "answered with something that is no chat answer; check that its address is that of a chat server"
    lines = str(error).strip().splitlines()
    return f"failed ({type(error).__name__}{': ' + lines[0][:120] if lines else ''})"


def _of_ours(error: BaseException | None) -> BaseException | None:
    """The error of ours that a client wrapped in its own, if there is one."""
    for _ in range(8):
        if error is None or isinstance(error, (AgentError, TimeoutError)):
            return error
        error = error.__cause__ or error.__context__
    return None
