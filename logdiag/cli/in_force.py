"""The settings that a command goes by; what the user should know of them goes to standard error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import click

from logdiag.cli.output import note
from logdiag.errors import MemoryStoreError
from logdiag.settings import Settings, load_settings
from logdiag.settings.places import default_memory


def settings_in_force(flags: Mapping[str, object]) -> Settings:
    """As `load_settings`, and tells its notes."""
    settings = load_settings(flags)
    for each in settings.notes:
        note(each)
    return settings


def memory_in_force(settings: Settings) -> str | Literal[False]:
    """What a diagnosis is to ask for past failures: the user's own store where none is named."""
    place = settings.store
    if place is not None:
        return place
    try:
        return default_memory()
    except MemoryStoreError as error:
        note(str(error))
        return False


def store_in_force(context: click.Context, option: click.Parameter, place: str | None) -> str | None:
    """Where a command that works on past failures finds them: the callback of its `--memory`."""
    return settings_in_force({"memory": place}).store_or_refusal()
