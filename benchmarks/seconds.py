"""Seconds: regret against simulated seconds, with `ei` and with `ei-per-second`.

    python benchmarks/seconds.py --seeds 2 --cache runs/seconds.jsonl

Problems are four classifiers in the built-in records whose seconds depend on the configuration;
each seed draws a data set for each of them. A forest of its records says the error and the
seconds of other configurations. The past studies are the records of 12 other data sets, with their
seconds. A method proposes one trial after the other until the simulated seconds are those of 10
random configurations. The regret is the share of 3000 random configurations that are better than
the best trial.
"""

from __future__ import annotations

import numpy as np
from cells import ROOT, Lines, arguments, write_results
from objectives_problems import placed
from sklearn.ensemble import ExtraTreesRegressor

from rankwise import Optimizer
from rankwise.builtin.tasks import Placed, source_tasks
from rankwise.history.task import TaskSet
from rankwise.run.model_cache import learnt_optimizer

FIGURE = ROOT / "docs" / "images" / "seconds.png"
LEARNERS = ("logistic-regression", "linear-svc", "sgd", "svc")
BUDGETS = (2, 5, 10)
PAST_DATASETS = 12
MOST = 40  # trials of a run
METHODS = ("ei, past", "ei-per-second, past", "ei", "ei-per-second", "random")


def run(learner: str, seed: int, which: str) -> list[float]:
    """Regret in percent after the seconds of each of `BUDGETS` random configurations."""
    records, encoder, values = placed(learner)
    known = Placed.of(records, encoder)
    rng = np.random.default_rng([seed, LEARNERS.index(learner)])
    dataset = str(rng.choice(records.datasets))
    rows = records.rows(records.datasets.index(dataset))
    forest = ExtraTreesRegressor(100, random_state=0).fit(known.X[rows], values[rows])
    everywhere = forest.predict(encoder.encode_codes(encoder.sample_codes(3000, rng)))
    unit = float(np.exp(everywhere[:, 1]).mean())
    others = [d for d in records.datasets if records.groups[d] != records.groups[dataset]]
    chosen = {f"{d} (" for d in rng.choice(others, PAST_DATASETS, replace=False)}
    past = [
        task
        for task in source_tasks([known], "accuracy")
        if task.name[: task.name.index("(") + 1] in chosen
    ]
    acquisition = "ei-per-second" if which.startswith("ei-per-second") else "ei"
    if which == "random":
        optimizer = Optimizer(encoder, method="random")
    elif which.endswith("past"):
        tasks = TaskSet(tuple(past), (), encoder.fingerprint)
        optimizer = learnt_optimizer("eb-gp", encoder, tasks, None, acquisition=acquisition)
    else:
        optimizer = Optimizer(encoder, method="gp", acquisition=acquisition)
    optimizer = optimizer.restarted(seed=seed)
    spent, best, found = 0.0, 1.0, list[tuple[float, float]]()
    while spent < BUDGETS[-1] * unit and len(found) < MOST:
        [configuration] = optimizer.ask()
        error, log_seconds = forest.predict(encoder.encode([configuration]))[0]
        optimizer.tell(configuration, float(error), cost=float(np.exp(log_seconds)))
        spent += float(np.exp(log_seconds))
        best = min(best, float((everywhere[:, 0] < error - 1e-12).mean()))
        found.append((spent, best))
    return [
        100 * min([b for s, b in found if s <= budget * unit], default=1.0) for budget in BUDGETS
    ]


def write(lines: Lines, command: str) -> None:
    heads = lines.complete(METHODS)
    rows = []
    for which in METHODS:
        regret = np.array([lines[(*head, which)] for head in heads])
        error = float(regret[:, -1].std(ddof=1) / np.sqrt(len(regret)))
        rows.append([which, len(regret), *map(float, regret.mean(axis=0)), error])
    pairs = []
    for past in (", past", ""):
        plain, cheap = (
            np.array([lines[(*head, name + past)] for head in heads])
            for name in ("ei", "ei-per-second")
        )
        gain = plain - cheap
        error = gain.std(axis=0, ddof=1) / np.sqrt(len(gain))
        where = "with past studies" if past else "without"
        cells = [f"{m:+.2f} ± {e:.2f}" for m, e in zip(gain.mean(axis=0), error, strict=True)]
        pairs.append([where, *cells])
    budgets = [f"seconds of {b}" for b in BUDGETS]
    write_results(
        "seconds",
        "Seconds",
        command,
        "Four classifiers (logistic regression, linear SVM, SGD, SVM), one data set each per "
        "seed, past studies from 12 other data sets. With past studies the method is `eb-gp`, "
        "without them `gp`. Nothing was chosen on these problems.",
        {
            "regret": {
                "about": "Mean regret in percent after the simulated seconds of 2, 5 and 10 "
                "random configurations, and the standard error of the last.",
                "columns": [
                    {"name": "acquisition"},
                    {"name": "runs"},
                    *[{"name": b, "digits": 2, "best": "min"} for b in budgets],
                    {"name": "± of the last", "digits": 2},
                ],
                "rows": rows,
            },
            "gain": {
                "about": "Regret of `ei` minus that of `ei-per-second` in the same runs, with its "
                "standard error; positive if seconds help.",
                "columns": [{"name": "past"}, *[{"name": b} for b in budgets]],
                "rows": pairs,
            },
        },
    )


def draw(lines: Lines) -> None:
    """Draw the mean regret of each method against simulated seconds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 3.8), layout="constrained")
    axes = figure.subplots()
    heads = lines.complete(METHODS)
    for which in METHODS:
        mean = np.mean([lines[(*head, which)] for head in heads], axis=0)
        width = 2.4 if which.startswith("ei-per-second") else 1.2
        axes.plot(BUDGETS, mean, "o-", lw=width, ms=4, label=which)
    axes.set_yscale("log")
    axes.set_xticks(BUDGETS)
    axes.set_xlabel("simulated seconds, in random configurations")
    axes.set_ylabel("mean regret (percent of configurations)")
    axes.grid(alpha=0.25, lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(FIGURE, dpi=110)


def main() -> None:
    options = arguments("seconds", __doc__, seeds=2).parse_args()
    lines = Lines(options.cache)
    keys = [(n, s, w) for s in range(options.seeds) for n in LEARNERS for w in METHODS]
    for key in [] if options.write else keys:
        if key not in lines:
            lines.add(key, run(*key))
            print(*key, lines[key], flush=True)
    draw(lines)
    write(lines, f"python benchmarks/seconds.py --seeds {options.seeds}")


if __name__ == "__main__":
    main()
