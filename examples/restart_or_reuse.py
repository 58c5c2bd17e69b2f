"""Restart or reuse: should a step of the search go on from the weights of the one before?

The thesis behind Deep Ranking Ensembles (section 4.3.1) says no: an observation that was there
from the start is used for fine-tuning in every step, the latest in one only. Above these counts
(figures 4.3 to 4.5), below what comes of it: an ensemble with random weights learns more and more
random points of Branin's function, 100 epochs at each, and ranks points that it has not seen.
Run: python examples/restart_or_reuse.py [--out FOLDER] [--seeds 3]
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import rankdata, spearmanr

from rankwise.history.task import Task
from rankwise.surrogates import DeepRankingEnsemble

BLUE, SKY, ORANGE, RED, PURPLE = "#0072B2", "#56B4E9", "#E69F00", "#D55E00", "#CC79A7"
EPOCHS, POINTS = 100, 30
WAYS = {  # name: whether weights are reused, limit of the scores, learning rate; colour, line
    "restart": (False, 3.0, 0.02, BLUE, "-"),
    "reuse": (True, 3.0, 0.02, RED, "--"),
    "reuse, rate 0.001": (True, 3.0, 0.001, PURPLE, "-."),
    "restart, scores without limit": (False, None, 0.02, SKY, "-"),
    "reuse, scores without limit": (True, None, 0.02, ORANGE, ":"),
}


def branin(X):
    a, b = 15 * X[:, 0] - 5, 15 * X[:, 1]
    bowl = (b - 5.1 / (4 * np.pi**2) * a**2 + 5 / np.pi * a - 6) ** 2
    return bowl + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10


def uses(step):
    """How often each observation (step,) was used when weights are reused; one at the start."""
    return EPOCHS * np.arange(step, 0, -1)


def learn(reuse, limit, rate, seed):
    """After each number of points: rank correlation elsewhere, errors of the first and the last.

    Errors are those of the ranks among the observations, as a part of their number, for
    the first and the last fifth of them.
    """
    X = np.random.default_rng(seed).random((POINTS + 400, 2))
    y, rows = branin(X), []
    options = {"members": 5, "deep_set": 0, "epochs": EPOCHS, "pace": 0, "seed": seed}
    ensemble = DeepRankingEnsemble(limit=limit, rate=rate, random_rate=rate, **options)
    for n in range(1, POINTS + 1):
        if reuse and n > 1:
            ensemble = ensemble.reused()
        ensemble.fit(Task.of(X[:n], y[:n]))
        elsewhere = spearmanr(ensemble.predict(X[POINTS:]).mean, y[POINTS:])[0]
        errors = np.abs(ensemble.predict(X[:n]).mean - rankdata(y[:n])) / n
        fifth = -(-n // 5)
        rows.append((elsewhere, errors[:fifth].mean(), errors[-fifth:].mean()))
    return np.array(rows)


def draw(curves):
    figure = Figure(figsize=(9, 5.6), layout="constrained")
    axes = figure.subplot_mosaic("abc;ddd", height_ratios=[2, 3])
    for name, step in zip("abc", (25, 50, 100), strict=True):
        numbers = np.arange(1, step + 1)
        axes[name].bar(numbers, uses(step), width=1, color=RED, label="reuse")
        axes[name].bar(numbers, EPOCHS, width=1, color=BLUE, label="restart")
        axes[name].set(xlabel="observation", title=f"step {step}", ylim=(0, 10500))
    axes["a"].set_ylabel("times used")
    axes["a"].legend(frameon=False)
    for name, values in curves.items():
        *_, colour, line = WAYS[name]
        axes["d"].plot(range(2, POINTS + 1), values[1:], line, color=colour, lw=2.5, label=name)
    axes["d"].set(xlabel="observations", ylabel="rank correlation\nwith unseen points")
    axes["d"].grid(alpha=0.3)
    axes["d"].legend(frameon=False, loc="center right", ncols=2)
    return figure


def main(out, seeds):
    out.mkdir(parents=True, exist_ok=True)
    print("| step | used most, reuse | used least, reuse | each, restart |\n|---|---|---|---|")
    for step in (25, 50, 100):
        print(f"| {step} | {uses(step).max()} | {uses(step).min()} | {EPOCHS} |")
    print("\n| rank correlation after | 10 points | 20 | 30 | error, first | error, last |")
    print("|---|---|---|---|---|---|")
    curves = {}
    for name, (*way, _, _) in WAYS.items():
        mean = np.mean([learn(*way, seed) for seed in range(seeds)], axis=0)
        curves[name] = mean[:, 0]
        cells = [*mean[[9, 19, 29], 0], *mean[9:, 1:].mean(axis=0)]
        print(f"| {name} | {' | '.join(f'{cell:.2f}' for cell in cells)} |")
    best = max(curves, key=lambda name: curves[name][-1])
    print(
        f"\nbest after {POINTS} points: {best} (means of {seeds} seeds; errors from 10 points on)"
    )
    draw(curves).savefig(out / "ranking-restart.png", dpi=120)
    print(f"wrote {out}/ranking-restart.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("runs/restart_or_reuse"))
    parser.add_argument("--seeds", type=int, default=3)
    main(**vars(parser.parse_args()))
