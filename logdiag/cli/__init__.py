"""The command: parsing and exit codes only."""

import gc
from typing import NoReturn

__all__ = ["main"]

# Rules and modules are thousands of objects that stay: collections while they are loaded cost time, and find nothing.
_SELDOM = 100_000


def main() -> NoReturn:
    """Runs the command."""
    gc.set_threshold(_SELDOM)
    from logdiag.cli.main import main as command

    command()
