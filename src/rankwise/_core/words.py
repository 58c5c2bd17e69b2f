"""Numbers with their nouns, for messages and reports."""

from __future__ import annotations


def count(n: int, what: str, several: str = "") -> str:
    """A number with its noun: "1 study", "2 studies".

    Args:
        n: the number.
        what: the noun in the singular.
        several: the plural; by default the singular with an s, or "ies" in place of a y.
    """
    plural = several or (f"{what[:-1]}ies" if what.endswith("y") else f"{what}s")
    return f"{n} {what if n == 1 else plural}"
