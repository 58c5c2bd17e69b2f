"""Answers arguments that other searches have with the name that they have here."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

_P = ParamSpec("_P")

_RENAMED = {
    "param_distributions": "space",
    "param_grid": "space",
    "search_spaces": "space",
    "n_iter": "n_trials",
    "study_name": "name",
    "storage": "archive",
}
"""Arguments of other searches, and the argument of ours that has the same meaning."""


def answers_other_names(init: Callable[_P, None]) -> Callable[_P, None]:
    """Decorator of `__init__`: a TypeError names the argument that was probably meant.

    The signature stays visible: scikit-learn reads parameters from it.
    """
    known = [name for name in inspect.signature(init).parameters if name != "self"]

    @wraps(init)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> None:
        for name in kwargs:
            if name not in known:
                raise TypeError(_unknown(name, known))
        init(*args, **kwargs)

    return checked


def _unknown(name: str, known: list[str]) -> str:
    text = f"RankwiseSearchCV has no argument {name!r}"
    if name in _RENAMED:
        return f"{text}; its name here is {_RENAMED[name]}="
    close = difflib.get_close_matches(name, known, n=1)
    return f"{text}; did you mean {close[0]}=?" if close else f"{text}; it has {', '.join(known)}"
