"""Pareto fronts, hypervolumes and expected hypervolume improvement; smaller values are better.

The part of the space that a front does not dominate is divided into disjoint boxes. A Gaussian
posterior with independent objectives then has an exact expected improvement: a sum over boxes of
products over objectives (Emmerich et al., "Hypervolume-based expected improvement", CEC 2011).
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from rankwise._core.numerics import log_h
from rankwise.types import Array, Mask

_CHUNK = 200_000  # entries (candidates x boxes) of one block


def on_front(losses: Array) -> Mask:
    """Mask (n,) of the points that no other point dominates; equal points are all kept.

    Args:
        losses: (n, m); a point with a NaN is never on the front.
    """
    known = ~np.isnan(losses).any(axis=1)
    front = np.zeros(len(losses), dtype=bool)
    left = np.flatnonzero(known)
    left = left[np.argsort(losses[left].sum(axis=1), kind="stable")]
    while len(left):  # nothing that is left dominates the point with the smallest sum
        best = losses[left[0]]
        front[left[(losses[left] == best).all(axis=1)]] = True
        left = left[(losses[left] < best).any(axis=1)]
    return front


def reference_point(losses: Array) -> Array:
    """Reference point (m,) of hypervolumes: a tenth of the range behind the worst values.

    Args:
        losses: (n, m), at least one point without a NaN.
    """
    known = losses[~np.isnan(losses).any(axis=1)]
    width = np.ptp(known, axis=0)
    point: Array = known.max(axis=0) + 0.1 * np.where(width > 0, width, 1.0)
    return point


def free_boxes(front: Array, reference: Array) -> tuple[Array, Array]:
    """Lower and upper corners (b, m) of disjoint boxes that the front does not dominate.

    Together they are all points below the reference point that no point of the front dominates.
    The lowest corners are minus infinity.

    Args:
        front: points (n, m); those that are not below the reference point are ignored.
        reference: reference point (m,).
    """
    inside = front[(front < reference).all(axis=1)]
    found = _boxes(np.unique(inside, axis=0) if len(inside) else inside, reference)
    corners = np.array(found, dtype=float).reshape(len(found), 2, len(reference))
    return corners[:, 0], corners[:, 1]


def _boxes(points: Array, reference: Array) -> list[tuple[tuple[float, ...], tuple[float, ...]]]:
    """The boxes below a reference point that no point (n, m) dominates, as pairs of corners.

    The last objective is cut at the points. Between two cuts the boxes are those of the other
    objectives and of the points below. A box that stays the same across a cut is not divided.
    """
    last = float(reference[-1])
    if points.shape[1] == 1:
        return [((-np.inf,), (float(points.min(initial=last)),))]
    cuts = [-np.inf, *np.unique(points[:, -1]).tolist(), last]
    begun: dict[tuple[tuple[float, ...], tuple[float, ...]], float] = {}
    found = []
    for low in cuts[:-1]:
        below = points[points[:, -1] <= low][:, :-1]
        current = _boxes(below[on_front(below)], reference[:-1])
        for pair in [pair for pair in begun if pair not in set(current)]:
            found.append(((*pair[0], begun.pop(pair)), (*pair[1], low)))
        for pair in current:
            begun.setdefault(pair, low)
    found += [((*low, start), (*high, last)) for (low, high), start in begun.items()]
    return found


def log_expected_improvement(mean: Array, std: Array, lower: Array, upper: Array) -> Array:
    """Logarithm (n,) of the expected hypervolume improvement of n candidates.

    It is exact for independent normal objectives.

    Args:
        mean: posterior means (n, m).
        std: posterior standard deviations (n, m), positive.
        lower: lower corners (b, m) of the boxes of `free_boxes`.
        upper: their upper corners (b, m).
    """
    found = np.empty(len(mean))
    step = max(1, _CHUNK // max(1, len(lower)))
    for start in range(0, len(mean), step):
        some = slice(start, start + step)
        total = np.zeros((len(mean[some]), len(lower)))
        for k in range(mean.shape[1]):
            mu, sigma = mean[some, k][:, None], std[some, k][:, None]
            # E[(a - Y)+] = sigma h((a - mu) / sigma); its difference over the box's two ends
            high = log_h((upper[:, k] - mu) / sigma)
            closed = np.isfinite(lower[:, k])
            gain = high
            if closed.any():
                low = log_h((lower[closed, k] - mu) / sigma)
                ratio = np.minimum(low - high[:, closed], -1e-16)
                gain = high.copy()
                gain[:, closed] += np.log(-np.expm1(ratio))
            total += np.log(sigma) + gain
        found[some] = logsumexp(total, axis=1)
    return found


def hypervolume(losses: Array, reference: Array) -> float:
    """Volume that points (n, m) dominate below a reference point (m,).

    Points with a NaN, and those that are not below the reference point, add nothing.
    """
    inside = losses[(losses < reference).all(axis=1)]
    if not len(inside):
        return 0.0
    ideal = inside.min(axis=0)
    lower, upper = free_boxes(inside[on_front(inside)], reference)
    free = np.prod(np.maximum(upper - np.maximum(lower, ideal), 0.0), axis=1).sum()
    return float(max(np.prod(reference - ideal) - free, 0.0))
