"""Learning to rank on a sinusoid: what a Deep Ranking Ensemble does, step by step.

Section 4.1 of Khazi et al., "Deep Ranking Ensembles for Hyperparameter Optimization" (ICLR 2023):
a search from three random points, the outputs of scorers and rankers, and a search that has learnt
from five other sinusoids. The paper maximizes sin(x + pi/2 + shift); this minimizes its negative.
The pictures show a start from which the search succeeds, the table how often it succeeds.
Run: python examples/ranking_sinusoid.py [--out FOLDER] [--starts 100]
"""

import argparse
from functools import partial
from math import comb
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from rankwise.acquisition.functions import make_acquisition
from rankwise.history.task import Task
from rankwise.surrogates import DeepRankingEnsemble, MetaTraining, Posterior

BLUE, ORANGE, RED, GREY = "#0072B2", "#E69F00", "#D55E00", "#7f7f7f"  # safe for colour-blind eyes
x = np.linspace(-10, 10, 201)
cube = (x[:, None] + 10) / 20
STEPS, SHOWN = (0, 1, 2, 3, 5), 15


def losses(shift):
    return -np.sin(x + np.pi / 2 + shift)


def by_ranks(ensemble, X, y, seen):
    """Log expected improvement (n,) of X, in ranks among X and what was seen."""
    ensemble.fit(Task.of(X[seen], y[seen]))
    ranks = ensemble.predict(np.concatenate([X, X[seen]]))
    grid = Posterior(ranks.mean[: len(X)], ranks.std[: len(X)])
    return make_acquisition("ei")(grid, ranks.mean[len(X) :].min(), np.random.default_rng(0))


def by_reasoning(y, seen):
    """Of all sinusoids with the order that was seen, the share (n,) that is best at each x."""
    curves = losses(np.linspace(0, 2 * np.pi, 629)[:, None])
    fits = (np.diff(curves[:, np.array(seen)[np.argsort(y[seen])]], axis=1) >= 0).all(axis=1)
    return (curves[fits] <= -0.99).mean(axis=0)


def search(utility, y, number):
    """Points seen until one is within 0.01 of the best, at most five steps, and utilities (n,)."""
    seen = list(np.random.default_rng(number).choice(len(x), 3, replace=False))
    utilities = []
    while y[seen].min() > -0.99 and len(utilities) < 5:
        utilities.append(utility(y, seen))
        seen.append(int(np.argmax(np.where(np.isin(x, x[seen]), -np.inf, utilities[-1]))))
    return seen, utilities


def draw_step(axes, y, seen, utility, title):
    """The function and all points but the last, the next, above; expected improvement below."""
    *past, following = seen
    axes[0].plot(x, y, color=GREY, lw=1.5, label="true loss")
    axes[0].plot(x[past], y[past], "o", color=BLUE, ms=7, label="observed")
    axes[0].plot(x[following], y[following], "*", color=RED, ms=14, label="next")
    axes[0].set(title=title, ylim=(-1.2, 1.7), yticks=[-1, 0, 1])
    ei = np.exp(utility - utility.max())
    axes[1].fill_between(x, ei, color=ORANGE, lw=0, label="expected improvement, scaled")
    axes[1].axvline(x[following], color=RED, lw=1, ls="--")
    axes[1].set(xlabel="x", xticks=[-10, 0, 10], yticks=[], ylim=(0, 1.1))
    return [h for a in axes for h in a.get_legend_handles_labels()[0]]


def draw_search(y, seen, utilities):
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots(2, len(utilities), sharex=True, sharey="row", height_ratios=[3, 1])
    for k, utility in enumerate(utilities):
        handles = draw_step(axes[:, k], y, seen[: k + 4], utility, f"step {k + 1}")
        axes[0, k].set_ylim(-1.2, 1.2)
    axes[0, 0].set_ylabel("loss")
    figure.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False)
    return figure


def draw_outputs(ensemble, seen):
    """Scores and ranks of each scorer over the grid, their distributions, the uncertainty."""
    figure = Figure(figsize=(9, 5.4), layout="constrained")
    grid, ranks = figure.add_gridspec(2, 3), ensemble.ranks(cube)
    for row, (values, what) in enumerate([(ensemble.scores(cube), "score"), (ranks, "rank")]):
        left, right = figure.add_subplot(grid[row, 0]), figure.add_subplot(grid[row, 1])
        left.plot(x, values.T, lw=1.2, alpha=0.7, color=BLUE)
        left.set(xlabel="x", title=f"{what}s, a line per scorer")
        right.boxplot(values.T, showfliers=False, medianprops={"color": RED, "lw": 2})
        right.set(xlabel="scorer", title=f"distributions of {what}s")
    axes, mean, std = figure.add_subplot(grid[:, 2]), ranks.mean(axis=0), ranks.std(axis=0)
    axes.fill_between(x, mean - std, mean + std, color=ORANGE, alpha=0.5, lw=0, label="± std")
    axes.plot(x, mean, color=BLUE, lw=2, label="mean")
    axes.plot(x[seen], mean[seen], "o", color=RED, ms=7, label="observed")
    axes.set(xlabel="x", title="rank and its uncertainty", ylim=(0, 265))
    axes.legend(frameon=False, loc="upper center", ncols=3, columnspacing=1, handlelength=1)
    return figure


def draw_meta(y, seen, utility):
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes = figure.subplot_mosaic("ab;ac", sharex=True, height_ratios=[3, 1])
    lines = axes["a"].plot(x, losses(np.arange(11, 16)[:, None]).T, color=BLUE, alpha=0.5, lw=1)
    lines[0].set_label("past tasks")
    axes["a"].plot(x, y, color=RED, lw=2.5, label="new task")
    axes["a"].set(xlabel="x", ylabel="loss", ylim=(-1.2, 1.7), yticks=[-1, 0, 1])
    axes["a"].set_title("five past tasks and a new one")
    axes["a"].legend(frameon=False, loc="upper center", ncols=2)
    handles = draw_step([axes["b"], axes["c"]], y, seen, utility, "first step on the new one")
    axes["b"].legend(handles=handles, frameon=False, loc="upper center", ncols=2, fontsize=9)
    return figure


def main(out, starts, steps):
    out.mkdir(parents=True, exist_ok=True)
    fresh = DeepRankingEnsemble(layers=2, width=10, deep_set=0, epochs=500, seed=1)
    by_fresh, y = partial(by_ranks, fresh, cube), losses(0)
    seen, utilities = search(by_fresh, y, SHOWN)
    print(f"random weights: the best loss was seen after {len(utilities)} steps")
    draw_search(y, seen, utilities).savefig(out / "ranking-sinusoid-steps.png", dpi=120)
    fresh.fit(Task.of(cube[seen[:4]], y[seen[:4]]))
    draw_outputs(fresh, seen[:4]).savefig(out / "ranking-sinusoid-outputs.png", dpi=120)

    # Columns around zero: from those of the unit cube these networks learn much more slowly.
    X, y = 2 * cube - 1, losses(8)
    training = MetaTraining(steps=steps, lists=16, list_size=50, support=10, rate=2e-3)
    past = DeepRankingEnsemble(layers=3, width=64, fine_tune=False, training=training, seed=1)
    past.meta_fit([Task.of(X, losses(shift)) for shift in range(11, 16)], progress=False)
    seen, utilities = search(by_past := partial(by_ranks, past, X), y, SHOWN)
    print(f"five past tasks: the best loss was seen after {len(utilities)} step(s)\n")
    draw_meta(y, seen[:4], utilities[0]).savefig(out / "ranking-sinusoid-meta.png", dpi=120)
    good = int((y <= -0.99).sum())
    rows = {"at random": [1 - comb(201 - good, 3 + k) / comb(201, 3 + k) for k in STEPS]}
    ways = {"random weights": by_fresh, "past tasks": by_past, "by reasoning": by_reasoning}
    for name, way in ways.items():
        runs = [search(way, y, number)[0] for number in range(starts)]
        rows[name] = [np.mean([y[seen[: 3 + k]].min() <= -0.99 for seen in runs]) for k in STEPS]
    print("| optimum seen within | 0 steps | 1 | 2 | 3 | 5 |\n|---|---|---|---|---|---|")
    for name, row in rows.items():
        print("|", name, "|", " | ".join(f"{share:.0%}" for share in row), "|")
    print(f"\n{starts} starts from three random points; pictures in {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("runs/ranking_sinusoid"))
    parser.add_argument("--starts", type=int, default=12)
    parser.add_argument("--steps", type=int, default=800, help="of meta-training")
    main(**vars(parser.parse_args()))
