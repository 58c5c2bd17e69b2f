"""Task: the evaluated configurations of one study; TaskSet: source tasks of one space."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from typing_extensions import Self

from rankwise.context.data import Context, known_facts
from rankwise.errors import ConfigurationError, OptionError, check_name
from rankwise.types import Array, Mask

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from rankwise.history.trial import Trial
    from rankwise.space.encoder import Encoder

OK = "ok"
FAILED = "failed"  # the objective raised
INVALID = "invalid"  # it returned NaN, an infinity or something that is not a number
TIMEOUT = "timeout"  # it took too long
STATUSES = (OK, FAILED, INVALID, TIMEOUT)

BUILTIN = "rankwise:builtin"
"""Number in the context of a task that is 1 for built-in studies."""
GROUP = "rankwise:group"
"""Number in the context of a task; tasks with equal numbers are near-duplicates."""

_ENOUGH_TO_SPLIT = 5  # fewer tasks are not split into training and validation
_LARGEST = 1e100  # larger losses are clipped: squares and cubes of sums stay finite
_MARGIN = 0.1  # a failure gets the worst loss plus this share of the range of losses


class Trials(Protocol):
    """The part of a `Result` from which a task is made."""

    @property
    def trials(self) -> Sequence[Trial]:
        """The trials, with values in the direction of the study."""

    @property
    def direction(self) -> str:
        """Return "minimize" or "maximize"."""


@dataclass(frozen=True)
class Task:
    """Encoded configurations with their losses; smaller is better.

    Attributes:
        X: configurations (n, d) in the unit cube.
        y: losses (n,), clipped to ±1e100; NaN where an evaluation has no usable loss.
        cost: seconds (n,) of each evaluation; NaN where unknown.
        status: status of each evaluation, one of `STATUSES`.
        name: name of the task.
        context: facts about its data set: numbers by name, such as meta-features; a `Context` may
            also hold some of its rows.
        shared: mask (n,) of evaluations that the method did not propose one at a time: those of
            an initial design, of a batch, or told without being asked for. None if there are none.
        weight: weight of the task among source tasks, from 0 to 1; `eb-gp` uses it.
        objectives: losses (n, m) of a study with several objectives, NaN where an evaluation has
            none; y is then the first one. None with one objective.
        constraints: values (n,) of each constraint by name; a trial is feasible if all of them
            are zero or less. NaN where unknown.
        fence: interquartile ranges above the third quartile beyond which surrogates clip losses
            (see `Standardize`). Values of constraints are not clipped: it would hide violations.
    """

    X: Array
    y: Array
    cost: Array
    status: tuple[str, ...]
    name: str = ""
    context: Mapping[str, float] = field(default_factory=dict)
    shared: Mask | None = None
    weight: float = 1.0
    objectives: Array | None = None
    constraints: Mapping[str, Array] = field(default_factory=dict)
    fence: float = 3.0

    @classmethod
    def of(
        cls,
        X: Array,
        y: Array | Sequence[float],
        cost: Array | Sequence[float] | None = None,
        status: Sequence[str] | None = None,
        name: str = "",
        context: Mapping[str, float] | None = None,
        shared: Mask | Sequence[bool] | None = None,
    ) -> Task:
        """Make a checked task; without `status`, losses that are not finite become `INVALID`."""
        X = np.atleast_2d(np.asarray(X, dtype=float))
        y = np.asarray(y, dtype=float).reshape(-1)
        if len(X) != len(y):
            raise ValueError(f"X has {len(X)} rows and y has {len(y)}")
        finite = np.isfinite(y)
        if status is None:
            status = [OK if f else INVALID for f in finite]
        for s in status:
            check_name("status", s, STATUSES)
        seconds = np.full(len(y), np.nan) if cost is None else np.asarray(cost, dtype=float)
        for what, values in (("status", status), ("cost", seconds), ("shared", shared)):
            if values is not None and len(values) != len(y):
                raise ValueError(f"{what} has {len(values)} entries and y has {len(y)}")
        usable = finite & np.array([s == OK for s in status], dtype=bool)
        known = known_facts(context)
        common = None if shared is None else np.asarray(shared, dtype=bool)
        y = np.where(usable, np.clip(y, -_LARGEST, _LARGEST), np.nan)
        return cls(X, y, seconds, tuple(status), name, known, common)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def ok(self) -> Mask:
        """Mask (n,) of the evaluations that have a loss."""
        return ~np.isnan(self.y)

    @property
    def losses(self) -> Array:
        """Losses (n,) with every failure imputed: the worst loss seen plus a margin.

        A model that does not see failures would propose similar configurations again.
        """
        return impute(self.y)

    @property
    def feasible(self) -> Mask:
        """Mask (n,) of the evaluations that have a loss and violate no known constraint."""
        found = self.ok
        for values in self.constraints.values():
            found = found & ~(values > 0.0)
        return found

    @property
    def all_losses(self) -> Array:
        """Losses (n, m) of all objectives, with failures imputed (see `losses`)."""
        if self.objectives is None:
            return self.losses[:, None]
        return np.stack([impute(column) for column in self.objectives.T], axis=1)

    def single(self, y: Array) -> Task:
        """The task of one objective or constraint with values y (n,)."""
        return replace(self, y=y, objectives=None, constraints={})

    def rows(self, which: Sequence[int]) -> Task:
        """The evaluations with the given indices, in that order."""
        some = list(which)
        return replace(
            self,
            X=self.X[some],
            y=self.y[some],
            cost=self.cost[some],
            status=tuple(self.status[k] for k in some),
            shared=None if self.shared is None else self.shared[some],
            objectives=None if self.objectives is None else self.objectives[some],
            constraints={name: values[some] for name, values in self.constraints.items()},
        )

    def extended(self, X: Array, y: float | Array) -> Task:
        """This task with further configurations X (m, d) and their assumed loss or losses y.

        It has one objective and no constraints.
        """
        m = len(X)
        shared = None if self.shared is None else np.concatenate([self.shared, np.ones(m, bool)])
        return replace(
            self,
            X=np.concatenate([self.X, X]),
            y=np.concatenate([self.y, np.full(m, y)]),
            cost=np.concatenate([self.cost, np.full(m, np.nan)]),
            status=self.status + (OK,) * m,
            shared=shared,
            objectives=None,
            constraints={},
        )


@dataclass(frozen=True)
class TaskSet:
    """Source tasks of one space.

    Attributes:
        tasks: tasks to learn from.
        validation: tasks that are used to stop the training early, not to learn from.
        fingerprint: fingerprint of the space; "" if unknown.
    """

    tasks: tuple[Task, ...]
    validation: tuple[Task, ...] = ()
    fingerprint: str = ""

    @classmethod
    def of(
        cls,
        space: ConfigurationSpace | Mapping[str, Any] | Encoder,
        studies: Mapping[str, Task | Trials | tuple[Sequence[Mapping[str, Any]], Sequence[float]]],
    ) -> Self:
        """Encode studies.

        Args:
            space: their common space: a ConfigSpace space, the dict shorthand, or an encoder.
            studies: by name a result of `rankwise.minimize`, a pair of configurations and
                losses (smaller is better, NaN for a failure), or an encoded task.

        Raises:
            ConfigurationError: a configuration does not belong to the space; the message names
                the study.
        """
        from rankwise.space.encoder import Encoder

        if not isinstance(studies, Mapping):
            raise OptionError(
                f"studies are a dict from names to studies, not {_kind(studies)}: "
                '{"first": result, "second": (configurations, losses)}'
            )
        encoder = space if isinstance(space, Encoder) else Encoder(space)
        tasks = tuple(_task(encoder, name, study) for name, study in studies.items())
        return cls(tasks, (), encoder.fingerprint)

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def everything(self) -> tuple[Task, ...]:
        """All tasks, including those for validation."""
        return self.tasks + self.validation

    def split(self, share: float = 0.2, seed: int = 0) -> TaskSet:
        """Set a part of the tasks aside for validation; fewer than five tasks are not split.

        Args:
            share: share of validation tasks; their number is rounded up.
            seed: seed of the random choice.
        """
        if not 0 <= share < 1:
            raise OptionError(f"the share of validation tasks is in [0, 1), not {share!r}")
        everything = self.everything
        if len(everything) < _ENOUGH_TO_SPLIT:
            return replace(self, tasks=everything, validation=())
        order = np.random.default_rng(seed).permutation(len(everything))
        n = min(int(np.ceil(share * len(everything))), len(everything) - 1)
        chosen = set(order[:n].tolist())
        parts: tuple[list[Task], list[Task]] = ([], [])
        for k, task in enumerate(everything):
            parts[k in chosen].append(task)
        return replace(self, tasks=tuple(parts[0]), validation=tuple(parts[1]))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all tasks; sets with equal digests give equal models."""
        digest = hashlib.sha256(self.fingerprint.encode())
        for part in (self.tasks, self.validation):
            digest.update(len(part).to_bytes(8, "big"))
            for task in part:
                digest.update(len(task).to_bytes(8, "big"))
                digest.update(task.X.tobytes() + task.losses.tobytes())
                if task.weight != 1.0:
                    digest.update(repr(task.weight).encode())
                if task.context:
                    digest.update(repr(sorted(task.context.items())).encode())
                if isinstance(task.context, Context) and task.context.rows is not None:
                    digest.update(task.context.rows.digest.encode())
        return digest.hexdigest()


def _task(encoder: Encoder, name: str, study: Any) -> Task:
    from rankwise.history.build import build_task

    if isinstance(study, Task):
        if study.X.shape[1] != encoder.n_columns:
            raise ConfigurationError(
                f"task {name!r} has {study.X.shape[1]} columns, not the {encoder.n_columns} of "
                "the space: encode it with Encoder(space).encode"
            )
        return replace(study, name=name)
    direction, several, directions, pruned = "minimize", None, (), None
    if hasattr(study, "trials"):  # a `Trials`
        direction, directions = study.direction, getattr(study, "directions", ())
        m = len(directions)
        if m > 1:
            several = np.array([t.values or (np.nan,) * m for t in study.trials], dtype=float)
        pruned = [t.pruned for t in study.trials]
        study = ([t.configuration for t in study.trials], [t.last for t in study.trials])
    configurations, values = study
    try:
        X = encoder.encode(list(configurations))
        return build_task(
            X,
            values,
            direction=direction,
            pruned=pruned,
            name=name,
            objectives=several,
            directions=directions,
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"study {name!r}: {error}") from error
    except ValueError as error:
        raise OptionError(f"study {name!r}: {error}") from error


def check_one_width(tasks: Iterable[Task]) -> None:
    """Check that all tasks have the same number of columns.

    Raises:
        OptionError: the numbers differ.
    """
    columns = {task.X.shape[1] for task in tasks}
    if len(columns) > 1:
        raise OptionError(
            f"tasks of one space have configurations of one width, not {sorted(columns)}"
        )


def check_columns(task: Task, columns: int) -> None:
    """Check that a target task has as many columns as the source tasks; an empty task passes.

    Args:
        task: target task.
        columns: number of columns of the source tasks.

    Raises:
        OptionError: the numbers differ.
    """
    if len(task) and task.X.shape[1] != columns:
        raise OptionError(
            f"the past studies have configurations of {columns} columns and the target study has "
            f"{task.X.shape[1]}"
        )


def as_task_set(tasks: TaskSet | Iterable[Task] | None) -> TaskSet:
    """Convert tasks to a `TaskSet`; a plain sequence has an unknown space, None is empty.

    Raises:
        OptionError: the argument is something else.
    """
    if isinstance(tasks, TaskSet):
        return tasks
    found = tuple(tasks) if isinstance(tasks, Iterable) and not isinstance(tasks, str) else None
    if tasks is not None and (found is None or not all(isinstance(t, Task) for t in found)):
        raise OptionError(
            f"past studies are a TaskSet or a sequence of Task, not {_kind(tasks)}: "
            "rankwise.TaskSet.of(space, {name: study, ...}) makes one from results of minimize "
            "and from pairs of configurations and losses"
        )
    return TaskSet(found or ())


def _kind(value: Any) -> str:
    """Description of a value's type, for a message."""
    of = ""
    if isinstance(value, Iterable) and not isinstance(value, str):
        of = " of " + ", ".join(sorted({type(item).__name__ for item in value})[:3])
    return f"a {type(value).__name__}{of}"


def impute(y: Array) -> Array:
    """Losses (n,) with NaN replaced by the worst one plus a tenth of their range."""
    missing = np.isnan(y)
    if not missing.any():
        return y
    if missing.all():
        return np.zeros_like(y)
    worst, best = float(np.max(y[~missing])), float(np.min(y[~missing]))
    margin = _MARGIN * (worst - best) if worst > best else max(_MARGIN * abs(worst), 1e-3)
    if not np.isfinite(worst + margin):  # losses near the largest float
        margin = 0.0
    return np.where(missing, worst + margin, y)
