"""Does the built-in past help to choose among learners, as `rankwise tune` does by default?

    python -m benchmarks.builtin.together

The four learners of `rankwise tune` are tuned together, on the data sets on which all of them
were evaluated. Data sets are dealt into ten folds, near-duplicates into the same one; `eb-gp`
learns from the other folds and chooses among the recorded evaluations of a held-out data set. The
table is `benchmarks/results/builtin-together.json`.
"""

from __future__ import annotations

import json
import warnings

import numpy as np

from benchmarks.builtin.collect import ROOT
from benchmarks.builtin.evaluate_past import FOLDS, METRIC, REPEATS, Choose, regrets
from benchmarks.builtin.library import KINDS
from benchmarks.builtin.summarize_past import MARKS, NAMES, interval
from rankwise import methods
from rankwise.builtin.records import VERSION
from rankwise.estimators import choice_of, make_estimator
from rankwise.estimators.built_in import builtin_past
from rankwise.history.task import GROUP, Task
from rankwise.space.encoder import Encoder

OUT = ROOT / "benchmarks" / "results" / "builtin-together.json"
SEVERAL = {
    "classification": ("hist-gradient-boosting", "random-forest", "logistic-regression", "svc"),
    "regression": ("hist-gradient-boosting", "random-forest", "ridge", "svc"),
}
"""Learners of `rankwise tune` for tables of up to 5000 rows."""

METHODS = ("eb-gp", "mbo", "default", "random")


class Together:
    """The records of several learners in one space, with folds."""

    def __init__(self, kind: str) -> None:
        estimators = [make_estimator(name, kind, 0) for name in SEVERAL[kind]]
        space = choice_of(estimators)
        self.encoder = Encoder(space.space)
        found = builtin_past(estimators[0], space, self.encoder, METRIC[kind])
        assert found is not None
        self.tasks = [task for task in found.tasks if np.ptp(task.losses) > 0]
        groups = [task.context[GROUP] for task in self.tasks]
        names = sorted(set(groups))
        order = np.random.default_rng(0).permutation(len(names)).tolist()
        place = {name: k % FOLDS for name, k in zip(names, order, strict=True)}
        self.folds = [place[group] for group in groups]

    def chooser(self, method: str, fold: int) -> Choose:
        """A method that has learnt from the data sets outside of a fold."""
        if method in ("random", "default"):
            return lambda history, pool, rng: int(rng.integers(len(pool)))
        rest = [t for t, f in zip(self.tasks, self.folds, strict=True) if f != fold]
        options = {"tasks": rest, "progress": False} if method == "eb-gp" else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return methods.make(method, self.encoder, **options).choose

    def held_out(self, fold: int) -> list[Task]:
        return [t for t, f in zip(self.tasks, self.folds, strict=True) if f == fold]


def curves(together: Together, method: str) -> np.ndarray:
    """Regret after each trial (T, trials), mean over seeds."""
    found = []
    for fold in sorted(set(together.folds)):
        choose = together.chooser(method, fold)
        for task in together.held_out(fold):
            seeds = range(REPEATS.get(method, 1))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found.append(np.mean([regrets(task, method, choose, s) for s in seeds], axis=0))
    return np.array(found)


def main() -> None:
    rows, learners = [], []
    for kind in KINDS:
        together = Together(kind)
        learners.append(f"{kind}: {', '.join(SEVERAL[kind])}; {len(together.tasks)} data sets")
        for method in METHODS:
            found = curves(together, method)
            cells = [interval(found[:, mark - 1]) for mark in MARKS]
            rows.append([kind, NAMES[method], *cells])
            print(*rows[-1], flush=True)
    columns = [{"name": "kind"}, {"name": "method"}, *({"name": f"after {m}"} for m in MARKS)]
    about = "Mean normalised regret, 95 % intervals, of several learners tuned together "
    content = {
        "title": "The built-in past of several learners, leaving data sets out",
        "date": "2026-11-19",
        "versions": f"built-in past {VERSION}",
        "machine": "2 cores, other work on the machine",
        "command": ["python -m benchmarks.builtin.together"],
        "protocol": "Data sets in ten folds, near-duplicates in the same fold; `eb-gp` learns "
        "from the other folds. Each method chooses among the recorded evaluations of all four "
        "learners on a held-out data set, 180 to 187, by accuracy or R².",
        "tables": {
            "regret": {
                "about": f"{about}({'; '.join(learners)}).",
                "columns": columns,
                "rows": rows,
            }
        },
    }
    OUT.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
