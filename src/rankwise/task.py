"""Task: one data set's history of evaluated configurations; TaskSet: those of one space."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import Self

from rankwise.context.data import Context, known_facts
from rankwise.errors import ConfigurationError, OptionError, check_name
from rankwise.types import Array, Mask

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from rankwise.result import Result
    from rankwise.space import Encoder

OK = "ok"
FAILED = "failed"  # the objective raised
INVALID = "invalid"  # it returned NaN, an infinity or something that is not a number
TIMEOUT = "timeout"  # it took too long
STATUSES = (OK, FAILED, INVALID, TIMEOUT)

_ENOUGH_TO_SPLIT = 5  # tasks
_MARGIN = 0.1  # how far beyond the worst loss a failure is put, in units of the losses' range


@dataclass(frozen=True)
class Task:
    """Encoded configurations and what came of them; smaller losses are better.

    Attributes:
        X: configurations (n, d) in the unit cube.
        y: losses (n,); NaN where the evaluation has no usable loss.
        cost: seconds (n,) that each evaluation took; NaN where unknown.
        status: what became of each evaluation, one of `STATUSES`.
        name: of the task.
        context: what is known about its data set: numbers by name, such as meta-features; a
            `Context` may hold some of its rows besides.
        shared: which evaluations (n,) the study's method was not asked for one at a time, with all
            earlier ones known: those of a design, told without being asked for, or of a batch;
            None: no such ones.
    """

    X: Array
    y: Array
    cost: Array
    status: tuple[str, ...]
    name: str = ""
    context: Mapping[str, float] = field(default_factory=dict)
    shared: Mask | None = None

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
        """A checked task; losses that are not finite become `INVALID` if no status says more."""
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
        return cls(X, np.where(usable, y, np.nan), seconds, tuple(status), name, known, common)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def ok(self) -> Mask:
        """Which evaluations (n,) have a loss."""
        return ~np.isnan(self.y)

    @property
    def losses(self) -> Array:
        """Losses (n,) with every failure imputed: the worst loss seen plus a margin.

        A failure is bad news, not missing news: a model that never sees it would go back there.
        """
        return impute(self.y)

    def rows(self, which: Sequence[int]) -> Task:
        """Some of the evaluations, in the order that is given."""
        some = list(which)
        status = tuple(self.status[k] for k in some)
        shared = None if self.shared is None else self.shared[some]
        X, y, cost = self.X[some], self.y[some], self.cost[some]
        return replace(self, X=X, y=y, cost=cost, status=status, shared=shared)

    def extended(self, X: Array, y: float) -> Task:
        """This task with some more configurations X (m, d), all of loss y (a lie)."""
        m = len(X)
        shared = None if self.shared is None else np.concatenate([self.shared, np.ones(m, bool)])
        return replace(
            self,
            X=np.concatenate([self.X, X]),
            y=np.concatenate([self.y, np.full(m, y)]),
            cost=np.concatenate([self.cost, np.full(m, np.nan)]),
            status=self.status + (OK,) * m,
            shared=shared,
        )


@dataclass(frozen=True)
class TaskSet:
    """Past tasks of one space, from which a study of that space can learn.

    Attributes:
        tasks: to learn from.
        validation: tasks that are not learnt from but say how well it goes.
        fingerprint: of the space; "" if unknown.
    """

    tasks: tuple[Task, ...]
    validation: tuple[Task, ...] = ()
    fingerprint: str = ""

    @classmethod
    def of(
        cls,
        space: ConfigurationSpace | Mapping[str, Any] | Encoder,
        studies: Mapping[str, Task | Result | tuple[Sequence[Mapping[str, Any]], Sequence[float]]],
    ) -> Self:
        """Encode studies.

        Args:
            space: that they share: a ConfigSpace space, the dict shorthand, or an encoder.
            studies: by name: a result of `rankwise.minimize`, a pair of configurations and losses
                (smaller is better, NaN for a failure), or a task that is encoded already.

        Raises:
            ConfigurationError: a configuration does not belong to the space; the message names
                the study.
        """
        from rankwise.space import Encoder

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
        """All tasks, to learn from and for validation."""
        return self.tasks + self.validation

    def split(self, share: float = 0.2, seed: int = 0) -> TaskSet:
        """Set a part of the tasks aside for validation: none of fewer than five.

        Args:
            share: of the tasks, rounded up.
            seed: of the choice.
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
        """Of all numbers in it: two sets with the same one teach the same."""
        digest = hashlib.sha256(self.fingerprint.encode())
        for part in (self.tasks, self.validation):
            digest.update(len(part).to_bytes(8, "big"))
            for task in part:
                digest.update(len(task).to_bytes(8, "big"))
                digest.update(task.X.tobytes() + task.losses.tobytes())
                if task.context:
                    digest.update(repr(sorted(task.context.items())).encode())
                if isinstance(task.context, Context) and task.context.rows is not None:
                    digest.update(task.context.rows.digest.encode())
        return digest.hexdigest()


def _task(encoder: Encoder, name: str, study: Any) -> Task:
    if isinstance(study, Task):
        if study.X.shape[1] != encoder.n_columns:
            raise ConfigurationError(
                f"task {name!r} has {study.X.shape[1]} columns, not the {encoder.n_columns} of "
                "the space: encode it with Encoder(space).encode"
            )
        return replace(study, name=name)
    if hasattr(study, "trials"):  # a result; importing its class would be a circle
        sign = 1.0 if study.direction == "minimize" else -1.0
        study = ([t.configuration for t in study.trials], [sign * t.value for t in study.trials])
    configurations, losses = study
    try:
        return Task.of(encoder.encode(list(configurations)), losses, name=name)
    except ConfigurationError as error:
        raise ConfigurationError(f"study {name!r}: {error}") from error
    except ValueError as error:
        raise OptionError(f"study {name!r}: {error}") from error


def check_one_width(tasks: Iterable[Task]) -> None:
    """That all tasks have configurations of as many columns.

    Raises:
        OptionError: they have not.
    """
    columns = {task.X.shape[1] for task in tasks}
    if len(columns) > 1:
        raise OptionError(
            f"tasks of one space have configurations of one width, not {sorted(columns)}"
        )


def as_task_set(tasks: TaskSet | Iterable[Task] | None) -> TaskSet:
    """Tasks as a set; a plain sequence of them is of an unknown space, None is none.

    Raises:
        OptionError: it is something else.
    """
    if isinstance(tasks, TaskSet):
        return tasks
    found = tuple(tasks) if isinstance(tasks, Iterable) and not isinstance(tasks, str) else None
    if tasks is not None and (found is None or not all(isinstance(t, Task) for t in found)):
        raise OptionError(
            f"past tasks are a TaskSet or a sequence of Task, not {_kind(tasks)}: "
            "rankwise.TaskSet.of(space, {name: study, ...}) makes one from results of minimize "
            "and from pairs of configurations and losses"
        )
    return TaskSet(found or ())


def _kind(value: Any) -> str:
    """What something is, for a message."""
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
