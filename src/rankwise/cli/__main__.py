"""`python -m rankwise.cli`."""

from rankwise.cli.app import main

main()
