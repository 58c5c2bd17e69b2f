"""RankwiseSearchCV, with and without an archive, beside other searches for scikit-learn.

    python benchmarks/search.py --data ../shared/data/tabular

Three estimators (SVC, histogram gradient boosting, random forest) on ten data sets; an archive of
earlier searches, which knew nothing of each other, on ten others. All searches get the same
spaces, as `RandomizedSearchCV` takes them, the same three folds, the same part (at most 800 rows)
of a data set, and a number of trials. `HalvingRandomSearchCV` gets as many candidates as cost that
many fits on all rows, for the smaller number of trials and again for the larger. On each data set,
with each estimator and seed, searches are ranked by the best cross-validated score so far; their
best configuration is fitted to these rows and scored on others. Results are kept in `--out`, and
only missing ones are computed.

`--development` uses other data sets: what is chosen is chosen there. OptunaSearchCV needs
`pip install ".[peers]"`. `--quick` says little.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")})

import numpy as np
import optuna
import sklearn
from joblib import Parallel, delayed
from scipy.stats import loguniform, randint, rankdata, uniform
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import (
    HalvingRandomSearchCV,
    RandomizedSearchCV,
    StratifiedKFold,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from rankwise import RankwiseSearchCV

# Data sets of at least 300 rows, 30 of each class, and at most 150 columns, in a random order.
PAST = ("marketing", "mammographic", "balance-scale", "column2C", "adult")
PAST += ("attrition", "stackoverflow", "column3C", "vowel", "mlc-churn")
NEW = ("eucalyptus", "mushroom", "nursery", "pendigits", "penguins")
NEW += ("ad-data", "abalone-3class", "hpc-data", "vehicle", "colic")
DEVELOPMENT = ("bupa", "satimage", "hypothyroid", "optdigits", "cells", "diabetes")
TRIALS, FEW, PAST_TRIALS, SEEDS = 15, 5, 30, 3
ROWS, TEST_ROWS, FOLDS = 800, 2000, 3

ARCHIVE, MODELS = "past.db", "past.db.rankwise"
WITH, WITHOUT, RANDOM = "Rankwise, archive", "Rankwise", "RandomizedSearchCV"
HALVING, OPTUNA = "HalvingRandomSearchCV", "OptunaSearchCV"

LEARNERS: dict[str, tuple[Callable[[], BaseEstimator], dict[str, Any]]] = {
    "SVC": (
        lambda: make_pipeline(StandardScaler(), SVC(max_iter=20_000)),  # some would take minutes
        {
            "svc__C": loguniform(1e-3, 1e3),
            "svc__gamma": loguniform(1e-5, 1e1),
            "svc__kernel": ["rbf", "poly", "sigmoid"],
            "svc__class_weight": [None, "balanced"],
        },
    ),
    "gradient boosting": (
        lambda: HistGradientBoostingClassifier(early_stopping=False, random_state=0),
        {
            "learning_rate": loguniform(0.01, 1.0),
            "max_iter": randint(20, 121),
            "max_leaf_nodes": randint(2, 65),
            "min_samples_leaf": randint(1, 61),
            "l2_regularization": loguniform(1e-6, 1e2),
            "max_features": uniform(0.1, 0.9),
        },
    ),
    "random forest": (
        lambda: RandomForestClassifier(random_state=0),
        {
            "max_features": uniform(0.05, 0.95),
            "max_depth": randint(2, 31),
            "min_samples_leaf": randint(1, 21),
            "criterion": ["gini", "entropy"],
            "bootstrap": [True, False],
            "class_weight": [None, "balanced"],
        },
    ),
}


def load(folder: Path, name: str, seed: int) -> list[np.ndarray]:
    """Rows to search on, others, and their classes; the same for every method."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        X, y = file["X"], file["y"]
    rows = min(ROWS, round(0.7 * len(y)))
    parts = train_test_split(X, y, train_size=rows, random_state=seed, stratify=y)
    train, test, y_train, y_test = parts
    return [train, test[:TEST_ROWS], y_train, y_test[:TEST_ROWS]]


def folds(seed: int) -> StratifiedKFold:
    return StratifiedKFold(FOLDS, shuffle=True, random_state=seed)


# ---------------------------------------------------------------------- searches


def search(method: str, learner: str, seed: int, n: int, rows: int, archive: Path | None) -> Any:
    """A search that is not fitted yet."""
    make, space = LEARNERS[learner]
    estimator, common = make(), {"cv": folds(seed), "random_state": seed}
    if method == RANDOM:
        return RandomizedSearchCV(estimator, space, n_iter=n, **common)
    if method == HALVING:  # three rungs of equal cost, which together cost n trials on all rows
        sizes = {"n_candidates": 3 * n, "min_resources": rows // 9, "factor": 3}
        return HalvingRandomSearchCV(estimator, space, **sizes, **common)
    if method == OPTUNA:
        from optuna_integration import OptunaSearchCV

        known = {name: optuna_distribution(one) for name, one in space.items()}
        return OptunaSearchCV(estimator, known, n_trials=n, **common)
    url = None if archive is None else f"sqlite:///{archive}"
    return RankwiseSearchCV(estimator, space, n_trials=n, archive=url, progress=False, **common)


def optuna_distribution(given: Any) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(given, list):
        return CategoricalDistribution(given)
    low, high = given.support()
    if given.dist.name == "randint":
        return IntDistribution(int(low), int(high))
    return FloatDistribution(low, high, log=given.dist.name == "loguniform")


def scores(method: str, fitted: Any) -> list[float]:
    """Cross-validated scores in the order of the trials."""
    if method == OPTUNA:
        return [float(trial.value) for trial in fitted.trials_]
    values = np.asarray(fitted.cv_results_["mean_test_score"])
    if method == HALVING:
        last = fitted.cv_results_["iter"] == fitted.n_iterations_ - 1
        values = values[last]
    return [float(value) for value in values]


def evaluation_seconds(method: str, fitted: Any) -> float:
    """Spent on fits and scores."""
    if method == OPTUNA:
        times = [t.user_attrs for t in fitted.trials_]
        return sum(FOLDS * (t["mean_fit_time"] + t["mean_score_time"]) for t in times)
    results = fitted.cv_results_
    return float(FOLDS * (results["mean_fit_time"] + results["mean_score_time"]).sum())


def compare(
    method: str,
    learner: str,
    name: str,
    seed: int,
    data: Path,
    archive: Path,
    budgets: Sequence[int],
) -> dict[str, Any]:
    """What one method finds on one data set; by budget where it must be told beforehand."""
    train, test, y_train, y_test = load(data, name, seed)
    found: dict[str, Any] = {"best": {}, "held out": {}}
    for n in budgets if method == HALVING else budgets[-1:]:
        with TemporaryDirectory() as folder:
            own = None
            if method == WITH:  # what one search finds must not become the past of another
                own = shutil.copytree(archive, Path(folder) / "own") / ARCHIVE
            one = search(method, learner, seed, n, len(train), own)
            started = time.perf_counter()
            one.fit(train, y_train)
            wall = time.perf_counter() - started - one.refit_time_
        values = scores(method, one)
        found["overhead"] = (wall - evaluation_seconds(method, one)) / n
        found["trials"] = values
        for budget in [n] if method == HALVING else budgets:
            best = max(values if method == HALVING else values[:budget])
            found["best"][str(budget)] = best
            found["held out"][str(budget)] = held_out(
                method, one, learner, values, budget, (train, test, y_train, y_test)
            )
    return found


def held_out(
    method: str,
    fitted: Any,
    learner: str,
    values: Sequence[float],
    budget: int,
    parts: tuple[np.ndarray, ...],
) -> float:
    """The score on other rows of the best configuration so far."""
    train, test, y_train, y_test = parts
    if method == HALVING or budget >= len(values):
        return float(fitted.score(test, y_test))
    k = int(np.argmax(values[:budget]))
    params = fitted.trials_[k].params if method == OPTUNA else fitted.cv_results_["params"][k]
    estimator = LEARNERS[learner][0]().set_params(**params)
    return float(estimator.fit(train, y_train).score(test, y_test))


# ---------------------------------------------------------------------- all of them


def make_archive(data: Path, names: Sequence[str], learner: str, folder: Path, n: int) -> None:
    """Earlier searches of a learner, none of which knew another; and what is learnt from them."""
    if folder.exists():
        return
    with TemporaryDirectory() as temporary:
        begun = Path(temporary) / "begun"
        begun.mkdir()
        make, space = LEARNERS[learner]
        for k, name in enumerate(names):
            train, _, y, _ = load(data, name, 0)
            known = {"archive": f"sqlite:///{begun / ARCHIVE}", "method": "mbo", "name": name}
            how = {"cv": folds(0), "random_state": k, "refit": False, "progress": False}
            RankwiseSearchCV(make(), space, n_trials=n, **known, **how).fit(train, y)
            print(f"{learner}: {name} is searched", flush=True)
        # The model is learnt once, by a search whose trial is forgotten.
        other = shutil.copytree(begun, Path(temporary) / "other")
        search(WITH, learner, 0, 1, len(train), other / ARCHIVE).fit(train, y)
        shutil.copytree(other / MODELS, begun / MODELS)
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(begun, folder)


def cell(out: Path, data: Path, budgets: Sequence[int], *which: Any) -> dict[str, Any]:
    """One result, from its file or computed now."""
    method, learner, name, seed = which
    path = out / "cells" / f"{method}-{learner}-{name}-{seed}.json".replace(" ", "-")
    if not path.exists():
        warnings.simplefilter("ignore")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        archive = out / "archives" / learner.replace(" ", "-")
        found = compare(method, learner, name, seed, data, archive, budgets)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found))
        print(f"{path.stem}: {found['best']}", flush=True)
    return dict(json.loads(path.read_text()))


def tables(
    found: Mapping[tuple[str, str, str, int], Mapping[str, Any]], budgets: Sequence[int]
) -> str:
    """Mean ranks, scores and seconds, over all learners and by learner."""
    methods = list(dict.fromkeys(key[0] for key in found))
    cases = list(dict.fromkeys(key[1:] for key in found))
    learners = list(dict.fromkeys(case[0] for case in cases))

    def values(what: str, budget: int) -> np.ndarray:
        """(cases, methods)"""
        return np.array(
            [[found[(m, *case)][what][str(budget)] for m in methods] for case in cases]
        )

    ranks = {n: rankdata(-values("best", n), axis=1) for n in budgets}
    rows = []
    for j, method in enumerate(methods):
        row: list[Any] = [method]
        for n in budgets:
            low, high = interval(ranks[n][:, j], cases)
            row.append(f"{ranks[n][:, j].mean():.2f} [{low:.2f}, {high:.2f}]")
        for n in budgets:
            row.append(f"{values('best', n)[:, j].mean():.4f}")
        for n in budgets:
            row.append(f"{values('held out', n)[:, j].mean():.4f}")
        row.append(f"{statistics.median(found[(method, *c)]['overhead'] for c in cases):.3f}")
        rows.append(row)
    header = ["search", *(f"mean rank after {n}" for n in budgets)]
    header += [*(f"score after {n}" for n in budgets), *(f"held out after {n}" for n in budgets)]
    parts = [markdown([*header, "overhead s per trial"], rows)]
    by_learner = [
        [
            method,
            *(
                f"{ranks[n][[c[0] == learner for c in cases], j].mean():.2f}"
                for learner, n in product(learners, budgets)
            ),
        ]
        for j, method in enumerate(methods)
    ]
    columns = [f"{learner}, {n}" for learner, n in product(learners, budgets)]
    parts.append(
        "Mean rank by learner and number of trials:\n\n"
        + markdown(["search", *columns], by_learner)
    )
    return "\n\n".join(parts)


def interval(ranks: np.ndarray, cases: Sequence[tuple[Any, ...]]) -> tuple[float, float]:
    """95 % of the mean rank, by drawing data sets anew."""
    names = sorted({case[1] for case in cases})
    by_name = np.array(
        [np.mean([r for r, c in zip(ranks, cases, strict=True) if c[1] == n]) for n in names]
    )
    draws = np.random.default_rng(0).integers(len(names), size=(10_000, len(names)))
    low, high = np.quantile(by_name[draws].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def markdown(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    header = list(header)
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/tabular"))
    parser.add_argument("--out", type=Path, default=Path("runs/search"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--development", action="store_true", help="other data sets")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    past, new, seeds, learners = PAST, NEW, range(options.seeds), list(LEARNERS)
    budgets, past_trials = (FEW, TRIALS), PAST_TRIALS
    methods = [WITH, WITHOUT, RANDOM, HALVING, OPTUNA]
    if options.development:
        new = DEVELOPMENT
    if options.quick:
        past, new, seeds, learners = past[:3], new[:2], range(1), learners[:1]
        budgets, past_trials = (2, 4), 10
    archives = options.out / "archives"
    Parallel(options.jobs)(
        delayed(make_archive)(
            options.data, past, one, archives / one.replace(" ", "-"), past_trials
        )
        for one in learners
    )
    keys = list(product(methods, learners, new, seeds))
    one = partial(cell, options.out, options.data, budgets)
    order = sorted(keys, key=lambda key: (key[3], key[2]))  # all methods side by side
    found = dict(
        zip(order, Parallel(options.jobs)(delayed(one)(*key) for key in order), strict=True)
    )
    print(
        f"{date.today()}, {os.cpu_count()} cores, {options.jobs} at a time, Python "
        f"{platform.python_version()}, scikit-learn {sklearn.__version__}; {len(new)} data sets, "
        f"{len(seeds)} seeds, {len(past)} past data sets of {past_trials} trials\n"
    )
    print(tables({key: found[key] for key in keys}, budgets))


if __name__ == "__main__":
    main()
