"""The options that several commands share, the settings in force, and the arguments of `diagnose` made of both."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

import click

from logdiag.cli.output import note
from logdiag.errors import LogdiagError, MemoryStoreError
from logdiag.model import Reason
from logdiag.report import FORMATS
from logdiag.settings import KEYS, Settings, load_settings
from logdiag.settings.places import default_memory

if TYPE_CHECKING:
    from logdiag.agent.opinion import AgentSettings

_MOST_WORKERS = 8
PATH = click.Path(readable=False)
"""The path of a file or a folder, which a shell completes. It is not checked here: opening it reports what is wrong."""
COUNT = click.IntRange(min=1)


class OneOf(click.Choice[Any]):
    """A member of an enumeration other than `none`, by its value."""

    def __init__(self, kind: type[Enum]) -> None:
        super().__init__([item for item in kind if item.value != "none"])

    def normalize_choice(self, choice: Any, ctx: click.Context | None) -> str:
        """Returns what stands for a member on the command line."""
        return str(choice.value if isinstance(choice, Enum) else choice)


REASONS = OneOf(Reason)

Command = Callable[..., None]


def added(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Adds several options to a command, in this order."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


def form_option(*forms: str, help: str = "How to print it.") -> Callable[[Command], Command]:
    """The `--format` option: one of `forms`, the first of them by default."""
    kinds = click.Choice(forms)
    return click.option("-f", "--format", "form", type=kinds, default=forms[0], help=help)


form_of_report = added(
    form_option(*FORMATS, help="How to print the answer."),
    click.option("--brief", is_flag=True, help="The verdict in six lines at most."),
)

text_or_json = form_option("text", "json")

own_rules = click.option(
    "--rules", multiple=True, type=PATH, metavar="DIR",
    help="A folder of your own rules, and of log forms in its forms/; may be repeated.",
)  # fmt: skip

job_option = click.option(
    "--job", multiple=True, metavar="KEY=VALUE", help="The job's name, user, framework or image, for filters."
)

offline = click.option("--offline", is_flag=True, default=None, help="No model, and no connection at all.")

past_failures = click.option(
    "--memory", type=PATH, metavar="PLACE",
    help="Past failures: a folder, or postgresql://...; else LOGDIAG_MEMORY or the user's data folder.",
)  # fmt: skip

model_limits = added(
    click.option("--llm-timeout", type=float, metavar="SECONDS", help="How long the model may take altogether."),
    click.option("--votes", type=int, metavar="N", help="How many answers of the model are compared."),
)

policy_option = click.option(
    "--policy", "policy_file", metavar="FILE", help="What to do about which failure (docs/recovery.md)."
)

status_of_job = click.option(
    "--exit-code-of-job", "job_status", type=click.IntRange(-64, 255), metavar="N",
    help="What the job itself ended with, 0 to 255, or minus the signal that ended it.",
)  # fmt: skip

shared = added(
    click.option(
        "-o", "--output", "outputs", multiple=True, type=PATH, metavar="FILE",
        help="Write the answer to FILE too: .txt, .json, .jsonl, .md, .html or .sarif; may be repeated.",
    ),
    click.option("--digest", is_flag=True, help="Print what is worth reading of the log, a receipt, and no verdict."),
    click.option("-v", "--verbose", is_flag=True, help="Fold nothing; show on standard error what a model was asked."),
    click.option(
        "--exit-code", "by_category", is_flag=True,
        help="Exit 0 healthy, 10 infrastructure, 11 framework, 12 script, 13 the log does not tell.",
    ),
    click.option(
        "--max-seconds", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
        help="Stop reading then, and diagnose what was read.",
    ),
    click.option("--max-bytes", type=COUNT, metavar="BYTES", help="The same after so much log, uncompressed."),
    click.option(
        "--workers", type=click.IntRange(min=0), metavar="N",
        help="So many processes read large logs, or jobs of a batch; 0 for this one alone; else one a core, up to 8.",
    ),
    own_rules,
    job_option,
    past_failures,
    click.option(
        "--baseline", "baselines", multiple=True, type=PATH, metavar="LOG",
        help="The log of a good run of this job: what is new since counts most; may be repeated.",
    ),
    click.option("--no-memory", is_flag=True, help="Let the rules alone decide."),
    click.option("--remember", is_flag=True, help="Keep this failure as an incident, or a named job's good run."),
    click.option(
        "--llm", multiple=True, metavar="MODEL",
        help="A language model as provider:model, and when to ask it: always, unsure (default) or never.",
    ),
    model_limits,
    click.option(
        "--config", type=PATH, metavar="FILE",
        help="Settings to go by, instead of the logdiag.toml files that are looked for (see logdiag config).",
    ),
    offline,
)  # fmt: skip


def settings_in_force(options: Mapping[str, object]) -> Settings:
    """Loads the settings with those among a command's options, and prints their notes on standard error."""
    settings = load_settings({name: options[name] for name in (*KEYS, "config") if name in options})
    for text in settings.notes:
        note(text)
    return settings


def memory_in_force(settings: Settings) -> str | Literal[False]:
    """Returns the address of the store of past failures to consult; False for a user without a home folder."""
    address = settings.store
    if address is not None:
        return address
    try:
        return default_memory()
    except MemoryStoreError as error:
        note(str(error))
        return False


def model_in_force(settings: Settings) -> AgentSettings | None:
    """Returns which model to ask and how; None where no model may be asked."""
    if not settings.may_ask:
        return None
    from logdiag.agent.opinion import AgentSettings

    return AgentSettings(settings.llm, settings.llm_timeout, settings.votes, settings.budget, settings.llm_when)


def metadata_of(pairs: Iterable[str]) -> dict[str, str]:
    """Returns the job's metadata by key, the last of equal keys. Raises LogdiagError for what is not KEY=VALUE."""
    for pair in pairs:
        if not pair.partition("=")[0] or "=" not in pair:
            raise LogdiagError(f"--job {pair}: not KEY=VALUE; give for instance name=pretrain")
    return dict(pair.split("=", 1) for pair in pairs)


def arguments_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of `diagnose` that the options, the environment and `logdiag.toml` set."""
    settings = settings_in_force(options)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "rules": settings.rules,
        "memory": False if options["no_memory"] else memory_in_force(settings),
        "baseline": options["baselines"] or None,
        "remember": options["remember"],
        "llm": model_in_force(settings),
        "job": metadata_of(options["job"]),
        "max_seconds": options["max_seconds"],
        "max_bytes": options["max_bytes"],
        "workers": min(cores, _MOST_WORKERS) if options["workers"] is None else options["workers"],
    }
