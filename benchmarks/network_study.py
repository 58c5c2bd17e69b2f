"""Configuring networks: the study of "Configuration of Deep Neural Networks Using MBO" (2018).

    python benchmarks/network_study.py study --jobs 2
    python benchmarks/network_study.py transfer --jobs 2
    python benchmarks/network_study.py report --figures docs/images

- `study`: random search, model-based optimization (mbo) and its growing variant (mboinl), each
  with and without early stopping, in the thesis's space; with early stopping also in the space
  whose networks can all be built (`+`), there with `dre-ri` too; and the hand-designed network. On
  CIFAR-10, Fashion-MNIST and rotated digits on photographs, `$RANKWISE_DATA/images`.
- `transfer`: with early stopping in the second space again, `dre` and `eb-gp` after the runs of
  `study` on the two other data sets.
- `report`: tables and figures of what was run.

Rows are split into training, test and validation, 2/3, 1/6, 1/6: configurations are trained on the
first and compared on the second, and the best one is trained on both and scored on the third. A
run ends when its seconds are used up, proposals included; they are seconds of the processor, one
thread, so that two runs at a time do not disturb each other. One training takes at most `--limit`
of them, also that of the hand-designed network, and images are halved (`--halve 1`: means of 2 x 2
pixels). The thesis has 4.5 hours on eight GPUs, whole images, all rows and up to 50 epochs:
`--seconds 16200 --limit 16200 --halve 0 --rows 60000 --epochs 50 --design 64`.

Results are kept in `--out`, one file per run, and only missing ones are computed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")})

import joblib
import numpy as np
from scipy.stats import rankdata
from transfer import markdown

from rankwise import Encoder, Growing, Optimizer, Task
from rankwise.errors import RankwiseError
from rankwise.networks import (
    Conv,
    ConvNetClassifier,
    Dense,
    all_convolutional,
    convnet_space,
    network_of,
)

DATA = ("cifar10", "fashion-mnist", "mnist-rot-bgimg")
SMALLEST = 28  # all data sets share one space, so that runs on one can teach another
PATIENCE, WATCHED = 0.2, 0.15  # of the epochs; of the training rows, as in the thesis
_FINEST = 100  # times at which curves are compared


@dataclass(frozen=True)
class Algorithm:
    """How networks are configured.

    Attributes:
        method: of rankwise.
        stops: early, and the epochs are no hyperparameter.
        buildable: in the space whose networks can all be built.
        grows: layer by layer.
        past: learns from the runs on other data sets.
    """

    method: str
    stops: bool = False
    buildable: bool = False
    grows: bool = False
    past: bool = False


STUDY = {
    "random": Algorithm("random"),
    "random-es": Algorithm("random", stops=True),
    "mbo": Algorithm("mbo"),
    "mbo-es": Algorithm("mbo", stops=True),
    "mboinl": Algorithm("mbo", grows=True),
    "mboinl-es": Algorithm("mbo", stops=True, grows=True),
    "random-es+": Algorithm("random", stops=True, buildable=True),
    "mbo-es+": Algorithm("mbo", stops=True, buildable=True),
    "mboinl-es+": Algorithm("mbo", stops=True, buildable=True, grows=True),
    "dre-ri-es+": Algorithm("dre-ri", stops=True, buildable=True),
}
TRANSFER = {
    f"{name}-es+ past": Algorithm(name, stops=True, buildable=True, past=True)
    for name in ("dre", "eb-gp")
}
ALL = {**STUDY, **TRANSFER}
HAND = "by hand"
SETTINGS: dict[str, dict[str, Any]] = {
    "mbo": {"acquisition": "lcb"},
    "dre": {"training": {"steps": 500}, "progress": False},
    "eb-gp": {"progress": False},
}
COLOURS = {"random": "#8c8c8c", "mbo": "#4c72b0", "mboinl": "#c44e52", "dre-ri": "#55a868"}
COLOURS |= {"dre": "#8172b3", "eb-gp": "#ccb974", HAND: "black"}

# ---------------------------------------------------------------------- data and networks


def images(
    folder: Path, name: str, rows: int, halve: int, replication: int
) -> list[tuple[Any, Any]]:
    """Training, test and validation rows of a replication, each (X, y)."""
    stored = np.load(folder / "images" / f"{name}.npz")
    X = np.concatenate([stored["X_train"], stored["X_test"]])
    y = np.concatenate([stored["y_train"], stored["y_test"]]).astype(int)
    order = np.random.default_rng([10, replication]).permutation(len(X))[:rows]
    X, y, order = X[order].astype(np.float32) / 255.0, y[order], np.arange(len(order))
    for _ in range(halve):
        n, h, w = X.shape[:3]
        X = X.reshape(n, h // 2, 2, w // 2, 2, *X.shape[3:]).mean(axis=(2, 4))
    n = len(order)
    cuts = np.split(order, [n * 4 // 6, n * 5 // 6])
    return [(X[part], y[part]) for part in cuts]


def space_of(algorithm: Algorithm, o: argparse.Namespace) -> Encoder:
    longest = None if algorithm.stops else (max(1, o.epochs // 5), o.epochs)
    side = SMALLEST // 2**o.halve
    return Encoder(convnet_space((side, side), epochs=longest, buildable=algorithm.buildable))


def network(
    configuration: Mapping[str, Any], stops: bool, o: argparse.Namespace, seed: int
) -> Any:
    """The classifier of a configuration, which ends when its seconds are used up."""
    return ConvNetClassifier.from_configuration(configuration, **training(stops, o, seed))


def training(stops: bool, o: argparse.Namespace, seed: int) -> dict[str, Any]:
    """What the configuration does not say."""
    begun: list[float] = []

    def over(*_: Any) -> bool:
        begun.append(time.process_time())
        return begun[-1] - begun[0] > o.limit

    given: dict[str, Any] = {"on_batch": over, "random_state": seed}
    if stops:
        given |= {"epochs": o.epochs, "validation": WATCHED}
        given["patience"] = max(1, int(PATIENCE * o.epochs))
    return given


def hand_designed(o: argparse.Namespace, seed: int) -> Any:
    """The network of the thesis, section 5.1."""
    return ConvNetClassifier(
        (
            Conv(
                filters=60, kernel=3, activation="relu", pool="max", pool_kernel=3, pool_stride=1
            ),
            Conv(
                filters=40, kernel=2, activation="relu", pool="max", pool_kernel=2, pool_stride=1
            ),
            Dense(units=250, activation="relu"),
        ),
        learning_rate=0.1,
        momentum=0.8,
        batch_norm=True,
        batch_size=128,
        **training(True, o, seed),
    )


# ---------------------------------------------------------------------- runs


def run(data: str, name: str, replication: int, o: argparse.Namespace) -> None:
    """One algorithm on one data set, into its file."""
    path = file_of(data, name, replication, o)
    if path.exists():
        return
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    parts = images(o.data, data, o.rows, o.halve, replication)
    begun = time.process_time()
    if name == HAND:
        found = by_hand(parts, o, replication)
    else:
        found = tuned(data, ALL[name], parts, o, replication)
    path.write_text(json.dumps(found))
    best = max((t["accuracy"] for t in found["trials"]), default=0.0)
    print(
        f"{path.stem}: {len(found['trials'])} trials, test {best:.3f}, validation "
        f"{found['validation']:.3f}, {time.process_time() - begun:.0f} s",
        flush=True,
    )


def by_hand(parts: list[Any], o: argparse.Namespace, seed: int) -> dict[str, Any]:
    (X, y), test, validation = parts
    begun = time.process_time()
    accuracy = float(hand_designed(o, seed).fit(X, y).score(*test))
    clock = time.process_time() - begun
    both = [np.concatenate(pair) for pair in zip(parts[0], test, strict=True)]
    final = float(hand_designed(o, seed).fit(*both).score(*validation))
    return {"trials": [{"clock": clock, "accuracy": accuracy}], "validation": final}


def tuned(
    data: str, algorithm: Algorithm, parts: list[Any], o: argparse.Namespace, seed: int
) -> dict[str, Any]:
    encoder = space_of(algorithm, o)
    grow = None
    if algorithm.grows:
        epochs = {} if algorithm.stops else {"epochs": o.epochs}
        given = [{**all_convolutional(encoder.space, depth), **epochs} for depth in (1, 2, 3)]
        grow = Growing("layers", given=given, seconds=o.seconds)
    optimizer = Optimizer(
        encoder,
        method=algorithm.method,
        tasks=past_of(data, encoder, o) if algorithm.past else (),
        design=None if algorithm.grows or algorithm.past else f"lhs-{o.design}",
        seed=seed,
        grow=grow,
        **SETTINGS.get(algorithm.method, {}),
    )
    (X, y), test, _ = parts
    trials: list[dict[str, Any]] = []
    clock = 0.0
    while clock < o.seconds:
        begun = time.process_time()
        [configuration] = optimizer.ask()
        proposed = time.process_time()
        accuracy, error = 0.0, ""
        try:
            classifier = network(configuration, algorithm.stops, o, seed).fit(X, y)
            accuracy = float(classifier.score(*test))
        except RankwiseError as failure:
            error = f"{type(failure).__name__}: {failure}"
        cost = time.process_time() - proposed
        clock += time.process_time() - begun
        optimizer.tell(
            configuration,
            1.0 - accuracy,
            cost=cost,
            status="failed" if error else None,
            error=error,
        )
        trials.append(
            {
                "clock": clock,
                "accuracy": accuracy,
                "seconds": cost,
                "error": error,
                "configuration": configuration,
            }
        )
    return {"trials": trials, "validation": final_score(trials, algorithm, parts, o, seed)}


def final_score(
    trials: Sequence[Mapping[str, Any]],
    algorithm: Algorithm,
    parts: list[Any],
    o: argparse.Namespace,
    seed: int,
) -> float:
    """Of the best configuration, trained on training and test rows, on the validation rows."""
    best = max(trials, key=lambda trial: trial["accuracy"])
    if best["error"]:
        return 0.0
    both = [np.concatenate(pair) for pair in zip(*parts[:2], strict=True)]
    classifier = network(best["configuration"], algorithm.stops, o, seed).fit(*both)
    return float(classifier.score(*parts[2]))


def past_of(data: str, encoder: Encoder, o: argparse.Namespace) -> list[Task]:
    """The runs of the study in the same space on the other data sets, a task each."""
    tasks = []
    for other, name, replication in product(DATA, STUDY, range(o.replications)):
        algorithm = STUDY[name]
        if other == data or not (algorithm.buildable and algorithm.stops):
            continue
        trials = json.loads(file_of(other, name, replication, o).read_text())["trials"]
        tasks.append(
            Task.of(
                encoder.encode([t["configuration"] for t in trials]),
                [1.0 - t["accuracy"] for t in trials],
                name=f"{other}-{name}-{replication}",
            )
        )
    return tasks


def file_of(data: str, name: str, replication: int, o: argparse.Namespace) -> Path:
    size = f"{o.rows}-{o.halve}-{o.epochs}-{o.seconds:g}-{o.limit:g}-{o.design}"
    path: Path = o.out / f"{data}-{name.replace(' ', '_')}-{replication}-{size}.json"
    return path


# ---------------------------------------------------------------------- report


Runs = dict[tuple[str, str, int], dict[str, Any]]


def best_curve(found: Mapping[str, Any], times: np.ndarray) -> np.ndarray:
    """The best accuracy so far at times (m,); 0 before the first trial ended."""
    clocks = np.array([0.0, *(t["clock"] for t in found["trials"])])
    best = np.maximum.accumulate([0.0, *(t["accuracy"] for t in found["trials"])])
    curve: np.ndarray = best[np.searchsorted(clocks, times, side="right") - 1]
    return curve


def report(o: argparse.Namespace) -> None:
    """Tables, and figures if there is a folder for them."""
    found: Runs = {}
    for data, name, replication in product(DATA, (*ALL, HAND), range(o.replications)):
        path = file_of(data, name, replication, o)
        if path.exists():
            found[data, name, replication] = json.loads(path.read_text())
    complete = {(d, r) for d, r in product(DATA, range(o.replications))}
    names = [n for n in ALL if all((d, n, r) in found for d, r in complete)]
    print(
        f"{date.today()}, {os.cpu_count()} cores, Python {platform.python_version()}; "
        f"{o.rows} rows, images halved {o.halve} times, {o.seconds:g} s of one thread per run, "
        f"{o.limit:g} s per training, up to {o.epochs} epochs, {o.replications} replications\n"
    )
    times = np.linspace(0.0, o.seconds, _FINEST + 1)[1:]
    curves = {key: best_curve(found[key], times) for key in found}
    print(markdown(*final_table(found, names)))
    print()
    print(markdown(*rank_table(curves, names, times, o)))
    print()
    print(markdown(*trial_table(found, names)))
    if o.figures:
        draw(found, curves, names, times, o)


def final_table(found: Runs, names: Sequence[str]) -> tuple[list[str], list[list[object]]]:
    """Accuracy on validation rows, a mean of replications, and the mean rank."""
    keys = sorted({(d, r) for d, _, r in found})
    scores = np.array([[found[d, n, r]["validation"] for n in names] for d, r in keys])
    ranks = rankdata(-scores, axis=1).mean(axis=0)
    rows: list[list[object]] = []
    for j, name in enumerate(names):
        cells: list[object] = []
        for data in DATA:
            own = [found[d, name, r]["validation"] for d, r in keys if d == data]
            test = [best_test(found[d, name, r]) for d, r in keys if d == data]
            cells.append(
                f"{np.mean(own):.3f} ({', '.join(f'{s:.3f}' for s in own)}); {np.mean(test):.3f}"
            )
        rows.append([name, *cells, f"{ranks[j]:.2f}"])
    cells = []
    for data in DATA:
        own = [found[d, HAND, r]["validation"] for d, r in keys if d == data]
        test = [best_test(found[d, HAND, r]) for d, r in keys if d == data]
        cells.append(
            f"{np.mean(own):.3f} ({', '.join(f'{s:.3f}' for s in own)}); {np.mean(test):.3f}"
        )
    rows.append([HAND, *cells, ""])
    return ["algorithm", *(f"{d}: validation; test" for d in DATA), "mean rank"], rows


def best_test(found: Mapping[str, Any]) -> float:
    return max(t["accuracy"] for t in found["trials"])


def rank_table(
    curves: Mapping[Any, np.ndarray],
    names: Sequence[str],
    times: np.ndarray,
    o: argparse.Namespace,
) -> tuple[list[str], list[list[object]]]:
    """Mean rank of the best test accuracy so far, at some shares of the budget."""
    ranks = mean_ranks(curves, names, o)
    marks = [int(share * len(times)) - 1 for share in (0.1, 0.25, 0.5, 0.75, 1.0)]
    header = ["rank of the test accuracy after", *(f"{times[m]:.0f} s" for m in marks)]
    return header, [[n, *(f"{ranks[j, m]:.2f}" for m in marks)] for j, n in enumerate(names)]


def mean_ranks(
    curves: Mapping[Any, np.ndarray], names: Sequence[str], o: argparse.Namespace
) -> np.ndarray:
    """(algorithms, times), over data sets and replications."""
    keys = list(product(DATA, range(o.replications)))
    ranks = [rankdata(-np.array([curves[d, n, r] for n in names]), axis=0) for d, r in keys]
    mean: np.ndarray = np.mean(ranks, axis=0)
    return mean


def trial_table(found: Runs, names: Sequence[str]) -> tuple[list[str], list[list[object]]]:
    """How many networks were tried, failed, and of which kinds they were."""
    rows: list[list[object]] = []
    for name in names:
        runs = [found[key]["trials"] for key in found if key[1] == name]
        trials = [trial for run in runs for trial in run]
        failed = [t for t in trials if t["error"]]
        several = [t for t in trials if convolutions(t) > 1]
        depth = np.mean([t["configuration"]["layers"] for t in trials])
        best = [max(run, key=lambda t: t["accuracy"]) for run in runs]
        rows.append(
            [
                name,
                f"{len(trials) / len(runs):.0f}",
                f"{100 * len(failed) / len(trials):.0f} %",
                f"{100 * len(several) / len(trials):.0f} %",
                f"{100 * np.mean([bool(t['error']) for t in several]):.0f} %" if several else "",
                f"{depth:.1f}",
                ", ".join(f"{t['configuration']['layers']}/{convolutions(t)}" for t in best),
            ]
        )
    header = ["algorithm", "trials per run", "failed", "with several convolutions"]
    header += ["failed of these", "mean layers", "layers/convolutions of the best"]
    return header, rows


def convolutions(trial: Mapping[str, Any]) -> int:
    return sum(isinstance(layer, Conv) for layer in network_of(trial["configuration"])["layers"])


def draw(
    found: Runs,
    curves: Mapping[Any, np.ndarray],
    names: Sequence[str],
    times: np.ndarray,
    o: argparse.Namespace,
) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    def style(name: str) -> dict[str, Any]:
        root = name.removesuffix(" past").removesuffix("+").removesuffix("-es")
        dashes = "-" if name.endswith(("+", "past")) else "--" if name.endswith("-es") else ":"
        return {"color": COLOURS[root], "ls": dashes, "lw": 1.6}

    figure, panels = plt.subplots(2, 2, figsize=(9.5, 7.4))
    axes = np.ravel(panels)
    for axis, data in zip(axes, DATA, strict=False):
        for name in names:
            mean = np.mean([curves[data, name, r] for r in range(o.replications)], axis=0)
            axis.plot(times, mean, label=name, **style(name))
        hand = np.mean([best_test(found[data, HAND, r]) for r in range(o.replications)])
        axis.axhline(hand, color="black", lw=0.8)
        axis.text(times[-1], hand, HAND, fontsize=7, ha="right", va="bottom")
        top = max(curves[data, n, r][-1] for n in names for r in range(o.replications))
        axis.set(title=data, xlabel="seconds", ylim=(0.55 * top, 1.03 * max(top, hand)))
    for axis in panels[:, 0]:
        axis.set_ylabel("best test accuracy so far, mean")
    for j, name in enumerate(names):
        axes[3].plot(times, mean_ranks(curves, names, o)[j], **style(name))
    axes[3].set(title="mean rank", xlabel="seconds")
    axes[3].invert_yaxis()
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=6, fontsize=8, frameon=False)
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(o.figures / "networks.png", dpi=150)
    draw_layers(found, o, plt)
    draw_final(found, names, o, plt)


def draw_layers(found: Runs, o: argparse.Namespace, plt: Any) -> None:
    """Number and kind of the layers of each trial, one run per algorithm (figure 5.3)."""
    shown = ("mbo-es", "mboinl-es", "mbo-es+", "mboinl-es+")
    figure, axes = plt.subplots(len(shown), 3, figsize=(12, 6.4), sharex=True, sharey=True)
    markers = {0: "s", 1: "o", 2: "^", 3: "D"}
    for row, name in zip(axes, shown, strict=True):
        for axis, data in zip(row, DATA, strict=True):
            for trial in found[data, name, 0]["trials"]:
                k = convolutions(trial)
                colour = "#c44e52" if trial["error"] else plt.cm.viridis(trial["accuracy"])
                depth = trial["configuration"]["layers"] + 0.16 * (k - 1.5)
                axis.plot(trial["clock"], depth, markers[k], color=colour, ms=4, mew=0)
            axis.spines[["top", "right"]].set_visible(False)
            axis.set_yticks([1, 2, 3])
        row[0].set_ylabel(f"{name}\nlayers", fontsize=8)
    for axis, data in zip(axes[0], DATA, strict=True):
        axis.set_title(data, fontsize=9)
    for axis in axes[-1]:
        axis.set_xlabel("seconds", fontsize=8)
    marks = [
        plt.Line2D([], [], ls="", marker=m, color="0.3", label=f"{k} convolutions")
        for k, m in markers.items()
    ]
    marks.append(plt.Line2D([], [], ls="", marker="o", color="#c44e52", label="failed"))
    figure.legend(handles=marks, loc="lower center", ncols=5, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.savefig(o.figures / "networks-layers.png", dpi=150)


def draw_final(found: Runs, names: Sequence[str], o: argparse.Namespace, plt: Any) -> None:
    """Accuracy on the validation rows, each replication a dot (figure 5.10)."""
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.4), sharey=True)
    for axis, data in zip(axes, DATA, strict=True):
        for j, name in enumerate((*names, HAND)):
            own = [found[data, name, r]["validation"] for r in range(o.replications)]
            root = name.removesuffix(" past").removesuffix("+").removesuffix("-es")
            axis.plot(own, [j] * len(own), "o", color=COLOURS[root], ms=5, alpha=0.8)
            axis.plot(np.mean(own), j, "|", color="black", ms=11)
        axis.set(title=data, xlabel="accuracy on validation rows")
        axis.locator_params(axis="x", nbins=5)
        axis.set_yticks(range(len(names) + 1), [*names, HAND], fontsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].invert_yaxis()
    figure.tight_layout()
    figure.savefig(o.figures / "networks-final.png", dpi=150)


# ---------------------------------------------------------------------- the shell


def start(names: Iterable[str], o: argparse.Namespace) -> None:
    o.out.mkdir(parents=True, exist_ok=True)
    # Replication by replication, so that an interrupted study is even.
    cells = [(data, name, r) for r, name, data in product(range(o.replications), names, DATA)]
    joblib.Parallel(n_jobs=o.jobs)(joblib.delayed(run)(*cell, o) for cell in cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("part", choices=["study", "transfer", "report"])
    parser.add_argument("--out", type=Path, default=Path("runs/networks"))
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("RANKWISE_DATA", "data")))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0, help="of a run")
    parser.add_argument("--limit", type=float, default=6.0, help="seconds of one training")
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--halve", type=int, default=1, help="how often images are halved")
    parser.add_argument("--epochs", type=int, default=10, help="at most")
    parser.add_argument("--design", type=int, default=12, help="size of mbo's initial design")
    parser.add_argument("--replications", type=int, default=2)
    parser.add_argument("--only", default="", help="only these algorithms, separated by commas")
    parser.add_argument("--figures", type=Path, help="folder of the pictures")
    o = parser.parse_args()
    if o.part == "report":
        report(o)
    else:
        names = [HAND, *STUDY] if o.part == "study" else list(TRANSFER)
        start([n for n in names if not o.only or n in o.only.split(",")], o)


if __name__ == "__main__":
    main()
