"""Sets of configurations that are good together on past tasks, found by evolution.

The initial configurations of few-shot Bayesian optimization (Wistuba, Grabocka, ICLR 2021).
"""

from __future__ import annotations

import numpy as np

from rankwise.types import Array, Counts


def evolved_set(
    losses: Array,
    size: int,
    rng: np.random.Generator,
    *,
    population: int = 64,
    generations: int = 200,
) -> list[int]:
    """The rows of a set that minimises the mean over tasks of its least loss.

    Sets evolve: a new one exchanges a random member of a good one, or takes its members from the
    union of two; the best survive. Members are drawn with a probability that falls with their
    mean loss.

    Args:
        losses: normalised, of m configurations on T tasks (m, T).
        size: of the set; smaller if there are fewer configurations.
        rng: source of randomness.
        population: sets at any time.
        generations: how often as many new ones are made.
    """
    m, size = len(losses), min(size, len(losses))
    share = np.exp(-losses.mean(axis=1))
    share /= share.sum()

    def cost(sets: Counts) -> Array:
        least: Array = losses[sets].min(axis=1).mean(axis=1)
        return least

    sets = np.stack([rng.choice(m, size, replace=False, p=share) for _ in range(population)])
    costs = cost(sets)
    for _ in range(generations):
        parents = rng.integers(population, size=(2, population))
        parents = np.where(costs[parents[0]] <= costs[parents[1]], parents[0], parents[1])
        children = sets[parents]
        mates = sets[rng.permutation(population)]
        taken = (rng.random(children.shape) < 0.5) & (rng.random((population, 1)) < 0.5)
        children = np.where(taken, mates, children)
        mutated = np.flatnonzero(~taken.any(axis=1))
        place = rng.integers(size, size=len(mutated))
        children[mutated, place] = rng.choice(m, len(mutated), p=share)
        sets, costs = np.concatenate([sets, children]), np.concatenate([costs, cost(children)])
        best = np.argsort(costs, kind="stable")[:population]
        sets, costs = sets[best], costs[best]
    return sorted(_filled(set(sets[0].tolist()), losses, size))


def _filled(members: set[int], losses: Array, size: int) -> set[int]:
    """A set with further rows that help the most, where some came into it twice."""
    while len(members) < size:
        least = np.minimum(losses, losses[sorted(members)].min(axis=0)).mean(axis=1)
        order = np.lexsort((losses.mean(axis=1), least)).tolist()
        members = members | {next(k for k in order if k not in members)}
    return members
