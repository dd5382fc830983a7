"""`logdiag slurm JOBID` and `logdiag k8s job/NAME`: what a cluster knows of a job, diagnosed as one case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

import click

from logdiag.cli.main import report_on
from logdiag.cli.options import PATH, arguments_of, form_of_report, policy_option, settings_in_force, shared
from logdiag.cli.output import printing
from logdiag.errors import LogdiagError
from logdiag.model import Diagnosis
from logdiag.pipeline import diagnose
from logdiag.read.clusters import Gathered

# The keys of a job's metadata that filters, the memory and a model are shown.
_SHARED_KEYS = ("id", "name", "user")
_EXAMPLES_OF_SLURM = """\b
Examples:
  logdiag slurm 4711                          its output, Slurm's record of it, and kernel logs
  logdiag slurm 4711_3 --format json          a task of an array, for a program
  logdiag slurm 4711 logs/rank*.out           the job's logs are elsewhere
  logdiag slurm 4711 --kernel-logs '/var/log/nodes/%N/kern.log'"""

_EXAMPLES_OF_K8S = """\b
Examples:
  logdiag k8s job/pretrain -n research
  logdiag k8s jobset/pretrain -n research     all jobs of a JobSet, as one case
  logdiag k8s pod/trainer-0 --format markdown"""


@click.command("slurm", epilog=_EXAMPLES_OF_SLURM, short_help="Diagnose a job of Slurm by its id.")
@click.argument("job_id", metavar="JOBID")
@click.argument("logs", nargs=-1, type=PATH, metavar="[LOG]...")
@click.option("--kernel-logs", metavar="PATTERN", help="Where the nodes' kernel logs are kept; %N is a node's name.")
@click.option(
    "--decide", "folder", metavar="DIR", help="Say what the policy does next; DIR keeps what was decided of each job."
)
@policy_option
@form_of_report
@shared
def slurm_command(
    job_id: str,
    logs: tuple[str, ...],
    kernel_logs: str | None,
    folder: str | None,
    policy_file: str | None,
    **options: Any,
) -> None:
    """Diagnose a job of Slurm: its output (or the LOGs that you name), what Slurm says of its end and its nodes, and
    their kernel logs, as one case."""
    from logdiag.read.clusters.slurm import gather
    from logdiag.recovery.ledger import choice_for
    from logdiag.recovery.policy import load_policy

    if policy_file and not folder:
        raise LogdiagError(f"--policy {policy_file}: is for what is decided; give --decide DIR")
    further = partial(choice_for, policy=load_policy(policy_file), folder=folder) if folder else None
    _report(lambda: gather(job_id, logs=logs, kernel_logs=kernel_logs), options, further)


@click.command("k8s", epilog=_EXAMPLES_OF_K8S, short_help="Diagnose a job or a pod of Kubernetes by its name.")
@click.argument("target", metavar="job/NAME|jobset/NAME|pod/NAME")
@click.option("-n", "--namespace", metavar="NAME", help="Where it is; else as the kubeconfig says.")
@form_of_report
@shared
def k8s_command(target: str, namespace: str | None, **options: Any) -> None:
    """Diagnose a job, a JobSet or a pod of Kubernetes: the logs of its containers, also before a restart, what became
    of them, events and its nodes' conditions, as one case."""
    settings_in_force(options).check_online(f"the cluster cannot be asked for {target}")
    from logdiag.read.clusters.k8s import gather

    with TemporaryDirectory(prefix="logdiag-") as folder:
        _report(lambda: gather(target, namespace, folder), options)


def _report(
    gather: Callable[[], Gathered],
    options: dict[str, Any],
    further: Callable[[Diagnosis], Mapping[str, str]] | None = None,
) -> None:
    """Gathers a job's logs and facts, and prints its diagnosis with them. `further` makes facts of the diagnosis."""
    style, arguments = printing(options), arguments_of(options)
    gathered = gather()
    shared_facts = {name: gathered.job[name] for name in _SHARED_KEYS if name in gathered.job}
    arguments["job"] = {**shared_facts, **arguments["job"]}

    def with_facts(answer: Diagnosis) -> Diagnosis:
        return replace(answer, job=dict(gathered.job), notes=(*answer.notes, *gathered.notes))

    def run_diagnosis(first: Callable[[Diagnosis], None]) -> Diagnosis:
        arguments["first"] = lambda answer: first(with_facts(answer))
        answer = with_facts(diagnose(*gathered.sources, **arguments, exit_code=gathered.exit_code))
        return replace(answer, job={**answer.job, **(further(answer) if further else {})})

    report_on(run_diagnosis, arguments, style)
