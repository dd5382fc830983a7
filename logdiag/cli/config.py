"""`logdiag config`: what is in force, where it came from, and what is installed."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping

import click

from logdiag._version import __version__
from logdiag.cli.options import settings_in_force
from logdiag.cli.output import say
from logdiag.errors import MemoryStoreError
from logdiag.settings import Settings
from logdiag.settings.places import cache_folders, default_memory, without_password

_SHOWN = ("rules", "memory", "llm", "llm_when", "llm_timeout", "votes", "budget", "offline")
_WIDEST = 60
# What each extra brings, by the modules that show that it is there.
_EXTRAS = {
    "memory": (("numpy", "faiss"), "similar incidents of your own"),
    "memory-models": (("sentence_transformers",), "similar incidents by a language model's vectors"),
    "team": (("psycopg",), "a store in PostgreSQL"),
    "agent": (("langchain", "langchain_openai", "detect_secrets"), "a language model for what is not sure"),
    "ollama": (("langchain_ollama",), "models of Ollama"),
}


@click.command("config")
@click.option("--config", "config_file", metavar="FILE", help="Settings to go by, instead of those looked for.")
def config(config_file: str | None) -> None:
    """Show what is in force and where each value came from."""
    settings = settings_in_force({"config": config_file})
    files = [("file", file.path, file.state) for file in settings.files]
    shown = [*rows(settings, os.environ), *files, *installed()]
    names, values = (max(len(row[column]) for row in shown) for column in (0, 1))
    for name, value, origin in shown:
        say(f"{name:<{names}}  {value:<{min(values, _WIDEST)}}  {origin}".rstrip())


def rows(settings: Settings, environ: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """(name, value, origin) of each setting, then the variables that are set for the model's provider. No secrets."""
    values = {name: getattr(settings, name) for name in _SHOWN}
    with contextlib.suppress(MemoryStoreError):
        values["memory"] = values["memory"] or default_memory()
    shown = [(name, _as_text(value), settings.origins.get(name, "")) for name, value in values.items()]
    provider = settings.llm.partition(":")[0].upper()
    variables = sorted(name for name in environ if provider and name.startswith(f"{provider}_"))
    return shown + [(name, "set", "environment") for name in variables]


def installed() -> list[tuple[str, str, str]]:
    """(name, value, remark) of the version, the cache and each extra: what it is for, and what it lacks."""
    from importlib.util import find_spec

    known = [
        ("version", __version__, f"Python {sys.version.split()[0]}"),
        ("cache", next(iter(cache_folders()), "-"), "compiled rules; LOGDIAG_CACHE names another"),
    ]
    for extra, (modules, use) in _EXTRAS.items():
        lacking = [module for module in modules if find_spec(module) is None]
        known.append((f"extra {extra}", "missing" if lacking else "there", use + "".join(f"; no {m}" for m in lacking)))
    return known


def _as_text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(value) or "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    return without_password(str(value)) or "-"
