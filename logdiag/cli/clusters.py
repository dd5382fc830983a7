"""`logdiag slurm JOBID` and `logdiag k8s job/NAME`: what a cluster knows of a job, diagnosed as one case."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from logdiag.cli.main import report_on
from logdiag.cli.options import brief_report, form_of_report, given, shared
from logdiag.cli.output import check_report, standard, status_of
from logdiag.clusters.gathered import Gathered
from logdiag.model import Diagnosis
from logdiag.pipeline import diagnose

__all__ = ["slurm_command"]

# What filters, the memory and a model may know of a job.
_FOR_ALL = ("id", "name", "user")
_EXAMPLES_OF_SLURM = """\b
Examples:
  logdiag slurm 4711                          its output, Slurm's record of it, and kernel logs
  logdiag slurm 4711_3 --format json          a task of an array, for a program
  logdiag slurm 4711 logs/rank*.out           the job's logs are elsewhere
  logdiag slurm 4711 --kernel-logs '/var/log/nodes/%N/kern.log'"""


@click.command("slurm", epilog=_EXAMPLES_OF_SLURM, short_help="Diagnose a job of Slurm by its id.")
@click.argument("job_id", metavar="JOBID")
@click.argument("logs", nargs=-1, type=click.Path(readable=False), metavar="[LOG]...")
@click.option("--kernel-logs", metavar="PATTERN", help="Where the nodes' kernel logs are kept; %N is a node's name.")
@form_of_report
@brief_report
@shared
def slurm_command(job_id: str, logs: tuple[str, ...], kernel_logs: str | None, **said: Any) -> None:
    """Diagnose a job of Slurm: its output (or the LOGs that you name), what Slurm says of its end and its nodes, and
    their kernel logs, as one case."""
    from logdiag.clusters.slurm import gather

    _report(lambda: gather(job_id, logs=logs, kernel_logs=kernel_logs), said)


def _report(gather: Callable[[], Gathered], said: dict[str, Any]) -> None:
    """Gathers a job and prints its diagnosis."""
    check_report(said["form"], said["outputs"], brief=said["brief"])
    asked = given(said)
    standard()
    gathered = gather()
    asked["job"] = {**{name: gathered.job[name] for name in _FOR_ALL if name in gathered.job}, **asked["job"]}

    def told(answer: Diagnosis) -> Diagnosis:
        return replace(answer, job=dict(gathered.job), notes=(*answer.notes, *gathered.notes))

    def ask(first: Callable[[Diagnosis], None]) -> Diagnosis:
        first_told: Callable[[Diagnosis], None] = lambda answer: first(told(answer))  # noqa: E731
        return told(diagnose(*gathered.sources, **asked, exit_code=gathered.exit_code, first=first_told))

    names = ("form", "digest", "brief", "verbose", "outputs")
    answer = report_on(ask, asked, **{name: said[name] for name in names})
    if said["by_category"]:
        sys.exit(status_of(answer))
