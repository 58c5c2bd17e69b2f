"""What distBO learnt of past tasks, and how a new one joins them."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from rankwise.context.data import Context, DataRows
from rankwise.context.embedding import DataEmbedding
from rankwise.errors import ModelFileError, RunWarning
from rankwise.surrogates.dist_models import (
    DistModel,
    JointBLR,
    ProductGP,
    Rows,
    TaskDescriptions,
    seeded,
)
from rankwise.surrogates.exact import spread_over
from rankwise.surrogates.tst import shared_features
from rankwise.task import Task
from rankwise.types import Array

if TYPE_CHECKING:
    from rankwise.surrogates.dist import DistributionalTransfer

DESCRIPTIONS = ("data", "manual", "index")
"""How a task is described: by its data's rows, by hand-made numbers, not at all."""

_PLACES = 4  # numbers of a task that is described by its index
_LEAST = 5  # evaluations of a past task that a Gaussian process goes through
_FAR = 10.0  # times the distance from best to median, beyond which losses are as bad as that
_HAND = "hand_"


class Past(Rows):
    """What was learnt of past tasks, and what it takes to go on with a new one.

    Attributes:
        description: how they are described, one of `DESCRIPTIONS`.
        names: of the T tasks.
        best: their best configurations (T, d).
        data: rows of their data sets, None where they are not at hand.
        fixed: their descriptions (T, q).
        sizes: of their data sets (T,).
    """

    description: str
    names: tuple[str, ...]
    best: Array
    data: list[DataRows | None]
    fixed: Array
    sizes: Array

    @classmethod
    def of(cls, tasks: Sequence[Task], options: DistributionalTransfer) -> Past:
        tasks = _some_tasks(tasks, options)
        together = np.concatenate([t.losses for t in tasks])
        limit = _limit(together)
        together = np.minimum(together, limit)
        centre, unit = float(together.mean()), float(together.std()) or 1.0
        X, y, numbers = [], [], []
        share = max(2, options.rows // len(tasks))
        for k, task in enumerate(tasks):
            kept = spread_over(task.losses, share if options.kind == "gp" else len(task))
            if options.scale == "task":
                tame = np.minimum(task.losses, _limit(task.losses))
                z = (tame[kept] - tame.mean()) / (float(tame.std()) or 1.0)
            else:
                z = (np.minimum(task.losses[kept], limit) - centre) / unit
            X.append(task.X[kept])
            y.append(z)
            numbers.append(np.full(len(kept), k))
        past = cls(np.concatenate(X), np.concatenate(y), np.concatenate(numbers))
        past.centre, past.unit, past.worst = centre, unit, float(past.y.max())
        past.names = _names(tasks)
        past.best = np.stack([t.X[int(np.argmin(t.losses))] for t in tasks])
        contexts = [t.context for t in tasks]
        past.data = [getattr(c, "rows", None) for c in contexts]
        past.sizes = np.array([_size(c) for c in contexts])
        past.description = _possible(options.description, contexts)
        past._describe(contexts, options)
        return past

    centre: float
    unit: float
    worst: float
    embedding: DataEmbedding | None = None
    features: tuple[str, ...] = ()
    moments: Array
    state: dict[str, dict[str, Tensor]]

    def _describe(
        self, contexts: Sequence[Mapping[str, float]], options: DistributionalTransfer
    ) -> None:
        count = len(contexts)
        self.moments = np.empty((2, 0))
        if self.description == "index":
            rng = np.random.default_rng([options.seed, 3])
            self.fixed = rng.normal(size=(count, _PLACES))
        elif self.description == "manual":
            names = _common_numbers(contexts)
            table = np.array([[c[n] for n in names] for c in contexts])
            spread = table.std(axis=0)
            self.features = tuple(names)
            self.moments = np.stack([table.mean(axis=0), np.where(spread > 1e-9, spread, 1.0)])
            self.fixed = (table - self.moments[0]) / self.moments[1]
        else:
            data = [d for d in self.data if d is not None]
            with seeded(options.seed):
                network = options.network().double() if options.network else None
                self.embedding = DataEmbedding.fitting(options.embedding, data, network)
            with torch.no_grad():
                self.fixed = self.embedding(data).numpy()

    # ------------------------------------------------------------------ modules

    def modules(self, options: DistributionalTransfer) -> tuple[TaskDescriptions, DistModel]:
        """Fresh ones for the past alone."""
        describe = TaskDescriptions(
            self.description,
            self.data,
            self.fixed,
            self.embedding,
            self.sizes / self.sizes.max(),
            options.batch,
        )
        with torch.no_grad():
            psi = describe()
        with seeded(options.seed):
            return describe, self._model(psi, options)

    def _model(self, psi: Tensor, options: DistributionalTransfer) -> DistModel:
        columns = self.X.shape[1]
        if options.kind == "blr":
            return JointBLR(columns, psi)
        return ProductGP(columns, psi, options.own_noise)

    def keep(self, describe: TaskDescriptions, model: DistModel) -> None:
        """Remember what was learnt."""
        self.state = {"model": copy.deepcopy(model.state_dict())}
        if self.embedding is not None:
            self.state["embedding"] = copy.deepcopy(self.embedding.state_dict())
        with torch.no_grad():
            self.fixed = describe().numpy()[:, :-1]

    def with_target(
        self, task: Task, options: DistributionalTransfer
    ) -> tuple[TaskDescriptions, DistModel, Rows]:
        """Modules with what was learnt for past and target, and the rows of both."""
        context, count = task.context, len(self.names)
        data: list[DataRows | None] = [*self.data, None]
        embedding = copy.deepcopy(self.embedding)
        own = self.fixed.mean(axis=0)  # of a target of which nothing is known
        if self.description == "manual":
            if all(name in context for name in self.features):
                numbers = np.array([context[name] for name in self.features])
                own = (numbers - self.moments[0]) / self.moments[1]
            else:
                _warn_of_missing("numbers")
        elif self.description == "data":
            rows = getattr(context, "rows", None)
            assert embedding is not None
            if rows is not None and embedding.accepts(rows):
                data[-1] = rows
            else:
                _warn_of_missing("rows" if rows is None else "rows of the past's columns")
        told = isinstance(context, Context) or "rows" in context
        size = _size(context) if told else float(self.sizes.mean())
        sizes = np.append(self.sizes, size) / self.sizes.max()
        describe = TaskDescriptions(
            self.description,
            data,
            np.vstack([self.fixed, own]),
            embedding,
            np.minimum(sizes, 2.0),
            options.batch,
        )
        with torch.no_grad():
            psi = torch.as_tensor(np.column_stack([self.fixed, self.sizes / self.sizes.max()]))
        with seeded(options.seed):  # the weights are replaced at once
            model = self._model(psi, options)
        model.load_state_dict(self.state["model"])
        centre, unit = self.scale_of(task.losses, options.scale)
        z = np.minimum((task.losses - centre) / unit, self.worst + _FAR)
        if options.scale == "common":  # a failure is as bad as the worst that is known
            z[~task.ok] = self.worst
        width = self.X.shape[1]
        together = Rows(
            np.concatenate([self.X.numpy(), task.X.reshape(-1, width)]),
            np.concatenate([self.y.numpy(), z]),
            np.append(self.task.numpy(), np.full(len(task), count)),
        )
        return describe, model, together

    def scale_of(self, losses: Array, scale: str) -> tuple[float, float]:
        """Centre and unit of a target's losses."""
        if scale == "common":
            return self.centre, self.unit
        if not len(losses):
            return 0.0, 1.0
        return float(losses.mean()), float(losses.std()) or 1.0

    # ------------------------------------------------------------------ files

    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        arrays: dict[str, Array] = {
            "X": self.X.numpy(),
            "y": self.y.numpy(),
            "task": self.task.numpy(),
            "best": self.best,
            "fixed": self.fixed,
            "sizes": self.sizes,
            "moments": self.moments,
            "scale": np.array([self.centre, self.unit]),
        }
        for module, state in self.state.items():
            arrays |= {f"{module}.{name}": value.numpy() for name, value in state.items()}
        record: dict[str, Any] = {
            "names": list(self.names),
            "features": list(self.features),
            "description": self.description,
        }
        if self.embedding is not None:
            record["embedding"] = [
                self.embedding.kind,
                self.embedding.columns,
                self.embedding.classes,
                self.embedding.labels,
            ]
        return arrays, record

    @classmethod
    def from_parts(
        cls, arrays: Mapping[str, Array], record: Mapping[str, Any], options: Any
    ) -> Past:
        past = cls(arrays["X"], arrays["y"], arrays["task"])
        past.names, past.features = tuple(record["names"]), tuple(record["features"])
        past.description = record["description"]
        past.best, past.fixed, past.sizes = arrays["best"], arrays["fixed"], arrays["sizes"]
        past.moments = arrays["moments"]
        past.centre, past.unit = (float(value) for value in arrays["scale"])
        past.worst = float(past.y.max())
        past.data = [None] * len(past.names)
        past.state = {}
        for module in ("model", "embedding"):
            prefix = f"{module}."
            past.state[module] = {
                name.removeprefix(prefix): torch.as_tensor(value)
                for name, value in arrays.items()
                if name.startswith(prefix)
            }
        if "embedding" in record:
            kind, columns, classes, labels = record["embedding"]
            network = options.network().double() if options.network else None
            past.embedding = DataEmbedding(kind, columns, classes, network, labels)
            try:
                past.embedding.load_state_dict(past.state["embedding"])
            except RuntimeError as error:
                raise ModelFileError(
                    "the file was learnt with another network for rows: give the same one"
                ) from error
        return past


def _some_tasks(tasks: Sequence[Task], options: DistributionalTransfer) -> Sequence[Task]:
    """As many tasks as a Gaussian process of some rows can hold; a regression takes all."""
    most = max(options.rows // _LEAST, 1)
    if options.kind != "gp" or len(tasks) <= most:
        return tasks
    chosen = np.linspace(0, len(tasks) - 1, most).round().astype(int)
    return [tasks[k] for k in chosen]


def _limit(losses: Array) -> float:
    """What counts as the worst loss: a run that diverged must not set the scale."""
    low, middle = float(losses.min()), float(np.median(losses))
    spread = middle - low or float(np.median(np.abs(losses - middle))) or 1.0
    return middle + _FAR * spread


def _names(tasks: Sequence[Task]) -> tuple[str, ...]:
    """Of tasks, none twice."""
    found: dict[str, int] = {}
    names = []
    for task in tasks:
        name = task.name or "unnamed"
        found[name] = found.get(name, 0) + 1
        names.append(name if found[name] == 1 else f"{name} ({found[name]})")
    return tuple(names)


def _possible(wanted: str, contexts: Sequence[Mapping[str, float]]) -> str:
    """How tasks can be described: as wanted, or by what their contexts have."""
    possible = wanted
    if possible == "data" and any(getattr(c, "rows", None) is None for c in contexts):
        possible = "manual"
    if possible == "manual" and not _common_numbers(contexts):
        possible = "index"
    if possible != wanted:
        lacking = "rows" if wanted == "data" else "numbers"
        instead = "numbers about their data" if possible == "manual" else "their evaluations alone"
        warnings.warn(
            f"not all past tasks have {lacking} in their context: they are compared by {instead}; "
            "give each context=Context.of(X, y)",
            RunWarning,
            stacklevel=2,
        )
    return possible


def _common_numbers(contexts: Sequence[Mapping[str, float]]) -> list[str]:
    """Names of the numbers that all contexts have: the hand-made ones, else whatever there is."""
    shared = shared_features(contexts)
    return [name for name in shared if name.startswith(_HAND)] or shared


def _size(context: Mapping[str, float]) -> float:
    """Of a task's data set; 1 if it is not known."""
    return float(getattr(context, "size", 0) or context.get("rows", 0.0) or 1.0)


def _warn_of_missing(what: str) -> None:
    warnings.warn(
        f"the study's context has no {what} that could be compared with the past: it counts as an "
        "average task; give context=Context.of(X, y)",
        RunWarning,
        stacklevel=4,
    )
