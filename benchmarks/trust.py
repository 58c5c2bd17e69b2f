"""Transfer trust over the trials of related studies, of pure noise and of opposite objectives.

    python benchmarks/trust.py --data ../shared/data

Each run has 20 past studies of 40 random trials, from the training tasks of a table, and one
study of 25 trials among the rows of a test task. The study is related (the task as it is), noise
(random losses), or opposite (the losses of the task with the opposite sign). In a messy archive 4
of the 20 past studies have random losses and 3 have losses of the opposite sign. Writes
benchmarks/results/trust.json and docs/images/trust.png.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")})

import matplotlib.pyplot as plt
import numpy as np
from tables import NAMES, Table, load, regret

from rankwise import Task, TaskSet, methods
from rankwise._core.palette import PALETTE
from rankwise.space.encoder import Encoder
from rankwise.strategies.base import Strategy
from rankwise.strategies.model_based import CHECK, ModelStrategy
from rankwise.surrogates.transfer_trust import compare_view

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("related", "noise", "opposite")
PASTS, TRIALS_OF_PAST, TRIALS = 20, 40, 25
SHOWN = (0, 5, 10, 15, 20, 25)
NOISY, INVERTED = 4, 3
PREDICTED = 0.5  # rank correlation over the whole table from which past studies predict a task


def past_of(table: Table, messy: bool, rng: np.random.Generator) -> TaskSet:
    """Past studies: random rows of random training tasks."""
    past = []
    for k, name in enumerate(rng.permutation(table.train)[:PASTS].tolist()):
        task = table.tasks[name]
        rows = rng.choice(len(task), min(TRIALS_OF_PAST, len(task)), replace=False)
        losses = task.losses[rows]
        if messy and k < NOISY:
            losses = rng.normal(size=len(rows))
        elif messy and k < NOISY + INVERTED:
            losses = -losses
        past.append(Task.of(task.X[rows], losses, name=name))
    return TaskSet(tuple(past))


def study(strategy: Strategy, X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, Any]:
    """Run a study among the rows of a table; the trust before each trial and at the end."""
    rng, rows, trust, checks = np.random.default_rng(seed), [], [], 0
    for k in range(TRIALS + 1):
        history = Task.of(X[rows].reshape(len(rows), X.shape[1]), y[rows])
        trust.append(strategy.trust(history))
        if k < TRIALS:
            checks += strategy.origin(history) == CHECK
            left = np.setdiff1d(np.arange(len(X)), rows)
            rows.append(int(left[strategy.choose(history, X[left], rng)]))
    return {"trust": trust, "checks": checks, "regret": regret(Task.of(X, y), rows)}


def runs(
    names: Iterable[str], data: Path, seeds: int
) -> dict[tuple[str, str, str, bool], list[dict[str, Any]]]:
    """All runs by table, archive, kind of study and whether trials may check past studies."""
    found = defaultdict(list)
    for name in names:
        table = load(name, data)
        for archive in ("clean", "messy"):
            for seed in range(seeds):
                rng = np.random.default_rng([seed, 1])
                target = table.tasks[str(rng.choice(table.test))]
                past = past_of(table, archive == "messy", rng)
                encoder = Encoder({f"x{j}": (0.0, 1.0) for j in range(target.X.shape[1])})
                strategy = methods.make("eb-gp", encoder, past)
                if not (strategy.informed and isinstance(strategy, ModelStrategy)):
                    found[name, archive, "not used", True].append({})
                    continue
                view = strategy.make_surrogate(0).past.view(target.X)  # type: ignore[attr-defined]
                whole = compare_view(view, target.losses).correlation
                noise = rng.normal(size=len(target))
                losses = {"related": target.losses, "noise": noise, "opposite": -target.losses}
                for kind in KINDS:
                    for checks in (True, False) if kind == "related" else (True,):
                        some = replace(strategy, checks=checks)
                        one = study(some, target.X, losses[kind], seed)
                        found[name, archive, kind, checks].append({**one, "whole": whole})
            print(name, archive, flush=True)
    return found


def tables_of(found: dict[tuple[str, str, str, bool], list[dict[str, Any]]]) -> dict[str, Any]:
    """The tables of the results file."""
    number = [{"name": f"after {n}", "digits": 2} for n in SHOWN]
    curves: list[list[Any]] = []
    spreads: list[list[Any]] = []
    costs: list[list[Any]] = []
    predicted: list[list[Any]] = []
    for (name, archive, kind, checks), some in found.items():
        if kind == "not used":
            continue
        trust = np.array([one["trust"] for one in some])
        if checks:
            curves.append([name, archive, kind, *trust.mean(axis=0)[list(SHOWN)].tolist()])
            low, middle, high = np.quantile(trust[:, 15], [0.1, 0.5, 0.9])
            spreads.append([name, archive, kind, float(low), float(middle), float(high)])
        if (archive, kind, checks) == ("clean", "related", True):
            after, whole = trust[:, 15], np.array([one["whole"] for one in some])
            parts = [after[whole >= PREDICTED], after[whole < PREDICTED]]
            means = [float(part.mean()) if len(part) else None for part in parts]
            predicted.append([name, len(parts[0]), means[0], len(parts[1]), means[1]])
        if kind == "related" and checks:
            other = found[name, archive, kind, False]
            both = [np.mean([one["regret"] for one in part], axis=0) for part in (some, other)]
            values = [float(curve[n - 1]) for n in (10, 25) for curve in both]
            used = float(np.mean([one["checks"] for one in some]))
            costs.append([name, archive, used, *values])
    head = [{"name": "table"}, {"name": "archive"}]
    kinds = [*head, {"name": "study"}]
    return {
        "curves": {
            "about": "Mean transfer trust after so many trials.",
            "columns": [*kinds, *number],
            "rows": curves,
        },
        "spread": {
            "about": "Transfer trust after 15 trials: quantiles over the runs.",
            "columns": [*kinds, *({"name": q, "digits": 2} for q in ("10 %", "50 %", "90 %"))],
            "rows": spreads,
        },
        "predicted": {
            "about": "Related studies, clean archive: mean transfer trust after 15 trials, by the "
            "rank correlation of past studies' predictions with the losses of the whole table. "
            "The split was made after the curves were seen.",
            "columns": [
                head[0],
                {"name": f"runs, {PREDICTED} or more"},
                {"name": "trust", "digits": 2},
                {"name": f"runs, below {PREDICTED}"},
                {"name": "trust there", "digits": 2},
            ],
            "rows": predicted,
        },
        "checks": {
            "about": "Related studies with and without trials that check past studies: mean "
            "number of such trials, and mean regret after 10 and 25 trials.",
            "columns": [
                *head,
                {"name": "checks", "digits": 1},
                *(
                    {"name": f"{n} trials, {which}", "digits": 4}
                    for n in (10, 25)
                    for which in ("with", "without")
                ),
            ],
            "rows": costs,
        },
    }


def draw(found: dict[tuple[str, str, str, bool], list[dict[str, Any]]], path: Path) -> None:
    """Mean trust over trials, one panel per table; dashed for the messy archive."""
    figure, axes = plt.subplots(1, len(NAMES), figsize=(13, 3.2), sharey=True)
    for panel, name in zip(axes, NAMES, strict=True):
        for kind, color in zip(KINDS, (PALETTE[2], "#888888", PALETTE[1]), strict=True):
            for archive, line in (("clean", "-"), ("messy", "--")):
                some = found[name, archive, kind, True]
                if some:
                    mean = np.mean([one["trust"] for one in some], axis=0)
                    panel.plot(mean, line, color=color, label=f"{kind}, {archive} archive")
        for level in (0.3, 0.8):
            panel.axhline(level, color="black", lw=0.6, ls=":")
        panel.set(title=name, xlabel="trials", ylim=(0, 1))
    axes[0].set_ylabel("transfer trust (mean)")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.tight_layout(rect=(0, 0.16, 1, 1))
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=20)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found = runs(NAMES, given.data, given.seeds)
    left = sum(len(some) for key, some in found.items() if key[2] == "not used")
    content = {
        "title": "Transfer trust on related studies, noise and opposite objectives",
        "date": str(date.today()),
        "machine": f"{os.cpu_count()} cores",
        "command": [f"python benchmarks/trust.py --data ../shared/data --seeds {given.seeds}"],
        "protocol": "Method eb-gp without initial points; 20 past studies of 40 random trials "
        f"from the training tasks, the study on a test task, {given.seeds} seeds. Messy archive: "
        f"4 of 20 past studies have random losses, 3 opposite ones. Runs in which past studies "
        f"were not used: {left} of {2 * given.seeds * len(NAMES)}.",
        "tables": tables_of(found),
    }
    path = ROOT / "benchmarks" / "results" / "trust.json"
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    draw(found, ROOT / "docs" / "images" / "trust.png")


if __name__ == "__main__":
    main()
