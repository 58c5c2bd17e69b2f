"""Learning to rank on a sinusoid: what a Deep Ranking Ensemble does, step by step.

Section 4.1 of Khazi et al., "Deep Ranking Ensembles for Hyperparameter Optimization" (ICLR 2023):
a search from three random points, what scorers and rankers say, and a search that starts from what
five other sinusoids taught. The paper maximises sin(x + pi/2 + shift); here smaller is better, so
its negative is minimised.
Run: python examples/ranking_sinusoid.py [--out FOLDER] [--seed SEED] [--starts STARTS]
"""

import argparse
from math import comb
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from rankwise.acquisition import make_acquisition
from rankwise.surrogates import DeepRankingEnsemble, MetaTraining, Posterior
from rankwise.task import Task

BLUE, ORANGE, RED, GREY = "#0072B2", "#E69F00", "#D55E00", "#7f7f7f"  # safe for colour-blind eyes
x = np.linspace(-10, 10, 201)
cube = (x[:, None] + 10) / 20


def losses(shift):
    return -np.sin(x + np.pi / 2 + shift)


def by_ranks(ensemble, X):
    """A utility: log expected improvement (n,) in ranks among the grid and what was seen."""

    def utility(y, seen):
        ensemble.fit(Task.of(X[seen], y[seen]))
        ranks = ensemble.predict(np.concatenate([X, X[seen]]))
        grid = Posterior(ranks.mean[: len(X)], ranks.std[: len(X)])
        incumbent = ranks.mean[len(X) :].min()
        return make_acquisition("ei")(grid, incumbent, np.random.default_rng(0))

    return utility


def by_thought(y, seen):
    """Of all sinusoids with the order that was seen, the share (n,) that is best at each x."""
    curves = losses(np.linspace(0, 2 * np.pi, 629)[:, None])
    fits = (np.diff(curves[:, np.array(seen)[np.argsort(y[seen])]], axis=1) >= 0).all(axis=1)
    return (curves[fits] <= -0.99).mean(axis=0)


def search(utility, y, start, steps=5):
    """The points seen, in order, and the utilities (n,) of each step."""
    seen, utilities = list(start), []
    for _ in range(steps):
        utilities.append(utility(y, seen))
        seen.append(int(np.argmax(np.where(np.isin(np.arange(len(x)), seen), -np.inf, utilities[-1]))))
    return seen, utilities


def needed(y, seen):
    """Steps after the three initial points until a loss within 0.01 of the best was seen."""
    return next((max(k - 2, 0) for k, i in enumerate(seen) if y[i] <= -0.99), np.inf)


def draw_step(axes, y, seen, utility, following):
    """The function and the observations above, the expected improvement below."""
    axes[0].plot(x, y, color=GREY, lw=1.5, label="true function")
    axes[0].plot(x[seen], y[seen], "o", color=BLUE, ms=7, label="observed")
    axes[0].plot(x[following], y[following], "*", color=RED, ms=14, label="next")
    axes[0].set_ylim(-1.25, 1.25)
    ei = np.exp(utility - utility.max())
    axes[1].fill_between(x, ei, color=ORANGE, lw=0, label="expected improvement, scaled")
    axes[1].axvline(x[following], color=RED, lw=1, ls="--")
    axes[1].set(xlabel="x", yticks=[], ylim=(0, 1.1))


def draw_search(y, seen, utilities):
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots(2, len(utilities), sharex=True, sharey="row", height_ratios=[3, 1])
    for k, utility in enumerate(utilities):
        draw_step(axes[:, k], y, seen[: k + 3], utility, seen[k + 3])
        axes[0, k].set_title(f"step {k + 1}", fontsize=11)
    axes[0, 0].set_ylabel("loss")
    axes[1, 0].set_ylabel("EI")
    handles = [h for a in axes[:, 0] for h in a.get_legend_handles_labels()[0]]
    figure.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False)
    return figure


def draw_outputs(ensemble, seen):
    """Scores and ranks of each scorer over the grid, their distributions, the uncertainty."""
    figure = Figure(figsize=(9, 5.4), layout="constrained")
    grid, ranks = figure.add_gridspec(2, 3), ensemble.ranks(cube)
    for row, (values, what) in enumerate([(ensemble.scores(cube), "score"), (ranks, "rank")]):
        left, right = figure.add_subplot(grid[row, 0]), figure.add_subplot(grid[row, 1])
        left.plot(x, values.T, lw=1.2, alpha=0.7, color=BLUE)
        left.set(xlabel="x", ylabel=what, title=f"{what}s, a line per scorer")
        right.boxplot(values.T, showfliers=False, medianprops={"color": RED, "lw": 2})
        right.set(xlabel="scorer", title=f"distributions of {what}s")
    axes, mean, std = figure.add_subplot(grid[:, 2]), ranks.mean(axis=0), ranks.std(axis=0)
    axes.fill_between(x, mean - std, mean + std, color=ORANGE, alpha=0.5, lw=0, label="± std")
    axes.plot(x, mean, color=BLUE, lw=2, label="mean rank")
    axes.plot(x[seen], mean[seen], "o", color=RED, ms=7, label="observed")
    axes.set(xlabel="x", title="rank and its uncertainty")
    axes.legend(frameon=False)
    return figure


def draw_meta(y, start, utility, following):
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subfigures(1, 2)
    tasks, steps = left.subplots(), right.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    for k, shift in enumerate(range(11, 16)):
        tasks.plot(x, losses(shift), color=BLUE, alpha=0.2 + 0.15 * k, lw=1.2, label=str(shift))
    tasks.plot(x, y, color=RED, lw=2.2, label="8 (new)")
    tasks.set(xlabel="x", ylabel="loss", title="five past tasks and a new one")
    left.legend(loc="outside lower center", ncols=6, frameon=False, columnspacing=1)
    draw_step(steps, y, start, utility, following)
    steps[0].set(ylabel="loss", title="first step on the new one")
    handles = [h for a in steps for h in a.get_legend_handles_labels()[0]]
    right.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    return figure


def main(out, seed=0, starts=12):
    out.mkdir(parents=True, exist_ok=True)
    random = [np.random.default_rng(s).choice(len(x), 3, replace=False) for s in range(starts)]
    fresh = DeepRankingEnsemble(layers=2, width=10, context=0, epochs=500, seed=seed)
    y = losses(0)
    seen, utilities = search(by_ranks(fresh, cube), y, random[4])
    draw_search(y, seen, utilities).savefig(out / "ranking-sinusoid-steps.png", dpi=130)
    print(f"random weights, sin(x + pi/2): optimum after {needed(y, seen)} steps of 5")
    fresh.fit(Task.of(cube[seen[:4]], y[seen[:4]]))
    draw_outputs(fresh, seen[:4]).savefig(out / "ranking-sinusoid-outputs.png", dpi=130)

    # Columns around zero: from those of the unit cube the networks learn much more slowly.
    training = MetaTraining(steps=1200, lists=8, list_size=50, support=10, rate=2e-3)
    past = DeepRankingEnsemble(layers=3, width=64, fine_tune=False, training=training, seed=seed)
    past.meta_fit([Task.of(2 * cube - 1, losses(s)) for s in range(11, 16)], progress=False)
    y = losses(8)
    seen, utilities = search(by_ranks(past, 2 * cube - 1), y, random[4])
    figure = draw_meta(y, seen[:3], utilities[0], seen[3])
    figure.savefig(out / "ranking-sinusoid-meta.png", dpi=130)
    print(f"five past tasks, sin(x + pi/2 + 8): optimum after {needed(y, seen)} steps of 5")
    ways = {
        "random weights, fine-tuned": by_ranks(fresh, cube),
        "past tasks, not fine-tuned": by_ranks(past, 2 * cube - 1),
        "perfect use of the ranks": by_thought,
    }
    ...


if __name__ == "__main__":
    main(Path("/tmp/exp/out"))
