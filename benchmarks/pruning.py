"""Early stopping: regret against steps on learning curves, with and without past studies.

    python benchmarks/pruning_curves.py --data ../shared/data
    python benchmarks/pruning.py --data ../shared/data --seeds 3 --cache runs/pruning.jsonl
    python benchmarks/pruning.py --data ../shared/data --choose

Two families of learning curves (`pruning_curves.py`). Each task in turn is the target and the
others are the past studies, of 60 configurations each. A sampler draws configurations from the
table until the steps of 20 full trials are used; trials that diverge report NaN and fail. The
regret is that of the best finished trial: its rank among all configurations of the task.
`--choose` compares settings on four tasks of `taskset`, with other seeds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import optuna
from cells import ROOT, Lines, arguments, write_results
from optuna.trial import TrialState, create_trial
from pruning_curves import Curves, networks, taskset

from rankwise.integrations.optuna.pruner import RankwisePruner

FIGURE = ROOT / "docs" / "images" / "pruning.png"
FULL_TRIALS, PAST_TRIALS = 20, 60
SHOWN = (5, 10, 20)
DEVELOPMENT = (
    "patch128_LSTM128_avg_bs64",
    "patch32_IRNN64_relu_avg_bs128",
    "patch32_LSTM128_E128_bs128",
    "patch32_VRNN128_tanh_bs128",
)
SETTINGS = ((0.0, 1.0), (0.0, 0.5), (0.1, 0.5), (0.05, 0.3), (0.05, 0.5), (0.05, 0.7), (0.05, 1.0))
"""Of `best` and `threshold`."""
OURS, NONE = "rankwise, past", "none"
PRUNERS = (OURS, "rankwise", "Hyperband", "ASHA", "Median", "Wilcoxon", NONE)


def past(data: Curves, target: int, seed: int) -> optuna.storages.InMemoryStorage:
    """The other tasks as studies of full curves; those that diverged have failed."""
    storage = optuna.storages.InMemoryStorage()
    for k, curves in enumerate(data.curves):
        if k == target:
            continue
        study = optuna.create_study(storage=storage, study_name=data.tasks[k])
        rng = np.random.default_rng([seed, k])
        for row in rng.choice(len(curves), PAST_TRIALS, replace=False):
            curve = curves[row]
            failed = np.isnan(curve[-1])
            end = int(np.argmax(np.isnan(curve))) + 1 if failed else len(curve)
            study.add_trial(
                create_trial(
                    state=TrialState.FAIL if failed else TrialState.COMPLETE,
                    value=None if failed else curve[-1],
                    intermediate_values={s + 1: v for s, v in enumerate(curve[:end])},
                )
            )
    return storage


def sampler_of(name: str, seed: int) -> optuna.samplers.BaseSampler:
    if name == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    return optuna.samplers.TPESampler(seed=seed)


def run(
    data: Curves, target: int, seed: int, pruner: optuna.pruners.BasePruner, sampler: str
) -> dict:
    """Regret after the steps of 1, 2, ... full trials, number of trials, and whether it was lost.

    The best configuration is lost if the best of those that were begun was not finished.
    """
    U, curves, steps = data.U[target], data.curves[target], data.steps
    finals = np.where(np.isnan(curves[:, -1]), np.inf, curves[:, -1])
    ties = np.random.default_rng(seed).random(len(finals))
    rank = np.lexsort((ties, finals)).argsort() / len(finals)
    study = optuna.create_study(
        sampler=sampler_of(sampler, seed), pruner=pruner, study_name="target"
    )
    spent, begun, found = 0, list[int](), list[tuple[int, int]]()
    while spent < FULL_TRIALS * steps and len(begun) < len(finals):
        trial = study.ask()
        u = np.array([trial.suggest_float(f"x{k}", 0, 1) for k in range(U.shape[1])])
        free = np.setdiff1d(np.arange(len(U)), begun)
        row = int(free[np.argmin(((U[free] - u) ** 2).sum(axis=1))])
        begun.append(row)
        state, used = trained(trial, curves[row])
        spent += used
        if state == TrialState.COMPLETE:
            study.tell(trial, float(finals[row]))
            found.append((spent, row))
        else:
            study.tell(trial, state=state)
    regret = [
        100 * min([float(rank[row]) for s, row in found if s <= budget * steps], default=1.0)
        for budget in range(1, FULL_TRIALS + 1)
    ]
    best = min(begun, key=lambda row: finals[row])
    lost = not any(finals[row] <= finals[best] for _, row in found)
    return {"regret": [round(r, 4) for r in regret], "trials": len(begun), "lost": lost}


def trained(trial: optuna.Trial, curve: np.ndarray) -> tuple[TrialState, int]:
    """Report a curve until its end, until it diverges or until it is stopped; state and steps."""
    for step, value in enumerate(map(float, curve), 1):
        trial.report(value, step)
        if np.isnan(value):  # the user sees that it has diverged, whatever the pruner
            return TrialState.FAIL, step
        if step < len(curve) and trial.should_prune():
            return TrialState.PRUNED, step
    return TrialState.COMPLETE, len(curve)


def pruner_of(which: str, data: Curves, target: int, seed: int) -> optuna.pruners.BasePruner:
    steps = data.steps
    made: dict[str, Callable[[], optuna.pruners.BasePruner]] = {
        OURS: lambda: RankwisePruner(past(data, target, seed), longest=steps),
        "rankwise": RankwisePruner,
        "Hyperband": lambda: optuna.pruners.HyperbandPruner(min_resource=1, max_resource=steps),
        "ASHA": lambda: optuna.pruners.SuccessiveHalvingPruner(min_resource=1),
        "Median": lambda: optuna.pruners.MedianPruner(),
        "Wilcoxon": lambda: optuna.pruners.WilcoxonPruner(),
        NONE: optuna.pruners.NopPruner,
    }
    return made[which]()


def choose(data: Curves, seeds: int) -> None:
    """Compare settings on the development tasks and write the table."""
    rows = []
    for known in (True, False):
        for best, threshold in SETTINGS if known else SETTINGS[3:]:
            found = []
            for name in DEVELOPMENT:
                for seed in range(100, 100 + seeds):
                    target = data.tasks.index(name)
                    storage = past(data, target, seed) if known else None
                    pruner = RankwisePruner(
                        storage, best=best, threshold=threshold, longest=data.steps
                    )
                    found.append(run(data, target, seed, pruner, "random"))
            values = np.array([line["regret"] for line in found])
            error = float(values[:, -1].std(ddof=1) / np.sqrt(len(values)))
            rows.append(
                [
                    "with" if known else "without",
                    str(best or "best one"),
                    threshold,
                    float(np.mean([line["trials"] for line in found])),
                    100 * float(np.mean([line["lost"] for line in found])),
                    *[float(values[:, b - 1].mean()) for b in SHOWN],
                    error,
                ]
            )
            print(*rows[-1], flush=True)
    write_results(
        "pruning-choice",
        "Settings of the pruner",
        f"python benchmarks/pruning.py --choose --seeds {seeds}",
        "Four tasks of `taskset`, random sampler, seeds that are not reported elsewhere; the "
        "length of a full trial is known.",
        {
            "settings": {
                "about": "Mean regret in percent after the steps of 5, 10 and 20 full trials, and "
                "the standard error of the last. Lost: share of the runs in percent in which the "
                "best of the configurations that were begun was stopped.",
                "columns": [
                    {"name": "past studies"},
                    {"name": "best"},
                    {"name": "threshold", "digits": 1},
                    {"name": "trials", "digits": 0},
                    {"name": "lost", "digits": 0},
                    *[{"name": f"steps of {b} trials", "digits": 2} for b in SHOWN],
                    {"name": "± of the last", "digits": 2},
                ],
                "rows": rows,
            }
        },
    )


def plan(families: dict[str, Curves], seeds: int) -> list[tuple]:
    """The runs in their order; Wilcoxon's pruner, which is slow, is run on `taskset` only."""
    return [
        (sampler, family, task, seed, which)
        for seed in range(seeds)
        for family, data in families.items()
        for sampler in ("random", "TPE")
        for which in PRUNERS
        for task in data.tasks
        if which != "Wilcoxon" or family == "taskset"
    ]


def table(lines: Lines) -> dict[tuple[str, str], dict[str, list[tuple[tuple, dict]]]]:
    """By sampler and family, by pruner: the keys and results."""
    found: dict[tuple[str, str], dict[str, list[tuple[tuple, dict]]]] = {}
    keys = lines.keys()
    for key in keys:
        found.setdefault(key[:2], {}).setdefault(key[-1], []).append((key, lines[key]))
    return dict(sorted(found.items(), key=lambda item: (item[0][1] != "taskset", item[0][0])))


def reached(mean: np.ndarray, aim: float) -> int | None:
    """The first budget after which a mean regret is at most `aim`."""
    return next((n + 1 for n, regret in enumerate(mean.tolist()) if regret <= aim), None)


def write(lines: Lines, command: list[str]) -> None:
    regret, speed, lost = [], [], []
    for (sampler, family), runs in table(lines).items():
        place, means = f"{family}, {sampler}", {}
        for which in [w for w in PRUNERS if w in runs]:
            values = np.array([line["regret"] for _, line in runs[which]])
            means[which] = values.mean(axis=0)
            error = values[:, -1].std(ddof=1) / np.sqrt(len(values))
            n = float(np.mean([line["trials"] for _, line in runs[which]]))
            share = 100 * float(np.mean([line["lost"] for _, line in runs[which]]))
            shown = [float(means[which][b - 1]) for b in SHOWN]
            regret.append([place, which, len(values), n, share, *shown, float(error)])
        others = [w for w in means if not w.startswith("rankwise")]
        for budget in SHOWN[1:]:
            best = min(others, key=lambda w: means[w][budget - 1])
            after = [reached(means[w], means[best][budget - 1]) for w in PRUNERS[:2]]
            shown_after = ["–" if n is None else str(n) for n in after]
            speed.append([place, budget, best, *shown_after])
        for task in sorted({key[2] for runs_of in runs.values() for key, _ in runs_of}):
            cells = []
            for which in PRUNERS:
                some = [line for key, line in runs.get(which, []) if key[2] == task]
                cells.append(f"{sum(line['lost'] for line in some)}/{len(some)}")
            lost.append([place, task, *cells])
    head = [{"name": "curves, sampler"}]
    budgets = [{"name": f"steps of {b} trials", "digits": 2, "best": "min"} for b in SHOWN]
    write_results(
        "pruning",
        "Early stopping",
        command,
        "Leave one task out; past studies of 60 configurations. `taskset`: nine tasks, 1000 "
        "configurations of recurrent networks, loss after each of 51 steps. `networks`: small "
        "networks of scikit-learn on tables, 150 configurations, validation error after each of "
        "27 epochs. Regret: rank of the best finished trial among the task's configurations, in "
        "percent. The settings of `RankwisePruner` were chosen with other random orders of four "
        f"tasks of `taskset` ({', '.join(DEVELOPMENT)}). The other pruners have their defaults "
        "(one step is the smallest resource).",
        {
            "regret": {
                "about": "Mean regret in percent after the steps of 5, 10 and 20 full trials, and "
                "the standard error of the last. Lost: share of the runs in percent in which the "
                "best of the configurations that were begun was stopped.",
                "columns": [
                    *head,
                    {"name": "pruner"},
                    {"name": "runs"},
                    {"name": "trials", "digits": 0},
                    {"name": "lost", "digits": 0},
                    *budgets,
                    {"name": "± of the last", "digits": 2},
                ],
                "rows": regret,
                "best_within": "curves, sampler",
            },
            "speed": {
                "about": "Steps, in full trials, after which `RankwisePruner` has the mean regret "
                "that the best of the other pruners has after 10 and 20; – means more than 20.",
                "columns": [
                    *head,
                    {"name": "steps"},
                    {"name": "best of the others"},
                    {"name": "with past studies after"},
                    {"name": "without after"},
                ],
                "rows": speed,
            },
            "lost": {
                "about": "Runs in which the best of the configurations that were begun was "
                "stopped, of all runs, by task.",
                "columns": [*head, {"name": "task"}, *[{"name": w} for w in PRUNERS]],
                "rows": lost,
            },
        },
    )


def draw(lines: Lines) -> None:
    """Draw the mean regret of each pruner against the steps, for each sampler and family."""
    from matplotlib.figure import Figure

    found = table(lines)
    figure = Figure(figsize=(4.6 * len(found), 4.0), layout="constrained")
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    budgets = np.arange(1, FULL_TRIALS + 1)
    for axes, ((sampler, family), runs) in zip(panels, found.items(), strict=True):
        for k, which in enumerate(PRUNERS):
            if which not in runs:
                continue
            mean = np.mean([line["regret"] for _, line in runs[which]], axis=0)
            ours = which.startswith("rankwise")
            axes.plot(budgets, mean, lw=2.4 if ours else 1.2, color=f"C{k}", label=which)
        axes.set_yscale("log")
        axes.set_title(f"{family}, {sampler} sampler", fontsize=10)
        axes.set_xlabel("steps spent, in full trials")
        axes.grid(alpha=0.25, lw=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("mean regret (rank in percent)")
    panels[-1].legend(frameon=False, fontsize=9)
    figure.savefig(FIGURE, dpi=110)


def main() -> None:
    options = arguments("pruning", __doc__, seeds=3).parse_args()
    if options.choose:
        choose(taskset(options.data), options.seeds)
        return
    lines = Lines(options.cache)
    if not options.write:
        families = {"taskset": taskset(options.data), "networks": networks()}
        for key in plan(families, options.seeds):
            if key not in lines:
                sampler, family, task, seed, which = key
                data = families[family]
                target = data.tasks.index(task)
                pruner = pruner_of(which, data, target, seed)
                lines.add(key, run(data, target, seed, pruner, sampler))
                print(*key, lines[key]["regret"][-1], flush=True)
    draw(lines)
    commands = ["python benchmarks/pruning_curves.py"]
    write(lines, [*commands, f"python benchmarks/pruning.py --seeds {options.seeds}"])


if __name__ == "__main__":
    main()
