"""Evaluate the zero-shot defaults of FLAML on the data sets of the built-in past.

    pip install flaml
    python -m benchmarks.builtin.flaml_defaults --budget-hours 1

FLAML suggests a configuration for the rows of a data set from the nearest of its own 16 to 22 data
sets. It is evaluated as the records are: the same rows, folds, preparation and limit. There is one
file per learner and kind, `benchmarks/results/builtin-flaml/LEARNER.KIND.json`. Repeat the command
to go on; it takes every fourth data set that has records of the learner.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.builtin.collect import ROOT, write
from benchmarks.builtin.datasets import load
from benchmarks.builtin.evaluate import Evaluator, Problem
from benchmarks.builtin.evaluate_past import FLAML
from benchmarks.builtin.library import KINDS, LEARNERS, Learner
from rankwise.builtin.records import available, read_records

NAMES = {
    "lightgbm": "lgbm",
    "random-forest": "rf",
    "extra-trees": "extra_tree",
    "xgboost": "xgb_limitdepth",
}
"""FLAML's names of the learners that it has defaults for."""

_OUR_OWN = ("verbose", "verbosity", "random_state", "n_jobs")


@dataclass(frozen=True)
class Raw(Learner):
    """A learner whose configurations are arguments of `set_params`."""

    def params(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        return dict(configuration)


def evaluate(arguments: argparse.Namespace, learner: str, kind: str, name: str) -> dict[str, Any]:
    """The suggested configuration and its scores on a data set."""
    from flaml.default import suggest_hyperparams

    data = load(arguments.data, kind, name).sample(arguments.rows, arguments.folds)
    suggested, _ = suggest_hyperparams(kind, data.X, data.y, NAMES[learner])
    configuration = {n: v for n, v in suggested.items() if n not in _OUR_OWN}
    made = Learner.of(learner, kind)
    raw = Raw(made.name, made.kind, made.estimator, made.space, made.encoder)
    evaluator = Evaluator(Problem(raw, data, arguments.folds), arguments.time_limit)
    try:
        result = evaluator(configuration)
    finally:
        evaluator.close()
    result.pop("curve", None)
    return {"configuration": configuration, **result}


def main(arguments: argparse.Namespace) -> None:
    start = time.time()
    for learner in arguments.learners:
        for kind in KINDS:
            if kind not in LEARNERS[learner] or learner not in available(kind):
                continue
            path = arguments.out / f"{learner}.{kind}.json"
            found = json.loads(path.read_text())["suggested"] if path.exists() else {}
            for name in sorted(read_records(learner, kind).datasets)[:: arguments.every]:
                if name in found or time.time() - start > 3600 * arguments.budget_hours:
                    continue
                found[name] = evaluate(arguments, learner, kind, name)
                facts = {"learner": learner, "kind": kind, "flaml": version("flaml")}
                limits = {"rows": arguments.rows, "folds": arguments.folds}
                write(path, {**facts, **limits, "suggested": found})
                print(f"{learner}/{kind}/{name}: {found[name]['status']}", flush=True)


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--out", type=Path, default=FLAML)
    parser.add_argument("--learners", nargs="*", default=list(NAMES), choices=list(NAMES))
    parser.add_argument("--every", type=int, default=4, help="every so many data sets")
    parser.add_argument("--rows", type=int, default=700, help="as in `collect`")
    parser.add_argument("--folds", type=int, default=3, help="as in `collect`")
    parser.add_argument("--time-limit", type=float, default=60.0, help="CPU s per evaluation")
    parser.add_argument("--budget-hours", type=float, default=12.0)
    return parser.parse_args(words)


if __name__ == "__main__":
    main(parse(sys.argv[1:]))
