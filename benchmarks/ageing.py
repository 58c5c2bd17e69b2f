"""Re-tuning every month: the best value after a few trials, with and without ageing of the past.

    python benchmarks/ageing.py --seeds 20

Each month of two years has a study of 25 random trials. The function to minimise has three
hyperparameters; its best configuration moves steadily ("drift"), jumps once after 16 months
("change"), or varies around one place without any trend ("stable"). The study of the next month is
optimised with `eb-gp`: with the half-life that the archive learns, and without ageing. Writes
`benchmarks/results/ageing.json` and `docs/images/ageing.png`.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
from optuna.distributions import FloatDistribution

import rankwise
from rankwise.archive import Archive, PastStudy
from rankwise.history.task import OK

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("a", "b", "c")
MONTHS, TRIALS, BUDGET = 24, 25, 10
KINDS = {"drift": "moves steadily", "change": "jumps once", "stable": "no trend"}
SHOWN = (1, 3, 10)


def centre(kind: str, month: int, rng: np.random.Generator) -> np.ndarray:
    """The best configuration (3,) of a month."""
    noise = rng.normal(0, 0.04, 3)
    if kind == "drift":
        return np.array([0.15, 0.85, 0.5]) + month / MONTHS * np.array([0.7, -0.7, 0.2]) + noise
    if kind == "change" and month >= 16:
        return np.array([0.8, 0.3, 0.6]) + noise
    return np.array([0.25, 0.7, 0.4]) + noise


def loss(best: np.ndarray, scale: float) -> Callable[[np.ndarray], float]:
    """The function of a month: a valley that is narrower in the first direction."""
    widths = np.array([3.0, 2.0, 1.0])
    return lambda x: scale * float(np.log1p((((x - best) * widths) ** 2).sum()))


def studies(kind: str, seed: int) -> tuple[list[PastStudy], Callable[[np.ndarray], float]]:
    """The studies of the past months, and the function of the next one."""
    rng = np.random.default_rng([seed, list(KINDS).index(kind)])
    found = []
    for month in range(MONTHS):
        f = loss(centre(kind, month, rng), rng.uniform(0.5, 2.0))
        X = rng.uniform(size=(TRIALS, 3))
        values = np.array([f(x) for x in X]) + rng.normal(0, 0.02, TRIALS)
        found.append(
            PastStudy(
                f"month-{month:02d}",
                "minimize",
                [dict(zip(NAMES, row, strict=True)) for row in X.tolist()],
                {name: FloatDistribution(0, 1) for name in NAMES},
                values,
                (OK,) * TRIALS,
                np.zeros(TRIALS, bool),
                np.full(TRIALS, np.nan),
                {},
                datetime(2024, 1, 1) + timedelta(days=30 * month),
            )
        )
    return found, loss(centre(kind, MONTHS, rng), 1.0)


def run(kind: str, seed: int, half_life: str | None) -> tuple[list[float], float | None]:
    """Best loss after each trial of the next month, and the half-life in days."""
    past, f = studies(kind, seed)
    archive = Archive(past, half_life=half_life)
    optimizer = rankwise.Optimizer(
        archive.space.encoder, method="eb-gp", tasks=archive.tasks, seed=seed
    )
    best, curve = np.inf, []
    for _ in range(BUDGET):
        [configuration] = optimizer.ask()
        value = f(np.array([configuration[name] for name in NAMES]))
        optimizer.tell(configuration, value)
        best = min(best, value)
        curve.append(best)
    days = archive.ageing.half_life
    return curve, None if days is None else days / 86400


def cell(values: np.ndarray) -> dict[str, float]:
    """Mean and standard error as a cell of a table."""
    se = values.std(ddof=1) / np.sqrt(len(values))
    return {"value": round(float(values.mean()), 4), "se": round(float(se), 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = range(parser.parse_args().seeds)
    warnings.simplefilter("ignore")
    curves: dict[tuple[str, str], np.ndarray] = {}
    rows, learnt = [], []
    for kind, about in KINDS.items():
        half_lives: list[float | None] = []
        for name, option in (("learnt half-life", "auto"), ("no ageing", None)):
            outcomes = [run(kind, seed, option) for seed in seeds]
            curves[kind, name] = np.array([curve for curve, _ in outcomes])
            half_lives += [days for _, days in outcomes] if option else []
        a, b = curves[kind, "learnt half-life"], curves[kind, "no ageing"]
        for name, table in (("learnt half-life", a), ("no ageing", b), ("difference", a - b)):
            rows.append([f"{kind} ({about})", name, *(cell(table[:, n - 1]) for n in SHOWN)])
        days = [d for d in half_lives if d is not None]
        typical = round(float(np.median(days))) if days else "none"
        learnt.append([f"{kind} ({about})", f"{len(days)} of {len(half_lives)}", typical])
    columns = [{"name": "best configuration"}, {"name": "past"}]
    columns += [{"name": f"after {n}", "digits": 3} for n in SHOWN]
    content = {
        "title": "Re-tuning every month",
        "date": date.today().isoformat(),
        "machine": "2 cores, other work on both",
        "versions": f"rankwise {rankwise.__version__}, NumPy {np.__version__}",
        "command": [f"python benchmarks/ageing.py --seeds {len(seeds)}"],
        "protocol": "24 monthly studies of 25 random trials, then 10 trials of `eb-gp` on the "
        f"function of the next month; {len(seeds)} repetitions, simulated. The rule of ageing was "
        "fixed before this run.",
        "tables": {
            "best": {
                "about": "Mean of the best loss after 1, 3 and 10 trials (best possible: 0), with "
                "standard errors; the differences are paired.",
                "columns": columns,
                "rows": rows,
            },
            "half-life": {
                "about": "How often an archive learns to age, and the median half-life.",
                "columns": [
                    {"name": "best configuration"},
                    {"name": "ages"},
                    {"name": "days"},
                ],
                "rows": learnt,
            },
        },
    }
    path = ROOT / "benchmarks" / "results" / "ageing.json"
    path.write_text(json.dumps(content, indent=1) + "\n")
    draw(curves)


def draw(curves: dict[tuple[str, str], np.ndarray]) -> None:
    """Draw the best loss over the trials, one panel for each kind of past."""
    import matplotlib.pyplot as plt

    from rankwise._core.palette import PALETTE

    figure, panels = plt.subplots(1, len(KINDS), figsize=(10, 3), sharey=True, layout="tight")
    for axes, (kind, about) in zip(panels, KINDS.items(), strict=True):
        for k, name in enumerate(("learnt half-life", "no ageing")):
            values = curves[kind, name]
            mean, se = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))
            x = np.arange(1, BUDGET + 1)
            axes.plot(x, mean, color=PALETTE[k], label=name)
            axes.fill_between(x, mean - se, mean + se, color=PALETTE[k], alpha=0.2)
        axes.set(title=f"best configuration: {about}", xlabel="trials of the new month")
        axes.set_yscale("log")
    panels[0].set_ylabel("best loss")
    panels[0].legend()
    figure.savefig(ROOT / "docs" / "images" / "ageing.png", dpi=110)


if __name__ == "__main__":
    main()
