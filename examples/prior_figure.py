"""How the past becomes a prior: the surrogate of eb-gp on functions of one variable, drawn.

Twelve past studies of shifted and skewed valleys become functions; their mean and covariance are
the prior of the next study. One new study is of the same family, another is turned upside
down. Each is searched with the surrogate's own proposals. The page docs/prior.md explains the
figure.
Run: python examples/prior_figure.py [FILE]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rankwise.history.task import Task
from rankwise.surrogates import EmpiricalBayes, Posterior

BLUE, SKY, ORANGE, RED, GREY = (  # safe for colour-blind eyes
    "#0072B2",
    "#56B4E9",
    "#E69F00",
    "#D55E00",
    "#7f7f7f",
)
STUDIES, EVALUATIONS, DRAWS, LAST = 12, 15, 5, 10
x = np.linspace(0.0, 1.0, 201)
grid = x[:, None]

Function = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Step:
    """What the surrogate knew after some evaluations.

    Attributes:
        seen: evaluated points (n,).
        losses: there (n,).
        posterior: on the grid.
        utility: averaged expected improvement on the grid, its largest value being one.
        following: the point that is evaluated next.
        trust: weight of past studies.
        by_mean: probability of the models that use the past's mean.
        opposite: probability of the models that use the opposite of it.
    """

    seen: np.ndarray
    losses: np.ndarray
    posterior: Posterior
    utility: np.ndarray
    following: float
    trust: float
    by_mean: float
    opposite: float


def valley(centre: float, left: float, right: float) -> Function:
    """A valley with slopes of different widths, in a slightly tilted plain."""

    def loss(x: np.ndarray) -> np.ndarray:
        width = np.where(x < centre, left, right)
        return 1.0 - np.exp(-0.5 * ((x - centre) / width) ** 2) + 0.25 * x

    return loss


def past_studies(rng: np.random.Generator) -> list[Task]:
    """Valleys at random points; each study has a scale and an offset of its own."""
    tasks = []
    for _ in range(STUDIES):
        loss = valley(rng.uniform(0.15, 0.5), rng.uniform(0.08, 0.2), rng.uniform(0.15, 0.4))
        X = rng.random((EVALUATIONS, 1))
        tasks.append(Task.of(X, rng.lognormal() * loss(X[:, 0]) + rng.normal()))
    return tasks


def search(surrogate: EmpiricalBayes, loss: Function) -> list[Step]:
    """What is known after 0, 1, ... evaluations of the points that are proposed."""
    seen, steps = np.empty(0), []
    for _ in range(LAST + 1):
        surrogate.fit(Task.of(seen[:, None], loss(seen)))
        utility = surrogate.improvement(grid)
        following = float(x[np.argmax(np.where(np.isin(x, seen), -np.inf, utility))])
        signs = surrogate.given.models.mean
        by_mean, opposite = (float(surrogate.weights[signs == sign].sum()) for sign in (1, -1))
        scaled = np.exp(utility - utility.max())
        posterior = surrogate.predict(grid)
        weights = surrogate.influence, by_mean, opposite
        steps.append(Step(seen, loss(seen), posterior, scaled, following, *weights))
        seen = np.append(seen, following)
    return steps


def draw_past(axes: Axes, functions: np.ndarray, mean: np.ndarray) -> None:
    lines = axes.plot(x, functions, color=SKY, lw=1)
    lines[0].set_label("past studies, $F_t$")
    axes.plot(x, mean, color=BLUE, lw=3, label=r"their mean, $\mu$")
    axes.set(title="(a) past studies as functions", xlabel="x", ylabel="score, lower is better")
    axes.set_ylim(top=functions.max() + 1.0)
    axes.legend(frameon=False, loc="upper center", ncols=2)


def draw_covariance(figure: Figure, axes: Axes, covariance: np.ndarray) -> None:
    limit = np.abs(covariance).max()
    levels = np.linspace(-limit, limit, 24)  # the middle one is around zero
    image = axes.contourf(x, x, covariance, levels, cmap="PuOr_r")
    figure.colorbar(image, ax=axes, format="%.1f", ticks=[-1, -0.5, 0, 0.5, 1])
    axes.set(title="(b) their covariance, C(x, x')", xlabel="x", ylabel="x'")


def draw_prior(axes: Axes, prior: Posterior) -> None:
    """Mean, band and draws, all without their mean over x: the offset of a study is unknown."""
    rng, centre = np.random.default_rng(1), np.eye(len(x)) - 1.0 / len(x)
    free = Posterior(centre @ prior.mean, prior.std, centre @ prior.covariance @ centre)
    band = 2.0 * np.sqrt(np.diag(free.covariance))
    axes.fill_between(x, free.mean - band, free.mean + band, color=SKY, alpha=0.35, lw=0)
    draws = axes.plot(
        x, np.stack([free.draw(rng) for _ in range(DRAWS)], axis=1), color=GREY, lw=1
    )
    draws[0].set_label("draws")
    axes.plot(x, free.mean, color=BLUE, lw=3, label="mean ± 2 sd")
    axes.set(title="(c) the prior of the next study", xlabel="x", ylabel="score, less its mean")
    axes.set_ylim(top=(free.mean + band).max() + 1.5)
    axes.legend(frameon=False, loc="upper center", ncols=2)


def draw_step(upper: Axes, lower: Axes, loss: Function, step: Step, title: str) -> None:
    mean, band = step.posterior.mean, 2.0 * step.posterior.std
    upper.fill_between(x, mean - band, mean + band, color=SKY, alpha=0.35, lw=0)
    upper.plot(x, mean, color=BLUE, lw=2.5, label="posterior mean ± 2 sd")
    upper.plot(x, loss(x), color=GREY, lw=2, ls="--", label="true loss")
    upper.plot(step.seen, step.losses, "o", color="black", ms=6, zorder=4, label="evaluated")
    following = np.array([step.following])
    upper.plot(following, loss(following), "*", color=RED, ms=17, zorder=3, label="next")
    upper.set(title=title, ylabel="loss")
    upper.tick_params(labelbottom=False)
    lower.fill_between(x, step.utility, color=ORANGE, lw=0)
    lower.axvline(step.following, color=RED, lw=1.5, ls=":")
    lower.set(xlabel="x", ylabel="utility", yticks=[], ylim=(0, 1.1))
    lower.sharex(upper)


def draw_trust(axes: Axes, related: list[Step], inverted: list[Step]) -> None:
    n = np.arange(LAST + 1)
    names = ("trust", "by_mean", "opposite")
    trust, by_mean, opposite = (np.array([getattr(s, k) for s in inverted]) for k in names)
    signed = by_mean + opposite
    axes.fill_between(n, 0, by_mean, color=BLUE, alpha=0.8, lw=0, label="models with the mean")
    axes.fill_between(n, by_mean, signed, color=ORANGE, lw=0, label="with its opposite")
    axes.fill_between(n, signed, trust, color=SKY, lw=0, label="with the covariance alone")
    axes.fill_between(n, trust, 1, color="#dddddd", lw=0, label="without the past")
    axes.plot(n, trust, "-o", color=RED, lw=2.5, clip_on=False, label="weight of past studies")
    known = [step.trust for step in related]
    axes.plot(n, known, ":", color="black", lw=2.5, clip_on=False, label="the same, study of (d)")
    axes.set(title="(f) weight of past studies, study of (e)", xlabel="evaluations")
    axes.set(ylabel="probability", xlim=(0, LAST), ylim=(0, 1), xticks=n[::2])
    axes.legend(loc=(0.42, 0.1))


def draw(surrogate: EmpiricalBayes, new: tuple[Function, Function]) -> tuple[Figure, list[Step]]:
    """The figure for a new study of the family and one upside down, and where they ended."""
    figure = Figure(figsize=(10, 11), layout="constrained")
    axes = {}
    for row, names in zip(figure.subfigures(3, 1), ("ab;ab", "cd;cD", "ef;Ef"), strict=True):
        axes.update(row.subplot_mosaic(names, height_ratios=[3, 1]))
    past = surrogate.past.view(grid)
    draw_past(axes["a"], past.votes, past.mean)
    draw_covariance(figure, axes["b"], past.spread @ past.spread.T)
    nothing = Task.of(np.empty((0, 1)), [])
    draw_prior(axes["c"], surrogate.fit(nothing).predict(grid, joint=True))
    related, inverted = (search(surrogate, loss) for loss in new)
    title = "(d) a related study after 3 evaluations"
    draw_step(axes["d"], axes["D"], new[0], related[3], title)
    low, high = axes["d"].get_ylim()
    axes["d"].set_ylim(low, high + 0.35 * (high - low))
    axes["d"].legend(frameon=False, loc="upper center", ncols=2)
    title = "(e) one upside down after 6 evaluations"
    draw_step(axes["e"], axes["E"], new[1], inverted[6], title)
    draw_trust(axes["f"], related, inverted)
    return figure, [related[-1], inverted[-1]]


def main(out: Path) -> None:
    surrogate = EmpiricalBayes().meta_fit(past_studies(np.random.default_rng(2)), progress=False)
    true = valley(0.38, 0.12, 0.3)
    new = (lambda x: 40.0 + 20.0 * true(x), lambda x: 40.0 - 20.0 * true(x))
    figure, ends = draw(surrogate, new)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=120)
    for name, loss, end in zip(("related", "upside down"), new, ends, strict=True):
        found = f"best loss {end.losses.min():.2f} of {loss(x).min():.2f}"
        print(
            f"{name}: {found} after {len(end.seen)} evaluations, "
            f"weight of past studies {end.trust:.2f}"
        )
    print(f"wrote {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path, nargs="?", default=Path("runs/prior_figure/prior.png"))
    main(**vars(parser.parse_args()))
