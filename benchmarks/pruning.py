"""Early stopping: regret against epochs on learning curves, with and without past studies.

    python benchmarks/pruning.py --data ../shared/data --seeds 3 --cache runs/pruning.jsonl
    python benchmarks/pruning.py --choose

`taskset`: nine tasks, each with 1000 configurations and their loss after each of 51 steps. Each
task in turn is the target and the other eight are the past studies, of 60 full curves each. A
sampler draws configurations from the table until the steps of 20 full trials are used; trials that
diverge report NaN. The regret is that of the best finished trial: its rank among all 1000
configurations of the task. `--choose` compares settings on the first three tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import optuna
from cells import ROOT, Lines, arguments, write_results
from optuna.trial import TrialState, create_trial

from rankwise.integrations.optuna.pruner import RankwisePruner

FIGURE = ROOT / "docs" / "images" / "pruning.png"
STEPS, FULL_TRIALS, PAST_TRIALS, CHOICE = 51, 20, 60, 3
BUDGETS = (5, 10, 20)
SAMPLERS = ("random", "TPE")
PRUNERS = (
    "rankwise, past",
    "rankwise",
    "Hyperband",
    "ASHA",
    "Median",
    "Wilcoxon",
    "none",
)


class Curves:
    """The curves of all tasks."""

    def __init__(self, folder: Path) -> None:
        with np.load(folder / "taskset" / "data.npz", allow_pickle=False) as data:
            self.X, self.curves, task = data["X"], data["curves"], data["task"]
            self.tasks = data["tasks"].tolist()
        self.rows = [np.flatnonzero(task == k) for k in range(len(self.tasks))]

    def past(self, target: int, seed: int) -> optuna.storages.InMemoryStorage:
        """The other tasks as studies of full curves."""
        storage = optuna.storages.InMemoryStorage()
        for k, rows in enumerate(self.rows):
            if k == target:
                continue
            study = optuna.create_study(storage=storage, study_name=self.tasks[k])
            rng = np.random.default_rng([seed, k])
            for row in rng.choice(rows, PAST_TRIALS, replace=False):
                curve = self.curves[row].astype(float)
                failed = np.isnan(curve[-1])
                study.add_trial(
                    create_trial(
                        state=TrialState.FAIL if failed else TrialState.COMPLETE,
                        value=None if failed else curve[-1],
                        intermediate_values={s + 1: v for s, v in enumerate(curve)},
                    )
                )
        return storage


def run(
    data: Curves, target: int, seed: int, pruner: optuna.pruners.BasePruner, sampler: str
) -> tuple[list[float], int]:
    """Regret after the steps of each of `BUDGETS` full trials, and the number of trials."""
    rows = data.rows[target]
    curves = data.curves[rows].astype(float)
    finals = np.where(np.isnan(curves[:, -1]), np.inf, curves[:, -1])
    rank = np.argsort(np.argsort(finals, kind="stable"), kind="stable") / len(finals)
    X = data.X[rows]
    log = np.ptp(np.log10(np.maximum(np.abs(X), 1e-12)), axis=0) > 2
    U = np.where(log, np.log10(np.maximum(np.abs(X), 1e-12)), X)
    U = (U - U.min(axis=0)) / np.maximum(np.ptp(U, axis=0), 1e-12)
    made = {
        "random": lambda: optuna.samplers.RandomSampler(seed=seed),
        "TPE": lambda: optuna.samplers.TPESampler(seed=seed),
    }
    study = optuna.create_study(sampler=made[sampler](), pruner=pruner, study_name="target")
    spent, best, seen = 0, 1.0, set()
    found: list[tuple[int, float]] = []
    while spent < FULL_TRIALS * STEPS and len(seen) < len(rows):
        trial = study.ask()
        u = np.array([trial.suggest_float(f"x{k}", 0, 1) for k in range(U.shape[1])])
        free = np.array([k for k in range(len(U)) if k not in seen])
        row = int(free[np.argmin(((U[free] - u) ** 2).sum(axis=1))])
        seen.add(row)
        state = TrialState.COMPLETE
        for step in range(1, STEPS + 1):
            spent += 1
            value = float(curves[row, step - 1])
            trial.report(value, step)
            if np.isnan(value):  # the user sees that it has diverged, whatever the pruner
                state = TrialState.FAIL
                break
            if step < STEPS and trial.should_prune():
                state = TrialState.PRUNED
                break
        if state == TrialState.COMPLETE:
            study.tell(trial, float(finals[row]))
            best = min(best, float(rank[row]))
            found.append((spent, best))
        else:
            study.tell(trial, state=state)
    answers = [
        min([b for s, b in found if s <= budget * STEPS], default=1.0) for budget in BUDGETS
    ]
    return answers, len(seen)


def pruner_of(which: str, data: Curves, target: int, seed: int) -> optuna.pruners.BasePruner:
    made: dict[str, Callable[[], optuna.pruners.BasePruner]] = {
        "rankwise, past": lambda: RankwisePruner(data.past(target, seed), longest=STEPS),
        "rankwise": RankwisePruner,
        "Hyperband": lambda: optuna.pruners.HyperbandPruner(min_resource=1, max_resource=STEPS),
        "ASHA": lambda: optuna.pruners.SuccessiveHalvingPruner(min_resource=1),
        "Median": lambda: optuna.pruners.MedianPruner(),
        "Wilcoxon": lambda: optuna.pruners.WilcoxonPruner(),
        "none": optuna.pruners.NopPruner,
    }
    return made[which]()


def choose(data: Curves, seeds: int) -> None:
    """Compare settings on the first tasks."""
    settings = [(0.1, 0.05), (0.1, 0.1), (0.2, 0.1), (0.1, 0.15)]
    for past in (True, False):
        for best, threshold in settings:
            found = []
            for target in range(CHOICE):
                for seed in range(seeds):
                    storage = data.past(target, seed) if past else None
                    pruner = RankwisePruner(storage, best=best, threshold=threshold)
                    found.append(run(data, target, 100 + seed, pruner, "random")[0])
            print(past, best, threshold, np.mean(found, axis=0).round(4), flush=True)
    for which in ("Median", "ASHA", "none"):
        found = [
            run(data, t, 100 + s, pruner_of(which, data, t, s), "random")[0]
            for t in range(CHOICE)
            for s in range(seeds)
        ]
        print(which, np.mean(found, axis=0).round(4), flush=True)


def run_all(data: Curves, seeds: int, lines: Lines, *, slow: bool) -> None:
    """Run what has no result yet: all pruners but Wilcoxon's, or that one (`slow`)."""
    for seed in range(seeds):
        for sampler in SAMPLERS:
            for target, task in enumerate(data.tasks):
                for which in PRUNERS:
                    key = (sampler, task, seed, which)
                    if (which == "Wilcoxon") != slow or key in lines:
                        continue
                    pruner = pruner_of(which, data, target, seed)
                    lines.add(key, run(data, target, seed, pruner, sampler))
        print("seed", seed, flush=True)


def write(data: Curves, lines: Lines, command: str) -> None:
    regret, tasks = [], []
    for sampler in SAMPLERS:
        keys = [key for key in lines.complete(PRUNERS) if key[0] == sampler]
        if not keys:
            continue
        table = {w: 100 * np.array([lines[(*k, w)][0] for k in keys]) for w in PRUNERS}
        for which in PRUNERS:
            mean, error = table[which].mean(axis=0), table[which].std(axis=0)
            n = float(np.mean([lines[(*k, which)][1] for k in keys]))
            last = float(error[-1] / np.sqrt(len(keys)))
            regret.append([sampler, which, n, *map(float, mean), last])
        for task in data.tasks:
            some = [k for k, key in enumerate(keys) if key[1] == task]
            tasks.append([sampler, task, *[float(table[w][some, -1].mean()) for w in PRUNERS]])
    budgets = [{"name": f"steps of {b} trials", "digits": 2, "best": "min"} for b in BUDGETS]
    write_results(
        "pruning",
        "Early stopping",
        command,
        "Learning curves of `taskset`, 51 steps; leave one task out, eight past studies of 60 "
        "curves. Regret: rank of the best finished trial among the task's 1000 configurations, in "
        "percent. Threshold and share of `RankwisePruner` were fixed before; its method was "
        "chosen on the first task. Hyperband, ASHA, Median and Wilcoxon have their defaults (one "
        "step is the smallest resource).",
        {
            "regret": {
                "about": "Mean regret in percent after the steps of 5, 10 and 20 full trials, and "
                "the standard error of the last.",
                "columns": [
                    {"name": "sampler"},
                    {"name": "pruner"},
                    {"name": "trials", "digits": 0},
                    *budgets,
                    {"name": "± of the last", "digits": 2},
                ],
                "rows": regret,
                "best_within": "sampler",
            },
            "tasks": {
                "about": "Mean regret in percent by task, after the steps of 20 full trials.",
                "columns": [
                    {"name": "sampler"},
                    {"name": "task"},
                    *[{"name": w, "digits": 2} for w in PRUNERS],
                ],
                "rows": tasks,
            },
        },
    )


def draw(lines: Lines) -> None:
    """Draw the mean regret of each pruner after 5, 10 and 20 full trials, for each sampler."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * len(SAMPLERS), 4.0), layout="constrained")
    panels = figure.subplots(1, len(SAMPLERS), squeeze=False, sharey=True)[0]
    for axes, sampler in zip(panels, SAMPLERS, strict=True):
        keys = [key for key in lines.complete(PRUNERS) if key[0] == sampler]
        for which in PRUNERS:
            mean = np.mean([lines[(*k, which)][0] for k in keys], axis=0)
            ours = which.startswith("rankwise")
            axes.plot(BUDGETS, 100 * mean, "o-", lw=2.4 if ours else 1.2, ms=4, label=which)
        axes.set_yscale("log")
        axes.set_xticks(BUDGETS)
        axes.set_title(f"{sampler} sampler", fontsize=10)
        axes.set_xlabel("steps spent, in full trials")
        axes.grid(alpha=0.25, lw=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("mean regret (rank in percent)")
    panels[-1].legend(frameon=False, fontsize=9)
    figure.savefig(FIGURE, dpi=110)


def main() -> None:
    options = arguments("pruning", __doc__, seeds=3).parse_args()
    data = Curves(options.data)
    if options.choose:
        choose(data, options.seeds)
        return
    lines = Lines(options.cache)
    if not options.write:
        for slow in (False, True):  # the Wilcoxon pruner comes last
            run_all(data, options.seeds, lines, slow=slow)
    draw(lines)
    write(data, lines, f"python benchmarks/pruning.py --seeds {options.seeds}")


if __name__ == "__main__":
    main()
