"""Learning curves for the benchmark of early stopping.

`taskset`: recurrent networks on text, losses after each of 51 steps (see the data's README).
`networks`: small networks of scikit-learn on tables of `tabular/`, validation error after each of
27 epochs. They are trained once and kept in a file:

    python benchmarks/pruning_curves.py --data ../shared/data
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cells import ROOT
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

KEPT = ROOT / "runs" / "network-curves.npz"
EPOCHS, CONFIGURATIONS, ROWS = 27, 150, 1500
FEWEST_ROWS, MOST_COLUMNS, TABLES = 600, 60, 8


@dataclass(frozen=True)
class Curves:
    """Curves of a family of tasks.

    Attributes:
        tasks: names of the tasks.
        U: for each task, its configurations in the unit cube (n, d).
        curves: for each task, losses (n, steps); NaN after a run has diverged.
    """

    tasks: list[str]
    U: list[np.ndarray]
    curves: list[np.ndarray]

    @property
    def steps(self) -> int:
        return int(self.curves[0].shape[1])


def taskset(data: Path) -> Curves:
    with np.load(data / "taskset" / "data.npz", allow_pickle=False) as file:
        X, curves, task = file["X"], file["curves"].astype(float), file["task"]
        names = file["tasks"].tolist()
    rows = [np.flatnonzero(task == k) for k in range(len(names))]
    return Curves(names, [unit(X[r]) for r in rows], [curves[r] for r in rows])


def unit(X: np.ndarray) -> np.ndarray:
    """Configurations (n, d) in the unit cube; columns over more than two decades by logarithm."""
    size = np.log10(np.maximum(np.abs(X), 1e-12))
    U = np.where(np.ptp(size, axis=0) > 2, size, X)
    found: np.ndarray = (U - U.min(axis=0)) / np.maximum(np.ptp(U, axis=0), 1e-12)
    return found


def networks(kept: Path = KEPT) -> Curves:
    """The curves that `main` has written."""
    with np.load(kept, allow_pickle=False) as file:
        names, U, curves = file["tasks"].tolist(), file["U"], file["curves"].astype(float)
    return Curves(names, [U] * len(names), list(curves))


def tables(folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Every few of the tables of some size, alphabetically."""
    found = {}
    for path in sorted(folder.glob("*.npz")):
        with np.load(path, allow_pickle=False) as file:
            X, y = file["X"], file["y"]
        if len(y) >= FEWEST_ROWS and X.shape[1] <= MOST_COLUMNS:
            found[path.stem] = (X, y)
    names = list(found)[:: max(1, len(found) // TABLES)][:TABLES]
    return {name: found[name] for name in names}


def train(X: np.ndarray, y: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Validation errors (epochs,) of a network with hyperparameters u (6,) in the unit cube."""
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))[:ROWS]
    some, held = order[: 2 * len(order) // 3], order[2 * len(order) // 3 :]
    scale = make_pipeline(SimpleImputer(), StandardScaler()).fit(X[some])
    network = MLPClassifier(
        (int(2 ** (2 + 5 * u[0])),) * (1 + int(u[1] > 0.6)),
        solver="sgd",
        learning_rate_init=10 ** (-4 + 4.5 * u[2]),
        momentum=1 - 10 ** (-2 * u[3]),
        alpha=10 ** (-6 + 6 * u[4]),
        batch_size=int(2 ** (4 + 4 * u[5])),
        random_state=0,
    )
    inside, outside = scale.transform(X[some]), scale.transform(X[held])
    errors = np.full(EPOCHS, np.nan)
    for epoch in range(EPOCHS):
        try:
            network.partial_fit(inside, y[some], classes=np.unique(y))
        except ValueError:  # the weights are not finite
            break
        errors[epoch] = (network.predict(outside) != y[held]).mean()
    return errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    U = np.random.default_rng(0).random((CONFIGURATIONS, 6))
    names, curves = [], []
    for name, (X, y) in tables(options.data / "tabular").items():
        names.append(name)
        curves.append(np.array([train(X, y, u) for u in U]))
        print(name, len(y), curves[-1][:, -1].min(), flush=True)
    KEPT.parent.mkdir(exist_ok=True)
    np.savez_compressed(KEPT, tasks=np.array(names), U=U, curves=np.array(curves, np.float32))


if __name__ == "__main__":
    main()
