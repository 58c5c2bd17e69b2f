"""Embeddings of data sets: maps rows to a vector through learnt feature maps.

Law, Zhao, Chan, Huang, Sejdinovic: "Hyperparameter Learning via Distributional Transfer", NeurIPS
2019, section 4.1; "paper" below. With the features of the rows, Phi_x (s, a) and Phi_y (s, b):

- the mean embedding of P(X): the mean of the rows of Phi_x (a,);
- the conditional mean operator of P(Y | X): Phi_y^T (Phi_x Phi_x^T + lambda s I)^-1 Phi_x (b, a).
  The paper has lambda instead of lambda s. With lambda s the operator does not depend on the
  number of rows that are drawn;
- the cross-covariance of P(X, Y): Phi_x^T Phi_y / s (a, b), or the mean embedding of rows [x, y].
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from rankwise.context.data import DataRows
from rankwise.errors import OptionError, check_name
from rankwise.types import Array

KINDS = ("both", "marginal", "conditional", "joint", "cross", "pairs")
"""What is embedded: "both" concatenates P(X) and P(Y|X), "marginal" is P(X), "conditional" is
P(Y|X), "joint" the mean of rows [x, y], "cross" the cross-covariance, and "pairs" the set of all
pairs of a column and the target."""

HIDDEN, FEATURES = 20, 10  # sizes of the paper's feature maps
_PAIR_ROWS = 250  # rows used for "pairs"
_ENOUGH = 200  # if all data sets have this many rows, equal numbers of rows are drawn from each
_PAIRS = 64  # pairs of a column and a class that are used at most (the first ones)


def mean_embedding(phi: Tensor) -> Tensor:
    """The mean (..., a) of features (..., s, a)."""
    return phi.mean(-2)


def conditional_operator(phi_x: Tensor, phi_y: Tensor, weight: Tensor | float) -> Tensor:
    """The conditional mean operator (..., b, a), by an a x a system; cost linear in the rows.

    Phi_y^T (Phi_x Phi_x^T + w s I)^-1 Phi_x = (Phi_y^T Phi_x) (Phi_x^T Phi_x + w s I)^-1.

    Args:
        phi_x: features of the columns (..., s, a).
        phi_y: features of the target (..., s, b).
        weight: the positive lambda of the module docstring.
    """
    s, a = phi_x.shape[-2:]
    system = phi_x.mT @ phi_x / s + weight * torch.eye(a, dtype=phi_x.dtype)
    operator: Tensor = torch.linalg.solve(system, phi_x.mT @ phi_y / s).mT
    return operator


def cross_covariance(phi_x: Tensor, phi_y: Tensor) -> Tensor:
    """Phi_x^T Phi_y / s (..., a, b)."""
    return phi_x.mT @ phi_y / phi_x.shape[-2]


def feature_map(columns: int) -> nn.Module:
    """The paper's network: a hidden layer of 20 tanh units, 10 outputs."""
    return nn.Sequential(
        nn.Linear(columns, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, FEATURES)
    ).double()


def _shape(data: DataRows) -> tuple[int, int | None, str]:
    """Columns, classes and digest of the class names; data sets with equal ones share a map."""
    return data.X.shape[1], None if data.y is None else data.classes, data.labels


class DataEmbedding(nn.Module):
    """Maps the rows of a data set to a vector; trained together with the model that uses it.

    Args:
        kind: one of `KINDS`; "pairs" accepts data sets of different widths, the others need the
            same columns and the same classes in all data sets.
        columns: number of columns p of all data sets.
        classes: number of classes; 0 for a numeric target, None without a target.
        network: maps rows (s, p) to features (s, a), instead of the paper's network.
        labels: digest of the names of the classes.
    """

    def __init__(
        self,
        kind: str,
        columns: int,
        classes: int | None,
        network: nn.Module | None = None,
        labels: str = "",
    ) -> None:
        super().__init__()
        self.labels = labels
        check_name("embedding", kind, KINDS)
        if classes is None and kind != "pairs":
            kind = "marginal"  # without a target only P(X) exists
        if classes and kind in ("both", "conditional", "joint"):
            kind = "cross"  # the paper's form for classes: a mean embedding of each
        self.kind, self.columns, self.classes = kind, columns, classes
        if kind == "pairs":
            self.inner = nn.Sequential(
                nn.Linear(2, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, HIDDEN), nn.Tanh()
            ).double()
            self.outer = feature_map(HIDDEN)
            return
        width = columns + (1 if kind == "joint" else 0)
        self.phi_x = network if network is not None else feature_map(width)
        if not classes and kind in ("both", "conditional", "cross"):
            self.phi_y = feature_map(1)
        if kind in ("both", "conditional"):
            self.log_weight = nn.Parameter(torch.tensor(-3.0, dtype=torch.float64))

    @classmethod
    def fitting(
        cls, kind: str, data: Sequence[DataRows], network: nn.Module | None = None
    ) -> DataEmbedding:
        """Make an embedding that accepts all of the given data sets.

        Args:
            kind: one of `KINDS`, or "auto": "both" where all data sets have the same columns and
                classes, "pairs" otherwise.
            data: the data sets to embed.
            network: as in the class.

        Raises:
            OptionError: the kind needs the same columns and classes, and they differ.
        """
        shapes = {_shape(d) for d in data}
        if kind == "auto":
            kind = "both" if len(shapes) == 1 else "pairs"
        if kind != "pairs" and len(shapes) > 1:
            raise OptionError(
                f"embedding={kind!r} needs data sets of the same columns and classes, and there "
                f"are {len(shapes)} kinds of them; choose 'pairs' or 'auto'"
            )
        columns, classes, labels = next(iter(shapes))
        return cls(kind, columns, classes, network, labels)

    def accepts(self, data: DataRows) -> bool:
        """True if a data set has the columns and classes that this embedding was made for."""
        if self.kind == "pairs":
            return True
        return _shape(data) == (self.columns, self.classes, self.labels)

    def forward(
        self, data: Sequence[DataRows], most: int = 0, rng: np.random.Generator | None = None
    ) -> Tensor:
        """The vectors (T, q) of data sets.

        Args:
            data: the rows of T data sets.
            most: number of rows to draw from each; 0 uses all.
            rng: random generator of the draw.
        """
        least, unequal = min(len(d.X) for d in data), len({len(d.X) for d in data}) > 1
        if self.kind == "pairs":
            most = min(most or _PAIR_ROWS, _PAIR_ROWS)
            rng = rng or np.random.default_rng(0)
        if self.kind == "pairs" or (unequal and (rng is None or least < _ENOUGH)):
            return torch.stack([self._vector(d, *self._drawn(d, most, rng)) for d in data])
        drawn = [self._drawn(d, min(most, least) if most else least, rng) for d in data]
        X = torch.as_tensor(np.stack([x for x, _ in drawn]))
        y = None if data[0].y is None else np.stack([t for _, t in drawn])  # type: ignore[misc]
        ratios = torch.as_tensor(np.stack([d.ratios for d in data]))
        return self.embed(X, None if y is None else torch.as_tensor(y), ratios)

    def _vector(self, data: DataRows, X: Array, y: Array | None) -> Tensor:
        columns, target = torch.as_tensor(X), None if y is None else torch.as_tensor(y)
        if self.kind == "pairs":
            return self._pairs(columns, target, data.classes)
        ratios = torch.as_tensor(data.ratios)[None]
        return self.embed(columns[None], None if target is None else target[None], ratios)[0]

    @staticmethod
    def _drawn(
        data: DataRows, most: int, rng: np.random.Generator | None
    ) -> tuple[Array, Array | None]:
        n = len(data.X)
        if not most or n <= most or rng is None:
            return data.X, data.y
        rows = rng.choice(n, most, replace=False, shuffle=False)
        return data.X[rows], None if data.y is None else data.y[rows]

    def embed(self, X: Tensor, y: Tensor | None, ratios: Tensor) -> Tensor:
        """The vectors (T, q) of data sets.

        Args:
            X: rows (T, s, p).
            y: targets (T, s).
            ratios: shares of the classes (T, c).
        """
        if self.kind == "marginal" or y is None:
            return mean_embedding(self.phi_x(X))
        if self.kind == "joint":
            return mean_embedding(self.phi_x(torch.cat([X, y[..., None]], -1)))
        phi_x = self.phi_x(X)
        if self.classes:
            one_hot = nn.functional.one_hot(y.long(), self.classes).to(phi_x.dtype)
            return torch.cat([cross_covariance(phi_x, one_hot).flatten(1), ratios], 1)
        phi_y = self.phi_y(y[..., None])
        if self.kind == "cross":
            return cross_covariance(phi_x, phi_y).flatten(1)
        operator = conditional_operator(phi_x, phi_y, self.log_weight.exp()).flatten(1)
        if self.kind == "conditional":
            return operator
        return torch.cat([mean_embedding(phi_x), operator], 1)

    def _pairs(self, X: Tensor, y: Tensor | None, classes: int) -> Tensor:
        """The vector (q,) of the set of pairs (column, target); independent of their order.

        After Jomaa, Schmidt-Thieme, Grabocka: "Dataset2Vec", 2021. Each class is a target.
        """
        if y is None:
            targets = torch.zeros(len(X), 1, dtype=X.dtype)
        elif classes:
            targets = nn.functional.one_hot(y.long(), classes).to(X.dtype)
        else:
            targets = y[:, None]
        columns = min(X.shape[1], _PAIRS)
        shown = min(targets.shape[1], max(1, _PAIRS // columns))
        s = len(X)
        left = X[:, :columns, None].expand(s, columns, shown)
        right = targets[:, None, :shown].expand(s, columns, shown)
        pairs = torch.stack([left, right], -1).reshape(s, columns * shown, 2)
        return self.outer(self.inner(pairs).mean(0)).mean(0)  # type: ignore[no-any-return]
