"""`python -m logdiag`."""

from logdiag.cli import main

main()
