"""Adapter that lets HPO-B's own handler run the methods of Rankwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rankwise import methods
from rankwise.archive.sources.hpob_tables import Box, box
from rankwise.bench.protocol import Chooser
from rankwise.errors import OptionError
from rankwise.history.task import Task, TaskSet
from rankwise.types import Array

Evaluations = tuple[Any, Any]
"""Configurations (n, d) and their accuracies, (n,) or (n, 1)."""


class HpobMethod:
    """A method with the interface of HPO-B's handler: `observe_and_suggest`.

    Columns are scaled linearly, as those of HPO-B's tables need. A table's own columns must be
    transformed before, for example to the logarithm of a learning rate.

    It keeps no state between calls. A suggestion depends only on the seed and the arguments, so
    one object can be used for several data sets.

    Args:
        name: name of the method, one of `rankwise.methods.available()`.
        source_tasks: evaluations of source tasks by name.
        validation_tasks: evaluations of more source tasks by name, for early stopping.
        seed: seed of all random numbers, those of the learning included. The option
            `learning_seed` gives the learning another one.
        **options: options of the method.
    """

    def __init__(
        self,
        name: str,
        source_tasks: Mapping[str, Evaluations] | None = None,
        validation_tasks: Mapping[str, Evaluations] | None = None,
        seed: int = 0,
        **options: Any,
    ) -> None:
        self._name, self._seed, self._options = name, seed, options
        self._row = methods.get(name)
        if "learning_seed" in self._row.options:
            self._options = {"learning_seed": seed, **options}
        source, validation = dict(source_tasks or {}), dict(validation_tasks or {})
        self._box: Box | None = None
        if source:
            self._box = box([np.asarray(X, dtype=float) for X, _ in source.values()])
            self._chooser = self._make_chooser(self._box, source, validation)

    def observe_and_suggest(self, X_obs: Any, y_obs: Any, X_pen: Any = None) -> int | Array:
        """Choose the next configuration to evaluate.

        Args:
            X_obs: evaluated configurations (n, d).
            y_obs: accuracies of X_obs, (n,) or (n, 1); larger is better.
            X_pen: configurations (m, d) to choose from, or None.

        Returns:
            The index of a row of `X_pen`. If that is None, any configuration of the space, as an
            array (1, d).

        Raises:
            OptionError: `X_pen` is empty.
        """
        observed = np.asarray(X_obs, dtype=float)
        pool = None if X_pen is None else np.asarray(X_pen, dtype=float)
        if pool is not None and not len(pool):
            raise OptionError("X_pen is empty: there is no configuration to choose from")
        scale, chooser = self._box, getattr(self, "_chooser", None)
        if scale is None or chooser is None:
            scale = box([observed] if pool is None else [observed, pool])
            chooser = self._make_chooser(scale, {}, {})
        history = _task("", scale, (observed, y_obs))
        if pool is not None:
            return chooser.choose(history, scale.scale(pool))
        return scale.unscale(chooser.propose(history)[None])

    def _make_chooser(
        self,
        scale: Box,
        source: Mapping[str, Evaluations],
        validation: Mapping[str, Evaluations],
    ) -> Chooser:
        past: TaskSet | tuple[()] = ()
        if self._row.transfer:
            past = TaskSet(
                tuple(_task(name, scale, pair) for name, pair in source.items()),
                tuple(_task(name, scale, pair) for name, pair in validation.items()),
                scale.encoder.fingerprint,
            )
        strategy = methods.make(self._name, scale.encoder, past, **self._options)
        return Chooser(strategy, self._seed)


def hpob_method(
    name: str,
    source_tasks: Mapping[str, Evaluations] | None = None,
    validation_tasks: Mapping[str, Evaluations] | None = None,
    seed: int = 0,
    **options: Any,
) -> HpobMethod:
    """Make a method for HPO-B's handler; see `HpobMethod` for the arguments.

    Example:
        >>> import numpy as np
        >>> X = np.random.default_rng(0).random((20, 3))
        >>> method = hpob_method("gp", seed=1)
        >>> row = method.observe_and_suggest(X[:5], X[:5].sum(axis=1), X[5:])
        >>> 0 <= row < 15
        True
    """
    return HpobMethod(name, source_tasks, validation_tasks, seed, **options)


def _task(name: str, scale: Box, pair: Evaluations) -> Task:
    X, y = (np.asarray(part, dtype=float) for part in pair)
    return Task.of(scale.scale(X), -y.reshape(-1), name=name)
