"""Facts about the data set of a study, stored with the study."""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import optuna

from rankwise.context.data import Context
from rankwise.errors import ModelFileError, OptionError, RunWarning, is_number
from rankwise.storage.locations import model_folder

PREFIX = "rankwise:"
TWIN = PREFIX + "twin"
"""Attribute of a study that only compares: a search without past studies beside one with them.

It is no past study of any other."""
UNDATED = PREFIX + "undated"
"""Attribute of an imported study whose source has no dates; those of its trials mean nothing."""
_KEY = PREFIX + "context"
_LONGEST = 200  # characters of a file name


def attach_context(study: optuna.Study, facts: Mapping[str, Any]) -> None:
    """Store facts about a study, such as the size of its data set.

    Facts with other names that were attached before are kept.

    Args:
        study: an Optuna study.
        facts: facts by name; any values that JSON can represent.

    Raises:
        OptionError: JSON cannot represent a value.

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
    """The facts that `attach_context` stored."""
    return dict(study.user_attrs.get(_KEY, {}))


def attach_rows(place: str, name: str, context: Context) -> Path:
    """Store rows of a study's data set beside its archive, for methods that learn from rows.

    Rows are stored only by this call. Everyone who can read the archive's folder can read them.
    `open_archive` finds them again.

    Args:
        place: the archive: URL of a storage, or path of a file or folder.
        name: name of the study.
        context: context of its data set, with rows.

    Returns:
        The file that was written.

    Raises:
        OptionError: the archive is only in memory, or the context has no rows.
    """
    folder = model_folder(place)
    if folder is None:
        raise OptionError(f"{place} is only in memory: there is no place for rows beside it")
    if context.rows is None:
        raise OptionError(f"the context of {name!r} has no rows; make it with Context.of(X, y)")
    path = _rows_file(folder, name)
    context.save(path)
    return path


def full_context(facts: Mapping[str, Any], folder: Path | None, name: str) -> Mapping[str, float]:
    """The context of a study: numbers among its facts, and rows if they were stored."""
    # An integer may be too large for a float.
    numbers = {
        key: float(value)
        for key, value in facts.items()
        if is_number(value) and abs(value) <= sys.float_info.max
    }
    path = None if folder is None else _rows_file(folder, name)
    if path is None or not path.exists():
        return numbers
    try:
        kept = Context.load(path)
    except ModelFileError as error:
        warnings.warn(f"the rows of {name!r} are not used: {error}", RunWarning, stacklevel=2)
        return numbers
    return Context({**kept, **numbers}, kept.rows, kept.size)


def _rows_file(folder: Path, name: str) -> Path:
    quoted = quote(name, safe="")
    if len(quoted) > _LONGEST:
        quoted = hashlib.sha256(name.encode()).hexdigest()
    return folder / "contexts" / f"{quoted}.npz"


def context_of(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attached facts and the user's own attributes of a study."""
    own = {key: value for key, value in attributes.items() if not key.startswith(PREFIX)}
    attached = attributes.get(_KEY, {})
    return {**own, **(attached if isinstance(attached, Mapping) else {})}
