"""Facts about the data set that a study was run on, kept with the study."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import optuna

from rankwise.errors import OptionError

PREFIX = "rankwise:"
_KEY = PREFIX + "context"


def attach_context(study: optuna.Study, facts: Mapping[str, Any]) -> None:
    """Write down what is known about a study, such as the size of its data set.

    Facts that were attached before stay, unless they are given anew.

    Args:
        study: of Optuna.
        facts: by name; anything that JSON can hold.

    Raises:
        OptionError: JSON cannot hold them.

    Example:
        >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
        >>> study = optuna.create_study()
        >>> attach_context(study, {"rows": 150, "columns": 4})
        >>> read_context(study)
        {'rows': 150, 'columns': 4}
    """
    try:
        together = json.loads(json.dumps({**read_context(study), **facts}))
    except (TypeError, ValueError) as error:
        raise OptionError(
            f"the facts about study {study.study_name!r} must be plain numbers, texts, lists and "
            f"dicts: {error}"
        ) from error
    study.set_user_attr(_KEY, together)


def read_context(study: optuna.Study) -> dict[str, Any]:
    """What `attach_context` wrote down about a study."""
    return dict(study.user_attrs.get(_KEY, {}))


def context_of(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """All that a study's user attributes say about it: attached facts and the user's own."""
    own = {key: value for key, value in attributes.items() if not key.startswith(PREFIX)}
    attached = attributes.get(_KEY, {})
    return {**own, **(attached if isinstance(attached, Mapping) else {})}
