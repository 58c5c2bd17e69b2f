"""Facts about the data set that a study was run on, kept with the study."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import optuna

from rankwise.archive.places import model_folder
from rankwise.context.data import Context
from rankwise.errors import ModelFileError, OptionError, RunWarning, is_number

PREFIX = "rankwise:"
_KEY = PREFIX + "context"
_LONGEST = 200  # characters of a file's name


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


def attach_rows(place: str, name: str, context: Context) -> Path:
    """Keep rows of a study's data set beside its archive, for methods that learn from data.

    Rows are never kept unless this is called: whoever can read the archive's folder can read
    them afterwards. `open_archive` finds them again.

    Args:
        place: of the archive: the URL of a storage or the path of a file or folder.
        name: of the study.
        context: of its data set.

    Returns:
        The file.

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
    """What is known of a study's data set: its numbers, and its rows if they were kept."""
    numbers = {key: float(value) for key, value in facts.items() if is_number(value)}
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
    """All that a study's user attributes say about it: attached facts and the user's own."""
    own = {key: value for key, value in attributes.items() if not key.startswith(PREFIX)}
    attached = attributes.get(_KEY, {})
    return {**own, **(attached if isinstance(attached, Mapping) else {})}
