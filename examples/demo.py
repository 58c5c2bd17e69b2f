"""The demo: tune a pipeline on a real data set, watch it, look at what came out.

Writes the run's progress as a picture and as an interactive page.
Run: make demo, or python examples/demo.py [FOLDER]
"""

import sys
from pathlib import Path

from pipeline import build, space
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score, train_test_split

import rankwise


def best_trials(result: rankwise.Result, n: int = 5) -> Table:
    """The n best trials as a table."""
    table = Table(title=f"The {n} best of {len(result.trials)} trials", title_justify="left")
    table.add_column("trial", justify="right")
    table.add_column("accuracy", justify="right")
    table.add_column("configuration")
    by_number = {trial.number: trial for trial in result.trials}
    for number in result.top(n)["number"]:
        trial = by_number[number]
        shown = ", ".join(
            f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}"
            for name, value in trial.configuration.items()
        )
        table.add_row(str(number), f"{trial.value:.4f}", shown)
    return table


def main(folder: str = "runs/demo", trials: int = 50) -> rankwise.Result:
    """Tune, print and plot."""
    console = Console()
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, train_size=600, stratify=y, random_state=0
    )

    def accuracy(configuration: dict) -> float:
        return cross_val_score(build(configuration), X_train, y_train, cv=5).mean()

    console.print(
        f"Tuning a feature filter and a learner on {len(X_train)} images of digits: "
        f"{trials} trials of five-fold cross-validation."
    )
    result = rankwise.minimize(
        accuracy, space, trials=trials, direction="maximize", seed=0, name="digits", progress=True
    )
    console.print(best_trials(result))

    default = build(rankwise.Encoder(space).default).fit(X_train, y_train).score(X_test, y_test)
    tuned = build(result.best_configuration).fit(X_train, y_train).score(X_test, y_test)
    console.print(
        f"Accuracy on {len(X_test)} images that tuning never saw: "
        f"default configuration {default:.4f}, tuned {tuned:.4f}"
    )
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name in ("progress.png", "progress.html"):
        result.plot(Path(folder) / name)
        console.print(f"wrote {folder}/{name}")
    return result


if __name__ == "__main__":
    main(*sys.argv[1:2])
