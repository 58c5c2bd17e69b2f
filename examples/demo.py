"""The demo: tune on a new data set with and without the studies of earlier ones.

Past studies of the same pipeline on other data are run once and kept in a SQLite file. A new
data set is then tuned twice with the same budget: from nothing, and from what they say.
Run: make demo, or python examples/demo.py [FOLDER] [SEEDS]; with more than one seed it says how
much the past is worth on average.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import optuna
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import rankwise

NEW = "digits"
TRIALS, PAST_TRIALS = 15, 30


def data(name: str) -> tuple[np.ndarray, np.ndarray]:
    """A data set that comes with scikit-learn, or a part of one."""
    if name in ("iris", "wine", "cancer"):
        load = {"iris": load_iris, "wine": load_wine, "cancer": load_breast_cancer}[name]
        return load(return_X_y=True)
    X, y = load_digits(return_X_y=True)
    if name == NEW:
        return X[:500], y[:500]
    wanted = np.isin(y[500:], [int(digit) for digit in name])  # other images than those of NEW
    return X[500:][wanted], y[500:][wanted]


PAST = ("iris", "wine", "cancer", "389", "147", "0256")


def objective(name: str):
    """Accuracy of a support vector machine on a data set, by five-fold cross-validation."""
    X, y = data(name)

    def accuracy(trial: optuna.Trial) -> float:
        kernel = trial.suggest_categorical("kernel", ["rbf", "poly", "sigmoid", "linear"])
        settings = {"kernel": kernel, "C": trial.suggest_float("C", 1e-4, 1e4, log=True)}
        if kernel != "linear":
            settings["gamma"] = trial.suggest_float("gamma", 1e-6, 1e2, log=True)
        if kernel == "poly":
            settings["degree"] = trial.suggest_int("degree", 2, 5)
        model = make_pipeline(StandardScaler(), SVC(max_iter=20_000, **settings))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return cross_val_score(model, X, y, cv=5).mean()

    return accuracy


def make_past(url: str, console: Console) -> None:
    """Run the past studies that are not there yet."""
    for k, name in enumerate(track(PAST, "past studies", console=console)):
        study = optuna.create_study(
            storage=url,
            study_name=f"svm-{name}",
            direction="maximize",
            sampler=optuna.samplers.RandomSampler(seed=k),
            load_if_exists=True,
        )
        missing = PAST_TRIALS - len(study.trials)
        if missing > 0:
            study.optimize(objective(name), n_trials=missing)


def tune(archive: str | None, seed: int, trials: int = TRIALS) -> optuna.Study:
    """Tune the new data set; `archive` is the only difference."""
    sampler = rankwise.RankwiseSampler(archive, like="svm-*", seed=seed)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(objective(NEW), n_trials=trials)
    return study


def best_so_far(study: optuna.Study) -> np.ndarray:
    """Best accuracy (n,) after each trial."""
    return np.maximum.accumulate([trial.value for trial in study.trials])


def table(studies: dict[str, list[optuna.Study]]) -> Table:
    """Best accuracy after some numbers of trials, mean over seeds."""
    marks = (1, 2, 3, 5, 10, TRIALS)
    shown = Table("best accuracy after", *(f"{mark} trials" for mark in marks))
    for label, runs in studies.items():
        curve = np.mean([best_so_far(study) for study in runs], axis=0)
        shown.add_row(label, *(f"{curve[mark - 1]:.4f}" for mark in marks))
    return shown


def draw(studies: dict[str, list[optuna.Study]], path: Path) -> None:
    """The error of each trial, or the range over seeds, and that of the best so far."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    colours = {"with past studies": "#0b6e4f", "without": "#c8553d"}
    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = figure.subplots()
    numbers = np.arange(1, TRIALS + 1)
    for label, runs in studies.items():
        errors = 1 - np.array([best_so_far(study) for study in runs])
        style = {"color": colours[label], "step": "post", "alpha": 0.15, "lw": 0}
        if len(runs) == 1:
            values = [1 - trial.value for trial in runs[0].trials]
            axes.plot(numbers, values, "o", ms=4, alpha=0.4, color=colours[label])
        else:
            axes.fill_between(numbers, errors.min(axis=0), errors.max(axis=0), **style)
        mean = errors.mean(axis=0)
        axes.step(numbers, mean, where="post", lw=2.2, color=colours[label], label=label)
    axes.set_yscale("log")
    axes.set_yticks([0.03, 0.05, 0.1, 0.2, 0.5, 1.0])
    axes.set_yticks([], minor=True)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlabel("trial")
    axes.set_ylabel("error, best so far")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right")
    seeds = len(next(iter(studies.values())))
    over = f", mean and range of {seeds} seeds" if seeds > 1 else ""
    axes.set_title(f"A support vector machine on images of digits{over}", loc="left", fontsize=11)
    figure.savefig(path, dpi=150)


def main(folder: str = "runs/demo", seeds: int = 1) -> dict[str, list[optuna.Study]]:
    """Run, print and plot."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    console = Console()
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    url = f"sqlite:///{out}/past.db"
    console.print(f"Past: studies of the same pipeline on {', '.join(PAST)}, in {out}/past.db.")
    make_past(url, console)
    studies: dict[str, list[optuna.Study]] = {"with past studies": [], "without": []}
    for seed in track(range(seeds), "new study, twice", console=console):
        studies["with past studies"].append(tune(url, seed))
        studies["without"].append(tune(None, seed))
    console.print(table(studies))
    draw(studies, out / "demo.png")
    console.print(f"wrote {out}/demo.png")
    return studies


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:3]))
