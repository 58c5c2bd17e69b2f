"""What the contexts of tasks allow distBO to compare."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

from rankwise.errors import RunWarning
from rankwise.surrogates.source_ensembles.tst import shared_features

DESCRIPTIONS = ("data", "manual", "index")
"""How a task is described: by an embedding of its data's rows ("data"), by meta-features
("manual"), or by a free vector that is fitted to its trials ("index")."""

_HAND = "hand_"  # prefix of the names of hand-made meta-features


def possible(wanted: str, contexts: Sequence[Mapping[str, float]]) -> str:
    """Return how tasks can be described; warn if it is not the wanted way.

    "data" needs rows in all contexts, "manual" needs a meta-feature that all contexts have, and
    "index" needs nothing. The result is the first of these, starting at `wanted`, that works.

    Args:
        wanted: One of `DESCRIPTIONS`.
        contexts: Contexts of the source tasks.
    """
    found = wanted
    if found == "data" and any(getattr(c, "rows", None) is None for c in contexts):
        found = "manual"
    if found == "manual" and not common_numbers(contexts):
        found = "index"
    if found != wanted:
        lacking = "rows" if wanted == "data" else "meta-features"
        instead = "their meta-features" if found == "manual" else "their trials alone"
        warnings.warn(
            f"not all past studies have {lacking} in their context: they are compared by "
            f"{instead}; give each past study context=Context.of(X, y)",
            RunWarning,
            stacklevel=2,
        )
    return found


def common_numbers(contexts: Sequence[Mapping[str, float]]) -> list[str]:
    """Return the names of meta-features that all contexts have.

    If some of them are hand-made (their names begin with "hand_"), only these are returned.
    """
    shared = shared_features(contexts)
    return [name for name in shared if name.startswith(_HAND)] or shared


def size_of(context: Mapping[str, float]) -> float:
    """Return the number of rows of a task's data set; 1 if it is unknown."""
    return float(getattr(context, "size", 0) or context.get("rows", 0.0) or 1.0)


def warn_of_missing(what: str) -> None:
    """Warn that the target task has no usable context; `what` is what the context lacks."""
    warnings.warn(
        f"the target study's context has no {what} to compare with the past studies: it is "
        "treated as an average study; give context=Context.of(X, y)",
        RunWarning,
        stacklevel=4,
    )
