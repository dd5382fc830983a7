"""The version, in one place that nothing else is imported for; `pyproject.toml` reads it from here."""

__version__ = "0.1.0"
