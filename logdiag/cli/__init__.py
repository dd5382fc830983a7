"""The command: parsing and exit codes only."""

from logdiag.cli.main import main

__all__ = ["main"]
