"""The source tasks of distBO: their trials and descriptions, and the learned parameters."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from rankwise.context.data import Context, DataRows
from rankwise.context.embedding import DataEmbedding
from rankwise.errors import ModelFileError, OptionError
from rankwise.history.task import Task
from rankwise.surrogates.distbo.contexts import (
    common_numbers,
    possible,
    size_of,
    warn_of_missing,
)
from rankwise.surrogates.distbo.models import (
    DistModel,
    JointBLR,
    ProductGP,
    Rows,
    TaskDescriptions,
    seeded,
)
from rankwise.surrogates.numeric.exact_gp import spread_over
from rankwise.types import Array

if TYPE_CHECKING:
    from rankwise.surrogates.distbo.surrogate import DistributionalTransfer

_INDEX_SIZE = 4  # length of a description of the kind "index"
_MIN_TRIALS = 5  # trials per source task that the Gaussian process uses at least
_FAR = 10.0  # losses are clipped at the median plus this many distances from best to median


class Past(Rows):
    """Trials and descriptions of T source tasks, and the parameters learned from them.

    The inherited X (N, d), y (N,) and task (N,) are the trials that the model uses.

    Attributes:
        description: How the tasks are described; one of `contexts.DESCRIPTIONS`.
        names: Names of the tasks, without duplicates.
        best: Best configuration of each task (T, d).
        data: Rows of each data set; None where they are not available, as after loading a file.
        fixed: Descriptions of the tasks (T, q).
        sizes: Numbers of rows of the data sets (T,).
        centre: Mean of all clipped losses.
        unit: Standard deviation of all clipped losses.
        worst: Largest scaled loss.
        embedding: Embedding of rows; None unless `description` is "data".
        features: Names of the k meta-features; empty unless `description` is "manual" or they
            follow the embedding in the descriptions.
        moments: Mean and standard deviation (2, k) of the meta-features.
        state: Learned parameters of the model and of the embedding.
    """

    description: str
    names: tuple[str, ...]
    best: Array
    data: list[DataRows | None]
    fixed: Array
    sizes: Array

    @classmethod
    def of(cls, tasks: Sequence[Task], options: DistributionalTransfer) -> Past:
        """Choose and scale the trials of source tasks and compute initial descriptions.

        Args:
            tasks: Source tasks, at least one.
            options: Options of the surrogate.
        """
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
                clipped = np.minimum(task.losses, _limit(task.losses))
                z = (clipped[kept] - clipped.mean()) / (float(clipped.std()) or 1.0)
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
        past.sizes = np.array([size_of(c) for c in contexts])
        past.description = possible(options.description, contexts)
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
        """Set the initial descriptions of the tasks, and what is needed to describe new ones."""
        count = len(contexts)
        self.moments = np.empty((2, 0))
        if self.description == "index":
            rng = np.random.default_rng([options.seed, 3])
            self.fixed = rng.normal(size=(count, _INDEX_SIZE))
        elif self.description == "manual":
            self.fixed = self._meta_features(contexts)
        else:
            data = [d for d in self.data if d is not None]
            with seeded(options.seed):
                network = options.network().double() if options.network else None
                self.embedding = DataEmbedding.fitting(options.embedding, data, network)
            with torch.no_grad():
                self.fixed = self.embedding(data).numpy()
            if options.handmade:
                if not common_numbers(contexts):
                    raise OptionError(
                        "handmade=True needs meta-features that all past studies have in their "
                        "context; give each past study context=Context.of(X, y)"
                    )
                self.fixed = np.hstack([self.fixed, self._meta_features(contexts)])

    def _meta_features(self, contexts: Sequence[Mapping[str, float]]) -> Array:
        """Return the meta-features (T, k) of source tasks, scaled to mean 0 and deviation 1.

        Sets `features` and `moments`.
        """
        names = common_numbers(contexts)
        table = np.array([[c[n] for n in names] for c in contexts])
        spread = table.std(axis=0)
        self.features = tuple(names)
        self.moments = np.stack([table.mean(axis=0), np.where(spread > 1e-9, spread, 1.0)])
        scaled: Array = (table - self.moments[0]) / self.moments[1]
        return scaled

    # ------------------------------------------------------------------ modules

    def modules(self, options: DistributionalTransfer) -> tuple[TaskDescriptions, DistModel]:
        """Create untrained descriptions and an untrained model for the source tasks."""
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
        """Create an untrained model of the kind that the options name.

        Args:
            psi: Descriptions of the source tasks and relative sizes (T, q + 1).
            options: Options of the surrogate.
        """
        columns = self.X.shape[1]
        if options.kind == "blr":
            return JointBLR(columns, psi)
        return ProductGP(columns, psi, options.own_noise)

    def keep(self, describe: TaskDescriptions, model: DistModel) -> None:
        """Store the learned parameters and the descriptions that result from them."""
        self.state = {"model": copy.deepcopy(model.state_dict())}
        if self.embedding is not None:
            self.state["embedding"] = copy.deepcopy(self.embedding.state_dict())
        with torch.no_grad():
            self.fixed = describe().numpy()[:, :-1]

    def with_target(
        self, task: Task, options: DistributionalTransfer
    ) -> tuple[TaskDescriptions, DistModel, Rows]:
        """Add the target task to the source tasks.

        Args:
            task: Target task; may be empty.
            options: Options of the surrogate.

        Returns:
            Descriptions of the T + 1 tasks, a model with the learned parameters, and the scaled
            trials of all tasks. The target task is the last one.
        """
        context, count = task.context, len(self.names)
        data: list[DataRows | None] = [*self.data, None]
        embedding = copy.deepcopy(self.embedding)
        own = self.fixed.mean(axis=0)  # description of a target task without a usable context
        if self.features:
            if all(name in context for name in self.features):
                numbers = np.array([context[name] for name in self.features])
                own[-len(numbers) :] = (numbers - self.moments[0]) / self.moments[1]
            else:
                warn_of_missing("meta-features")
        if self.description == "data":
            rows = getattr(context, "rows", None)
            assert embedding is not None
            if rows is not None and embedding.accepts(rows):
                data[-1] = rows
            else:
                warn_of_missing(
                    "rows" if rows is None else "rows with the columns of the past data sets"
                )
        size_known = isinstance(context, Context) or "rows" in context
        size = size_of(context) if size_known else float(self.sizes.mean())
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
        with seeded(options.seed):  # load_state_dict then replaces all initial parameters
            model = self._model(psi, options)
        model.load_state_dict(self.state["model"])
        centre, unit = self.scale_of(task.losses, options.scale)
        z = np.minimum((task.losses - centre) / unit, self.worst + _FAR)
        if options.scale == "common":  # a failed trial counts as the worst known loss
            z[~task.ok] = self.worst
        width = self.X.shape[1]
        together = Rows(
            np.concatenate([self.X.numpy(), task.X.reshape(-1, width)]),
            np.concatenate([self.y.numpy(), z]),
            np.append(self.task.numpy(), np.full(len(task), count)),
        )
        return describe, model, together

    def scale_of(self, losses: Array, scale: str) -> tuple[float, float]:
        """Return the centre and unit that scale a target task's losses (n,).

        Args:
            losses: Losses of the target task (n,).
            scale: "common" for the scale of the source tasks, "task" for the mean and standard
                deviation of the given losses.
        """
        if scale == "common":
            return self.centre, self.unit
        if not len(losses):
            return 0.0, 1.0
        return float(losses.mean()), float(losses.std()) or 1.0

    # ------------------------------------------------------------------ files

    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return arrays by name and a JSON-compatible record for a model file.

        No rows of any data set are included.
        """
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
        """Restore what `parts` returned.

        Args:
            arrays: Arrays by name.
            record: JSON-compatible record.
            options: Options of the surrogate, of which `network` is used.

        Raises:
            ModelFileError: `options.network` does not fit the stored parameters.
        """
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
                    "the model was learnt with another network for rows: pass the same `network`"
                ) from error
        return past


def _some_tasks(tasks: Sequence[Task], options: DistributionalTransfer) -> Sequence[Task]:
    """Choose at most rows / 5 tasks, evenly spaced, for a Gaussian process.

    So each task can have at least five of the process's trials. A regression uses all tasks.
    """
    most = max(options.rows // _MIN_TRIALS, 1)
    if options.kind != "gp" or len(tasks) <= most:
        return tasks
    chosen = np.linspace(0, len(tasks) - 1, most).round().astype(int)
    return [tasks[k] for k in chosen]


def _limit(losses: Array) -> float:
    """Return the bound at which losses (n,) are clipped.

    Without it, a single diverged training run would determine the scale of all losses.
    """
    low, middle = float(losses.min()), float(np.median(losses))
    spread = middle - low or float(np.median(np.abs(losses - middle))) or 1.0
    return middle + _FAR * spread


def _names(tasks: Sequence[Task]) -> tuple[str, ...]:
    """Return the names of tasks; a number in parentheses is appended to repeated names."""
    counts: dict[str, int] = {}
    names = []
    for task in tasks:
        name = task.name or "unnamed"
        counts[name] = counts.get(name, 0) + 1
        names.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return tuple(names)
