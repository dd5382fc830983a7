"""The errors a caller can meet.

    LogdiagError            anything wrong with what logdiag was given
    ├── SourceError         a log that cannot be found, opened or read
    ├── RuleError           rule files that are broken; holds all problems at once
    ├── CaseError           labelled cases that are broken; holds all problems at once
    ├── MemoryStoreError    an incident store that cannot be used
    ├── AgentError          a language model that is set up wrongly
    └── WeightsError        weights of the suspects' ranking that are missing or broken

Each message is one sentence that names the file, the field and the remedy.
"""

from __future__ import annotations


class LogdiagError(Exception):
    """Something that logdiag was given cannot be used."""


class SourceError(LogdiagError):
    """A log that cannot be found, opened or read."""


class RuleError(LogdiagError):
    """Rule files that are broken."""


class CaseError(LogdiagError):
    """Labelled cases, or results of an evaluation, that are broken."""


class MemoryStoreError(LogdiagError):
    """An incident store that cannot be used."""


class AgentError(LogdiagError):
    """A language model that is set up wrongly."""


class WeightsError(LogdiagError):
    """Weights of the suspects' ranking that are missing or broken."""
