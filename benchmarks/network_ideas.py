"""Four smaller questions of "Configuration of Deep Neural Networks Using MBO" (2018), on CIFAR-10.

    python benchmarks/network_ideas.py run --runs 2
    python benchmarks/network_ideas.py report --figure docs/images/networks-convolutions.png \\
        --summary benchmarks/results/network-ideas.json

- How accurate are the networks with several convolutions that `mbo` and `mboinl` try (figure 5.8)?
- What does `mboinl` find that minimizes the accuracy (section 5.2)? A network that cannot be
  trained has the accuracy 0, so it is a good one for such a search.
- Weight morphism (`inherit`, an idea of chapter 6): the same searches with and without it.
  Random search proposes the same configurations in both, so its trials are compared in pairs.
- Expected improvement per second (another idea): `mbo` with it and with the plain one, until the
  trainings have used up `--seconds`.

The problem is that of `network_study.py` with fewer rows and epochs, and the budget of the first
three is a number of trials. Results are kept in `--out`, one file per run, and only missing ones
are computed. `report` compares searches by the seeds that they have in common. One thread.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import network_study as study
import numpy as np
from network_study import Algorithm, convolutions
from transfer import begin, markdown

from rankwise import Growing, Optimizer
from rankwise.errors import RankwiseError
from rankwise.networks import NetworkObjective, all_convolutional

DATA = "cifar10"
MARKS = (7, 14, 28)  # trials after which searches are compared
_MOST = 60  # trials of a run that has a budget of seconds

Trial = dict[str, Any]
Evaluate = Callable[[Mapping[str, Any]], float]


@dataclass(frozen=True)
class Search:
    """One search.

    Attributes:
        algorithm: method and space, as in the study.
        minimizes: looks for the smallest accuracy.
        inherits: networks start from the weights of smaller ones; None: not compared.
        acquisition: of the method; the run has a budget of seconds if it is given.
    """

    algorithm: Algorithm
    minimizes: bool = False
    inherits: bool | None = None
    acquisition: str | None = None


_GROWING = Algorithm("mbo", grows=True)
_BUILDABLE = Algorithm("random", stops=True, buildable=True)
SEARCHES = {
    "mbo": Search(Algorithm("mbo")),
    "mbo-es": Search(Algorithm("mbo", stops=True)),
    "mboinl": Search(_GROWING),
    "mboinl-es": Search(replace(_GROWING, stops=True)),
    "mboinl, minimizing": Search(_GROWING, minimizes=True),
    "mboinl-es, minimizing": Search(replace(_GROWING, stops=True), minimizes=True),
    "random": Search(_BUILDABLE, inherits=False),
    "random, inherit": Search(_BUILDABLE, inherits=True),
    "mboinl+": Search(replace(_BUILDABLE, method="mbo", grows=True), inherits=False),
    "mboinl+, inherit": Search(replace(_BUILDABLE, method="mbo", grows=True), inherits=True),
    "ei": Search(replace(_BUILDABLE, method="mbo"), acquisition="ei"),
    "ei-per-second": Search(replace(_BUILDABLE, method="mbo"), acquisition="ei-per-second"),
}
THESIS = tuple(SEARCHES)[:6]

# ---------------------------------------------------------------------- runs


def file_of(name: str, seed: int, o: argparse.Namespace) -> Path:
    path: Path = o.out / f"{name.replace(', ', '_')}-{seed}.json"
    return path


def run(name: str, seed: int, o: argparse.Namespace) -> None:
    """Write the trials of a search into its file, if it is missing."""
    path = file_of(name, seed, o)
    if path.exists():
        return
    begun = time.process_time()
    trials = searched(SEARCHES[name], seed, o)
    path.write_text(json.dumps(trials))
    best = max(trial["accuracy"] for trial in trials)
    spent = time.process_time() - begun
    print(f"{path.stem}: {len(trials)} trials, best {best:.3f}, {spent:.0f} s", flush=True)


def searched(search: Search, seed: int, o: argparse.Namespace) -> list[Trial]:
    """Run a search until its trials, or its seconds of training, are used up."""
    optimizer = optimizer_of(search, seed, o)
    evaluate = evaluation(search, seed, o)
    timed = search.acquisition is not None
    trials: list[Trial] = []
    clock = 0.0
    while len(trials) < (_MOST if timed else o.trials) and not (timed and clock >= o.seconds):
        [configuration] = optimizer.ask()
        begun = time.process_time()
        accuracy, error = 0.0, ""
        try:
            accuracy = evaluate(configuration)
        except RankwiseError as failure:
            error = type(failure).__name__
        cost = time.process_time() - begun
        clock += cost
        if search.minimizes:
            optimizer.tell(configuration, accuracy, cost=cost)
        else:
            status = "failed" if error else None
            optimizer.tell(configuration, 1.0 - accuracy, cost=cost, status=status, error=error)
        trials.append(
            {
                "accuracy": accuracy,
                "seconds": cost,
                "error": error,
                "layers": configuration["layers"],
                "convolutions": convolutions({"configuration": configuration}),
            }
        )
    return trials


def optimizer_of(search: Search, seed: int, o: argparse.Namespace) -> Optimizer:
    """The optimizer with the settings of the study."""
    algorithm = search.algorithm
    encoder = space_of(search, o)
    grow = None
    if algorithm.grows:
        epochs = {} if algorithm.stops else {"epochs": o.epochs}
        given = [{**all_convolutional(encoder.space, depth), **epochs} for depth in (1, 2, 3)]
        grow = Growing("layers", given=given, trials=o.trials)
    settings = dict(study.SETTINGS.get(algorithm.method, {}))
    if search.acquisition:
        settings["acquisition"] = search.acquisition
    return Optimizer(
        encoder,
        method=algorithm.method,
        design=None if algorithm.grows else f"lhs-{o.design}",
        seed=seed,
        grow=grow,
        **settings,
    )


def space_of(search: Search, o: argparse.Namespace) -> Any:
    return study.space_of(search.algorithm, o)


def evaluation(search: Search, seed: int, o: argparse.Namespace) -> Evaluate:
    """The accuracy on test rows of a configuration's network, trained on the training rows."""
    (X, y), test, _ = study.images(o.data, DATA, o.rows, o.halve, seed)
    if search.inherits is not None or search.acquisition:
        objective = NetworkObjective(
            X,
            y,
            inherit=bool(search.inherits),
            validation=test,
            epochs=o.epochs,
            random_state=seed,
        )
        return lambda configuration: 1.0 - objective(configuration)

    def evaluate(configuration: Mapping[str, Any]) -> float:
        classifier = study.network(configuration, search.algorithm.stops, o, seed)
        return float(classifier.fit(X, y).score(*test))

    return evaluate


# ---------------------------------------------------------------------- report

Runs = Mapping[tuple[str, int], Sequence[Trial]]


def common(runs: Runs, *names: str) -> list[list[Sequence[Trial]]]:
    """The runs of each search with the seeds that all of them have."""
    seeds = sorted({seed for _, seed in runs})
    seeds = [seed for seed in seeds if all((name, seed) in runs for name in names)]
    return [[runs[name, seed] for seed in seeds] for name in names]


def best_after(run: Sequence[Trial], count: int) -> float:
    return max(trial["accuracy"] for trial in run[:count])


def listed(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.3f}" for value in values)


def mean(values: Sequence[float]) -> float:
    return round(float(np.mean(values)), 3)


def table(about: str, names: Iterable[str], rows: list[list[Any]]) -> dict[str, Any]:
    """A table of a results file; accuracies have three digits."""
    columns = [{"name": n, "digits": 3} if "accuracy" in n else {"name": n} for n in names]
    return {
        "about": about,
        "columns": [{"name": "search", "code": True}, *columns],
        "rows": rows,
    }


def thesis_table(runs: Runs) -> dict[str, Any]:
    """What `mboinl` finds that minimizes, and what networks with several convolutions reach."""
    rows = []
    for name, own in zip(THESIS, common(runs, *THESIS), strict=True):
        trials = [trial for run in own for trial in run]
        several = [trial for trial in trials if trial["convolutions"] > 1]
        trained = [trial["accuracy"] for trial in several if not trial["error"]]
        failed = len(several) - len(trained)
        bests = [best_after(run, len(run)) for run in own]
        rows.append(
            [
                name,
                mean(bests),
                listed(bests),
                mean([trial["accuracy"] for trial in trials]),
                f"{100 * len(several) / len(trials):.0f} %",
                f"{100 * failed / len(several):.0f} %" if several else None,
                round(float(np.median(trained)), 3) if trained else None,
                round(max(trained), 3) if trained else None,
            ]
        )
    columns = ["best accuracy, mean", "best, each run", "mean accuracy of all trials"]
    columns += ["trials with several convolutions"]
    columns += ["failed of these", "median accuracy of the others", "best accuracy of the others"]
    return table("Accuracy on test rows.", columns, rows)


def inherit_table(runs: Runs) -> dict[str, Any]:
    """The same searches with and without weight morphism."""
    rows = []
    for without in ("random", "mboinl+"):
        names = (without, f"{without}, inherit")
        for name, own in zip(names, common(runs, *names), strict=True):
            afters = [mean([best_after(run, k) for run in own]) for k in MARKS]
            every = mean([trial["accuracy"] for run in own for trial in run])
            rows.append([name, *afters, every, listed(best_after(run, len(run)) for run in own)])
    columns = [f"best accuracy after {k}" for k in MARKS]
    columns += ["mean accuracy of all trials", "best, each run"]
    with_and_without = zip(*common(runs, "random", "random, inherit"), strict=True)
    pairs = [
        b["accuracy"] - a["accuracy"]
        for run, inheriting in with_and_without
        for a, b in zip(run, inheriting, strict=True)
        if not (a["error"] or b["error"])
    ]
    about = (
        f"Accuracy on test rows of the best epoch. Of the {len(pairs)} configurations of random "
        f"search that could be trained, {sum(p > 0 for p in pairs)} are more accurate with "
        f"inherited weights and {sum(p < 0 for p in pairs)} less; the mean difference is "
        f"{np.mean(pairs):+.3f} (standard error {np.std(pairs) / len(pairs) ** 0.5:.3f})."
    )
    return table(about, columns, rows)


def seconds_table(runs: Runs, seconds: float) -> dict[str, Any]:
    """Expected improvement and expected improvement per second by seconds of training."""
    names, shares = ("ei", "ei-per-second"), (0.25, 0.5, 1.0)
    rows = []
    for name, own in zip(names, common(runs, *names), strict=True):
        bests = np.zeros((len(own), len(shares)))
        for r, run in enumerate(own):
            clocks = np.cumsum([trial["seconds"] for trial in run])
            for k, share in enumerate(shares):
                done = int(np.searchsorted(clocks, share * seconds, side="right"))
                bests[r, k] = best_after(run, done) if done else 0.0
        trials = [trial for run in own for trial in run]
        row = [name, *(mean(column) for column in bests.T), listed(bests[:, -1])]
        cost = np.mean([trial["seconds"] for trial in trials])
        rows.append([*row, f"{len(trials) / len(own):.0f}", f"{cost:.2f}"])
    columns = [f"best accuracy after {share * seconds:g} s" for share in shares]
    columns += ["at the end, each run", "trials per run", "seconds per training"]
    about = "Accuracy on test rows by processor seconds of training, proposals not included."
    return table(about, columns, rows)


def draw(runs: Runs, path: Path) -> None:
    """Accuracy of the networks with several convolutions by trial (figure 5.8)."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(9.5, 4.6), sharex=True, sharey=True)
    for axis, name, own in zip(axes.flat, THESIS, common(runs, *THESIS), strict=True):
        for run in own:
            for number, trial in enumerate(run, 1):
                several = trial["convolutions"] > 1
                colour = ("#c44e52" if trial["error"] else "#4c72b0") if several else "0.8"
                axis.plot(number, trial["accuracy"], "o", ms=5 if several else 3, color=colour)
        axis.set_title(name, fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[-1]:
        axis.set_xlabel("trial")
    for axis in axes[:, 0]:
        axis.set_ylabel("accuracy")
    marks = {"several convolutions": "#4c72b0", "the same, failed": "#c44e52", "others": "0.8"}
    handles = [
        plt.Line2D([], [], ls="", marker="o", color=colour, label=label)
        for label, colour in marks.items()
    ]
    figure.legend(handles=handles, loc="lower center", ncols=3, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.savefig(path, dpi=120)


def report(runs: Runs, o: argparse.Namespace) -> None:
    tables = {
        "thesis": thesis_table(runs),
        "inherit": inherit_table(runs),
        "seconds": seconds_table(runs, o.seconds),
    }
    for one in tables.values():
        print(one["about"], "\n")
        cells = [["" if cell is None else cell for cell in row] for row in one["rows"]]
        print(markdown([column["name"] for column in one["columns"]], cells), "\n")
    if o.summary:
        content = json.loads(o.summary.read_text("utf-8"))
        content["tables"] = tables
        o.summary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")
    if o.figure:
        draw(runs, o.figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("part", choices=["run", "report"])
    parser.add_argument("--out", type=Path, default=Path("runs/network-ideas"))
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("RANKWISE_DATA", "data")))
    parser.add_argument("--rows", type=int, default=1200)
    parser.add_argument("--halve", type=int, default=1, help="how often images are halved")
    parser.add_argument("--epochs", type=int, default=5, help="at most")
    parser.add_argument("--trials", type=int, default=28)
    parser.add_argument("--design", type=int, default=10, help="size of mbo's initial design")
    parser.add_argument("--seconds", type=float, default=10.0, help="of training, for `ei`")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of one training")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--only", default="", help="only these searches, separated by ;")
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--summary", type=Path, help="results file that gets the tables")
    o = parser.parse_args()
    begin()
    warnings.simplefilter("ignore")
    o.out.mkdir(parents=True, exist_ok=True)
    names = [name for name in SEARCHES if not o.only or name in o.only.split(";")]
    cells = list(product(range(o.runs), names))
    if o.part == "run":
        for seed, name in cells:
            run(name, seed, o)
        return
    files = {(name, seed): file_of(name, seed, o) for seed, name in cells}
    report({key: json.loads(f.read_text()) for key, f in files.items() if f.exists()}, o)


if __name__ == "__main__":
    main()
