"""The demo: `rankwise tune` on a new table, with and without past studies.

An archive holds the studies of ten earlier tables (benchmarks/earlier.py made them). A new table,
images of digits, is tuned three times: with these studies, without past studies, and with the
built-in studies of the package only ("day one").
Run: make demo, or python examples/demo.py [FOLDER] [SEEDS] [TRIALS]; with more than one seed it
shows means over the seeds.
"""

import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import optuna
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits

EARLIER = Path(__file__).parent / "earlier-svc.jsonl"
TRIALS, ROWS = 15, slice(900, 1300)


def run(command: str, quiet: bool = False) -> None:
    """Run a command, which is shown with what it prints unless it is quiet."""
    if not quiet:
        print(f"$ rankwise {command}", flush=True)
    here = [sys.executable, "-m", "rankwise.cli", *shlex.split(command)]
    subprocess.run(here, check=True, capture_output=quiet)


def best_so_far(folder: Path, name: str) -> np.ndarray:
    """Best accuracy (n,) after each trial of a study."""
    study = optuna.load_study(study_name=name, storage=f"sqlite:///{folder / 'rankwise.db'}")
    return np.maximum.accumulate([trial.value for trial in study.trials])


def table(curves: dict[str, np.ndarray]) -> Table:
    """Best accuracy after some numbers of trials, mean over seeds."""
    trials = len(next(iter(curves.values()))[0])
    marks = [*(mark for mark in (1, 2, 3, 5, 10) if mark < trials), trials]
    shown = Table("best accuracy after", *(f"{mark} trials" for mark in marks))
    for label, curve in curves.items():
        shown.add_row(label, *(f"{curve.mean(axis=0)[mark - 1]:.4f}" for mark in marks))
    return shown


def draw(curves: dict[str, np.ndarray], path: Path) -> None:
    """The error of the best so far: mean over seeds, and their range."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    colours = {"with earlier studies": "#0b6e4f", "day one": "#3d6fb5", "without": "#c8553d"}
    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = figure.subplots()
    numbers = np.arange(1, len(next(iter(curves.values()))[0]) + 1)
    for label, curve in curves.items():
        errors, colour = 1 - curve, colours[label]
        low, high = errors.min(axis=0), errors.max(axis=0)
        axes.fill_between(numbers, low, high, step="post", color=colour, alpha=0.15, lw=0)
        mean = errors.mean(axis=0)
        axes.step(numbers, mean, where="post", lw=2.2, color=colour, label=label)
    axes.set_ylim(bottom=0.0)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlabel("trial")
    axes.set_ylabel("error, best so far")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right")
    seeds = len(next(iter(curves.values())))
    over = f", mean and range of {seeds} seeds" if seeds > 1 else ""
    title = f"rankwise tune digits.csv --estimator svc{over}"
    axes.set_title(title, loc="left", fontsize=11)
    figure.savefig(path, dpi=150)


def main(folder: str = "runs/demo", seeds: int = 1, trials: int = TRIALS) -> dict[str, np.ndarray]:
    """Run, print and plot."""
    out, console = Path(folder), Console()
    out.mkdir(parents=True, exist_ok=True)
    table_file = shlex.quote(str(out / "digits.csv"))
    images = load_digits(as_frame=True).frame.rename(columns={"target": "digit"})[ROWS]
    images.to_csv(out / "digits.csv", index=False)
    where = f"--archive {shlex.quote(f'sqlite:///{out}/rankwise.db')}"
    run(f"archive import {shlex.quote(str(EARLIER))} {where}", quiet=seeds > 1)
    names = {"with earlier studies": "", "day one": "-day-one", "without": "-without-history"}
    curves: dict[str, list[np.ndarray]] = {label: [] for label in names}
    for seed in range(seeds):
        name, report = f"digits-{seed}", shlex.quote(str(out / "report.html"))
        what = f"tune {table_file} --target digit --task classification --estimator svc"
        how = f"--trials {trials} --seed {seed} --cv 3"
        compare = f"--compare --report {report} --name {name}"
        run(f"{what} {how} {compare} {where}", quiet=seeds > 1)
        run(f"{what} {how} --past builtin --name {name}-day-one {where}", quiet=True)
        for label, suffix in names.items():
            curves[label].append(best_so_far(out, name + suffix))
        if seeds > 1:  # or the next one knows the answer
            for suffix in names.values():
                run(f"archive forget {name}{suffix} --yes {where}", quiet=True)
    stacked = {label: np.array(runs) for label, runs in curves.items()}
    console.print(table(stacked))
    draw(stacked, out / "demo.png")
    console.print(f"wrote {out}/demo.png and {out}/report.html")
    return stacked


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:4]))
