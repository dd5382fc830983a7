"""`logdiag run -- COMMAND`: runs a job, diagnoses it when it fails, and recovers by policy."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Any

import click

from logdiag.cli.options import (
    job_option,
    memory_in_force,
    metadata_of,
    offline,
    own_rules,
    past_failures,
    policy_option,
    settings_in_force,
)
from logdiag.cli.output import Printing, note, print_answer
from logdiag.errors import LogdiagError
from logdiag.model import Diagnosis
from logdiag.pipeline import diagnose
from logdiag.recovery.checkpoints import checkpoints_in
from logdiag.recovery.launch import launcher_of
from logdiag.recovery.ledger import Ledger
from logdiag.recovery.notices import Notifier
from logdiag.recovery.policy import load_policy
from logdiag.recovery.run import Setup, run_job
from logdiag.rules import RuleBook

_EXAMPLES = """\b
Examples:
  logdiag run --checkpoint-dir ckpt -- torchrun train.py --resume={checkpoint}
  logdiag run --nodes hosts -- mpirun --host {nodes:4} train.sh
  logdiag run --restart 0 -- python train.py        only watch it, and diagnose it when it fails"""
_MOST_SECONDS = 120.0


@click.command("run", epilog=_EXAMPLES, short_help="Run a job, diagnose it when it fails, recover by policy.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option(
    "--restart", type=click.IntRange(min=0), metavar="N", help="At most N restarts, whatever the policy says."
)
@click.option("--checkpoint-dir", metavar="DIR", help="Where the job saves; it goes on from the last whole checkpoint.")
@click.option(
    "--nodes", "nodes_file", metavar="FILE", help="The nodes that {nodes} and {exclude} choose from, one a line."
)
@policy_option
@click.option("--state", default="logdiag-run", metavar="DIR", help="Where the logs and the ledger go.")
@click.option("--notify", multiple=True, metavar="URL", help="A webhook, or slack:URL; may be repeated.")
@own_rules
@job_option
@past_failures
@click.option("--remember", is_flag=True, help="Keep each failure as an incident, and a named job's good run.")
@offline
def run_command(command: tuple[str, ...], **options: Any) -> None:
    """Run COMMAND, pass its output and exit status through, and diagnose it when it fails. By policy it is started
    again from its last whole checkpoint, without a broken node, or before a spike of the loss; or left to a person."""
    if os.name != "posix":
        raise LogdiagError("logdiag run needs Linux or another Unix; diagnose the job's log with logdiag LOG")
    settings = settings_in_force(options)
    if options["notify"]:
        settings.check_online("--notify may send nothing")
    policy = load_policy(options["policy_file"], options["restart"])
    launcher = launcher_of(command, options["nodes_file"], options["checkpoint_dir"])
    if options["checkpoint_dir"]:
        checkpoints_in(options["checkpoint_dir"])
    job = metadata_of(options["job"])
    notifier = Notifier(options["notify"])
    book, memory = RuleBook.load(settings.rules), memory_in_force(settings)

    def diagnose_log(log: str, status: int | None) -> Diagnosis:
        return diagnose(log, rules=book, memory=memory, remember=options["remember"], exit_code=status, job=job,
                        max_seconds=_MOST_SECONDS)  # fmt: skip

    setup = Setup(
        launcher, policy, book, Ledger(options["state"]), notifier, options["checkpoint_dir"], diagnose_log, note,
        partial(print_answer, style=Printing(err=True)),
    )  # fmt: skip
    try:
        status = run_job(setup)
        if status == 0 and options["remember"] and "name" in job:
            diagnose_log(setup.ledger.course.log, 0)  # kept, so that a later failure is compared with it
    finally:
        notifier.close()
        for text in notifier.notes:
            note(text)
    sys.exit(status)
