"""Numbers with their nouns and lists of names, for messages and reports."""

from __future__ import annotations

from collections.abc import Sequence


def count(n: int, what: str, several: str = "") -> str:
    """A number with its noun: "1 study", "2 studies".

    Args:
        n: the number.
        what: the noun in the singular.
        several: the plural; by default the singular with an s, or "ies" in place of a y.
    """
    plural = several or (f"{what[:-1]}ies" if what.endswith("y") else f"{what}s")
    return f"{n} {what if n == 1 else plural}"


def listed(names: Sequence[str], most: int = 8) -> str:
    """The first of some names as a text, and the number of the others.

    Args:
        names: the names; long ones are cut.
        most: number of names that are listed.
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(name[:60] for name in names[:most]) + more
