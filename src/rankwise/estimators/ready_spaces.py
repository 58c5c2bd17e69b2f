"""The table of ready-made spaces, and the lookup of an estimator in it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from rankwise.errors import OptionError, SpaceError, check_name
from rankwise.estimators.estimator_space import EstimatorSpace, together
from rankwise.estimators.parameter_names import accepts, check_estimator, inner_estimators
from rankwise.estimators.ready_other import OTHERS
from rankwise.estimators.ready_space import CLASSIFICATION, KINDS, ReadySpace
from rankwise.estimators.ready_trees import TREES
from rankwise.space.encoder import Encoder

_ROWS = (*TREES, *OTHERS)
_PACKAGES = {path.partition(".")[0] for row in _ROWS for path in row.classes.values()}
# A class is identified by package and name, because modules inside packages move.
_BY_CLASS = {
    (path.partition(".")[0], path.rpartition(".")[2]): (row, kind)
    for row in _ROWS
    for kind, path in row.classes.items()
}


def ready() -> list[ReadySpace]:
    """The ready-made spaces, one per estimator; classifier and regressor share one."""
    return list(_ROWS)


def space_of(estimator: Any) -> EstimatorSpace:
    """The ready-made space of an estimator.

    Every estimator of `ready()` is found, also as a step of a (nested) pipeline and inside an
    estimator without a space of its own, such as `BaggingRegressor(SVR())`. Names are those of
    `set_params` ("svc__C"). Parts without a ready-made space are not tuned. Parameters that the
    user set on the estimator are searched all the same if the space contains them.

    Raises:
        SpaceError: there is no ready-made space for any part of it.

    Example:
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import StandardScaler
        >>> from sklearn.linear_model import Ridge
        >>> found = space_of(make_pipeline(StandardScaler(), Ridge()))
        >>> found.name, found.params({"ridge__alpha": 0.5})
        ('ridge', {'ridge__alpha': 0.5})
    """
    check_estimator(estimator)
    parts = {
        step: EstimatorSpace(row.space_for(kind), row.name, row.decode)
        for step, row, kind in rows_in(estimator)
    }
    if not parts:
        raise SpaceError(
            f"there is no ready-made space for {type(estimator).__name__}; give one as space=, "
            f"a dict of ranges and lists (ready: {', '.join(row.name for row in _ROWS)})"
        )
    return together(parts)


def rows_in(estimator: Any, step: str = "") -> Iterator[tuple[str, ReadySpace, str]]:
    """Yield the parts of an estimator that have a ready-made space.

    Args:
        estimator: an estimator or a pipeline.
        step: prefix of the step's name; "" for the estimator itself.

    Yields:
        The name of the step, its ready-made space, and "classification" or "regression".
    """
    found = _row_of(estimator)
    if found:
        yield step, *found
        return
    for name, inner in inner_estimators(estimator).items():
        yield from rows_in(inner, f"{step}__{name}" if step else name)


def make_estimator(name: str, kind: str = CLASSIFICATION, seed: int | None = None) -> Any:
    """Make the estimator of a ready-made space.

    Args:
        name: name of the ready-made space, "random-forest".
        kind: "classification" or "regression".
        seed: `random_state` of the estimator, if it has one.

    Raises:
        UnknownNameError: there is no such space, or it has no estimator of this kind.
        OptionError: the estimator's package is not installed.
    """
    check_name("kind of estimator", kind, KINDS)
    rows = {row.name: row for row in _ROWS if kind in row.classes}
    row = rows[check_name(f"{kind} estimator", name, rows)]
    module, _, cls = row.classes[kind].rpartition(".")
    try:
        estimator = getattr(importlib.import_module(module), cls)(**row.settings)
    except ImportError as error:
        raise OptionError(f"{name} needs its package: pip install {module}") from error
    # CatBoost cannot be cloned with random_state=None.
    if seed is not None and accepts(estimator, "random_state"):
        estimator.set_params(random_state=seed)
    return estimator


def _row_of(estimator: Any) -> tuple[ReadySpace, str] | None:
    """The ready-made space of an estimator's class, or of a known base class of it."""
    own = type(estimator)
    if own.__module__.partition(".")[0] in _PACKAGES:
        # XGBoost's forest classes extend its boosting classes but need another space.
        return _BY_CLASS.get(_key(own))
    found = next((_BY_CLASS[_key(c)] for c in own.__mro__ if _key(c) in _BY_CLASS), None)
    if found is None:
        return None
    row, kind = found
    names = row.decode(Encoder(row.space_for(kind)).default)
    return found if all(accepts(estimator, name) for name in names) else None


def _key(cls: type) -> tuple[str, str]:
    return cls.__module__.partition(".")[0], cls.__name__
