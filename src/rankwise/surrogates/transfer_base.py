"""`TransferSurrogate`: base class of surrogates that learn from source tasks."""

from __future__ import annotations

import copy
import inspect
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from typing_extensions import Self

from rankwise._core.threads import one_thread
from rankwise.errors import ModelFileError, OptionError
from rankwise.history.task import Task, check_one_width
from rankwise.surrogates.base import Surrogate
from rankwise.surrogates.empirical_bayes.past_functions import task_digest, teaches
from rankwise.surrogates.model_files import (
    check_fingerprint,
    damaged_if_it_raises,
    read_model,
    write_model,
)
from rankwise.types import Array


class TransferSurrogate(Surrogate):
    """A surrogate that learns from source tasks once and can then be saved and loaded.

    Every keyword argument of a subclass, one of which is `seed`, is an attribute of the same name.
    """

    file_kind: ClassVar[str]
    """Name of the kind of model in its files; `load` refuses files of another kind."""

    arrays_with_gaps: ClassVar[tuple[str, ...]] = ()
    """Names of the saved arrays in which NaN means "no value"."""

    seed: int

    @property
    @abstractmethod
    def meta_learned(self) -> bool:
        """True if something was learnt from source tasks."""

    def meta_fit(
        self,
        tasks: Sequence[Task],
        validation: Sequence[Task] = (),
        *,
        progress: bool | None = None,
    ) -> Self:
        """Learn from source tasks.

        No-op if no source task has at least three trials with different losses.

        Args:
            tasks: source tasks.
            validation: more source tasks. Surrogates with early stopping use them to select the
                best weights; all others learn from them too.
            progress: show a progress bar; by default if standard error is a terminal.

        Raises:
            OptionError: the tasks have different numbers of columns.
        """
        check_one_width([*tasks, *validation])
        training, held_out = self._select(tasks, validation)
        if training:
            with one_thread():
                self._learn(training, held_out, progress)
        return self

    def _select(
        self, tasks: Sequence[Task], validation: Sequence[Task]
    ) -> tuple[list[Task], list[Task]]:
        """The tasks to learn from and those for early stopping; by default there are no latter."""
        return useful_tasks([*tasks, *validation]), []

    @abstractmethod
    def _learn(
        self, tasks: Sequence[Task], validation: Sequence[Task], progress: bool | None
    ) -> None:
        """Learn from the tasks that `_select` returned, at least one."""

    def with_seed(self, seed: int) -> Self:
        """A copy with another seed; what was learnt is shared."""
        twin = copy.copy(self)
        twin.seed = seed
        return twin

    @property
    def settings(self) -> dict[str, Any]:
        """Keyword arguments that make a surrogate like this one, as JSON data."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    @classmethod
    def saved_settings(cls, record: Mapping[str, Any]) -> dict[str, Any]:
        """Settings of a file's record; those that this version does not have are left out."""
        known = inspect.signature(cls).parameters
        return {name: value for name, value in record["settings"].items() if name in known}

    @abstractmethod
    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return the learnt values: arrays by name, and a record of JSON data."""

    @abstractmethod
    def restore(self, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> None:
        """Restore the learnt values from the result of `parts`."""

    def save(self, path: str | Path, *, fingerprint: str = "") -> None:
        """Write what was learnt to a file.

        Args:
            path: file to write, by convention with the suffix ".safetensors".
            fingerprint: fingerprint of the search space (`Encoder.fingerprint`), which `load`
                checks.

        Raises:
            OptionError: nothing was learnt yet.
            ModelFileError: the file cannot be written.
        """
        if not self.meta_learned:
            raise OptionError("there is nothing to save: call meta_fit first")
        arrays, record = self.parts()
        record = {**record, "fingerprint": fingerprint, "settings": self.settings}
        write_model(path, self.file_kind, arrays, record)

    @classmethod
    def load(
        cls, path: str | Path, *, fingerprint: str = "", columns: int | None = None, **options: Any
    ) -> Self:
        """Read a surrogate that `save` wrote.

        Args:
            path: file to read.
            fingerprint: fingerprint of the search space of the target study. It is not checked if
                this or the saved one is "".
            columns: number of columns of encoded configurations; if given, the surrogate must
                predict such configurations, which finds arrays of a wrong shape.
            **options: keyword arguments that replace the saved ones. They must not change what is
                learnt.

        Raises:
            ModelFileError: the file does not exist, is damaged, or was made for another search
                space, by another version or with other options.
        """
        arrays, record = read_model(path, cls.file_kind, with_gaps=cls.arrays_with_gaps)
        check_fingerprint(path, record, fingerprint)
        with damaged_if_it_raises(path):
            saved = cls.saved_settings(record)
            cls(**saved)
        surrogate = cls(**{**saved, **options})
        with damaged_if_it_raises(path):
            surrogate.restore(arrays, record)
            if columns:
                surrogate._check_predictions(path, columns)
        return surrogate

    def _check_predictions(self, path: str | Path, columns: int) -> None:
        """Raise a `ModelFileError` if the first predictions of a study are not numbers."""
        task = Task.of(np.empty((0, columns)), [])
        X = np.linspace(0.2, 0.8, 3)[:, None].repeat(columns, axis=1)
        with warnings.catch_warnings(), np.errstate(all="ignore"), one_thread():
            warnings.simplefilter("ignore")
            posterior = self.with_seed(0).fit(task).predict(X)
        for numbers in (posterior.mean, posterior.std):
            if np.shape(numbers) != (len(X),) or not np.isfinite(numbers).all():
                raise ModelFileError(f"{path} is damaged: its predictions are not numbers")


def useful_tasks(tasks: Iterable[Task]) -> list[Task]:
    """The tasks that rank configurations and have columns, in an order of their own.

    They are sorted by `task_digest`, so that nothing depends on the order in which they are given.
    """
    return sorted((t for t in tasks if teaches(t) and t.X.shape[1]), key=task_digest)
