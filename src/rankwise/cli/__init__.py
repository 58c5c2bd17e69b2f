"""The command line: `rankwise`. Every command is a thin layer over the library."""

from rankwise.cli.app import main

__all__ = ["main"]
