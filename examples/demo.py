"""The demo: `rankwise tune` on a new table, with and without the studies of earlier ones.

Earlier tables are tuned once and their studies kept in an archive. A new one, images of digits, is
then tuned from what they say and, with the same number of trials, from nothing.
Run: make demo, or python examples/demo.py [FOLDER] [SEEDS]; with more than one seed it says how
much the past is worth on average.
"""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import optuna
import pandas as pd
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

PAST = ("iris", "wine", "cancer", "digits389", "digits147", "digits0256")
NEW, TRIALS, PAST_TRIALS = "digits", 15, 25


def data(name: str) -> pd.DataFrame:
    """A data set that comes with scikit-learn, or a part of one, as a table with a target."""
    load = {"iris": load_iris, "wine": load_wine, "cancer": load_breast_cancer}
    bunch = load.get(name, load_digits)(as_frame=True)
    table = bunch.frame.rename(columns={"target": "kind"})
    table["kind"] = "class " + table["kind"].astype(str)
    if name in load:
        return table
    if name == NEW:
        return table[:500]
    wanted = [f"class {digit}" for digit in name.removeprefix("digits")]
    return table[500:][table["kind"][500:].isin(wanted)]  # other images than those of NEW


def tune(name: str, folder: Path, trials: int, seed: int, *options: str) -> list[str]:
    """The command that tunes a support vector machine for a table in the folder."""
    table, archive = folder / f"{name}.csv", f"sqlite:///{folder / 'rankwise.db'}"
    command = ["rankwise", "tune", str(table), "--target", "kind", "--estimator", "svc"]
    command += ["--metric", "accuracy", "--trials", str(trials), "--seed", str(seed)]
    return [*command, "--archive", archive, "--name", f"{name}-{seed}", *options]


def run(command: list[str], quiet: bool) -> str:
    """What a command prints; it is shown unless it is quiet."""
    here = [sys.executable, "-m", "rankwise.cli", *command[1:]]
    if not quiet:
        print(f"$ {shlex.join(command)}", flush=True)
    done = subprocess.run(here, check=True, text=True, capture_output=quiet)
    return done.stdout if quiet else ""


def best_so_far(folder: Path, name: str) -> np.ndarray:
    """Best accuracy (n,) after each trial of a study."""
    study = optuna.load_study(study_name=name, storage=f"sqlite:///{folder / 'rankwise.db'}")
    return np.maximum.accumulate([trial.value for trial in study.trials])


def table(curves: dict[str, np.ndarray]) -> Table:
    """Best accuracy after some numbers of trials, mean over seeds."""
    marks = (1, 2, 3, 5, 10, TRIALS)
    shown = Table("best accuracy after", *(f"{mark} trials" for mark in marks))
    for label, curve in curves.items():
        shown.add_row(label, *(f"{curve.mean(axis=0)[mark - 1]:.4f}" for mark in marks))
    return shown


def draw(curves: dict[str, np.ndarray], path: Path) -> None:
    """The error of the best so far: mean over seeds, and their range."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    colours = {"with earlier studies": "#0b6e4f", "without": "#c8553d"}
    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = figure.subplots()
    numbers = np.arange(1, TRIALS + 1)
    for label, curve in curves.items():
        errors, colour = 1 - curve, colours[label]
        low, high = errors.min(axis=0), errors.max(axis=0)
        axes.fill_between(numbers, low, high, step="post", color=colour, alpha=0.15, lw=0)
        mean = errors.mean(axis=0)
        axes.step(numbers, mean, where="post", lw=2.2, color=colour, label=label)
    axes.set_yscale("log")
    axes.set_yticks([0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0])
    axes.set_yticks([], minor=True)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlabel("trial")
    axes.set_ylabel("error, best so far")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right")
    seeds = len(next(iter(curves.values())))
    over = f", mean and range of {seeds} seeds" if seeds > 1 else ""
    title = f"rankwise tune digits.csv --estimator svc{over}"
    axes.set_title(title, loc="left", fontsize=11)
    figure.savefig(path, dpi=150)


def main(folder: str = "runs/demo", seeds: int = 1) -> dict[str, np.ndarray]:
    """Run, print and plot."""
    out, console = Path(folder), Console()
    out.mkdir(parents=True, exist_ok=True)
    for name in (*PAST, NEW):
        data(name).to_csv(out / f"{name}.csv", index=False)
    console.print(f"Earlier tables: {', '.join(PAST)}; {PAST_TRIALS} trials of each.")
    for name in PAST:
        found = json.loads(run(tune(name, out, PAST_TRIALS, 0, "--json"), quiet=True))
        console.print(f"  {name}: accuracy {found['best']['score']:.4f} in the archive")
    console.print("\nThe new one, also without history (--compare):")
    curves: dict[str, list[np.ndarray]] = {"with earlier studies": [], "without": []}
    for seed in range(seeds):
        report = out / "report.html"
        run(tune(NEW, out, TRIALS, seed, "--compare", "--report", str(report)), quiet=seed > 0)
        curves["with earlier studies"].append(best_so_far(out, f"{NEW}-{seed}"))
        curves["without"].append(best_so_far(out, f"{NEW}-{seed}-without-history"))
        if seeds > 1:  # or the next one knows the answer
            for study in (f"{NEW}-{seed}", f"{NEW}-{seed}-without-history"):
                archive = f"sqlite:///{out / 'rankwise.db'}"
                run(["rankwise", "archive", "forget", study, "--yes", "--archive", archive], True)
    stacked = {label: np.array(runs) for label, runs in curves.items()}
    console.print(table(stacked))
    draw(stacked, out / "demo.png")
    console.print(f"wrote {out}/demo.png and {out}/report.html")
    return stacked


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:3]))
