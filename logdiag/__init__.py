"""logdiag: from a dead job's log to its root cause, in one read."""

from logdiag._version import __version__ as __version__
from logdiag.errors import AgentError, LogdiagError, MemoryStoreError, RuleError, SourceError
from logdiag.model import (
    Action,
    Candidate,
    Category,
    Consequence,
    Diagnosis,
    Digest,
    Evidence,
    Line,
    Reason,
    Recovery,
    RootCause,
    Similar,
    Support,
    Suspect,
    Times,
)
from logdiag.pipeline import diagnose
from logdiag.report import render

__all__ = [
    "Action",
    "AgentError",
    "Candidate",
    "Category",
    "Consequence",
    "Diagnosis",
    "Digest",
    "Evidence",
    "Line",
    "LogdiagError",
    "MemoryStoreError",
    "Reason",
    "Recovery",
    "RootCause",
    "RuleError",
    "Similar",
    "SourceError",
    "Support",
    "Suspect",
    "Times",
    "diagnose",
    "render",
]
