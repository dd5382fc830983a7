"""What a training script asks to go on where `logdiag run` wants it to: which checkpoint, and which batches to skip
(docs/recovery.md).

It reads environment variables only, so that a script without logdiag can read them too: `LOGDIAG_RUN_ATTEMPT` (from 1),
`LOGDIAG_RUN_CHECKPOINT` (a path, empty for a new start), `LOGDIAG_RUN_SKIP` (`120-131,200-204`, both ends included) and
`LOGDIAG_RUN_EXCLUDE` (nodes that are left out, with commas). Without `logdiag run` they say: start anew, skip nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from logdiag.errors import LogdiagError


@dataclass(frozen=True, slots=True)
class Resume:
    """Where to go on: the attempt (from 1), the checkpoint to load (empty for none), ranges of batches to leave out
    (first and last) and the nodes that are left out."""

    attempt: int = 1
    checkpoint: str = ""
    skipped: tuple[tuple[int, int], ...] = ()
    excluded: tuple[str, ...] = ()

    def skips(self, batch: int) -> bool:
        """Whether a batch, by its number in the order of the data, is to be left out."""
        return any(first <= batch <= last for first, last in self.skipped)


def resume(environ: Mapping[str, str] = os.environ) -> Resume:
    """Reads the plan from the environment. Raises LogdiagError for a variable that is not in the form described
    above."""
    variables = {name: environ.get(f"LOGDIAG_RUN_{name}", "") for name in ("ATTEMPT", "CHECKPOINT", "SKIP", "EXCLUDE")}
    try:
        ranges = [item.split("-") for item in variables["SKIP"].split(",") if item]
        return Resume(
            attempt=int(variables["ATTEMPT"] or 1),
            checkpoint=variables["CHECKPOINT"],
            skipped=tuple((int(first), int(last)) for first, last in ranges),
            excluded=tuple(item for item in variables["EXCLUDE"].split(",") if item),
        )
    except ValueError as error:
        raise LogdiagError(
            "LOGDIAG_RUN_ATTEMPT, LOGDIAG_RUN_SKIP: not a number and ranges such as 3-5,8-9; unset them"
        ) from error
