"""Evolutionary search for the initial design of FSBO (Wistuba, Grabocka, ICLR 2021).

It finds a set of configurations of which, on every source task, at least one has a low loss.
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
    """Search for the set of configurations that minimizes the mean over tasks of its lowest loss.

    The search is evolutionary. A new set replaces a random member of a good set, or mixes the
    members of two sets. The best sets survive. New members are drawn with a probability that
    decreases with their mean loss.

    Args:
        losses: normalized losses (m, T) of m configurations on T tasks.
        size: size of the set; limited to m.
        rng: source of random numbers.
        population: number of sets per generation.
        generations: number of generations.

    Returns:
        Sorted row indices of the configurations.
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
    """Add the rows that lower the cost most until the set has `size` members.

    A set of the search can be too small because it had duplicate members.
    """
    while len(members) < size:
        least = np.minimum(losses, losses[sorted(members)].min(axis=0)).mean(axis=1)
        order = np.lexsort((losses.mean(axis=1), least)).tolist()
        members = members | {next(k for k in order if k not in members)}
    return members
