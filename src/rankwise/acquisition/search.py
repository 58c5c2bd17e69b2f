"""Searches for the maximum of a utility over a space.

Focus search (random search that shrinks around its best point, as in mlrMBO), local search over
neighbours, tournaments for utilities that can only be compared within a set, and gradient ascent.
All except gradient ascent work in mixed and conditional spaces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from rankwise.space.encoder import Encoder
from rankwise.space.neighbours import one_exchange, perturb
from rankwise.space.parameters import Choice
from rankwise.types import Array

Utility: TypeAlias = Callable[[Array], Array]
"""Function from points (n, d) to utilities (n,), higher is better."""
Slope: TypeAlias = Callable[[Array], tuple[float, Array]]
"""Function from a point (d,) to its utility and the gradient (d,)."""


@dataclass(frozen=True)
class FocusSearch:
    """Random search in a box that halves around the best point (Bischl et al., mlrMBO).

    Attributes:
        points: random configurations per round.
        rounds: number of times the box is halved.
        restarts: number of independent searches.
    """

    points: int = 500
    rounds: int = 5
    restarts: int = 2

    def __call__(
        self, utility: Utility, encoder: Encoder, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Codes (n, p) and utilities (n,) of all visited points."""
        found, values = [], []
        for _ in range(self.restarts):
            best, best_value = None, -np.inf
            box = Box(encoder)
            for _ in range(self.rounds):
                codes = box.sample(self.points, rng)
                if not len(codes):  # forbidden clauses exclude nearly all of the box
                    codes = encoder.sample_codes(min(self.points, 64), rng)
                u = utility(encoder.encode_codes(codes))
                found.append(codes)
                values.append(u)
                if np.max(u) > best_value:
                    best, best_value = codes[np.argmax(u)], float(np.max(u))
                if best is not None:
                    box.shrink(best, rng)
        return np.concatenate(found), np.concatenate(values)


class Box:
    """A part of the space: an interval per number, a subset of the choices per category."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        p = len(encoder.names)
        self._low, self._high = np.zeros(p), np.ones(p)
        self._choices: dict[int, Array] = {
            j: np.arange(parameter.size)
            for j, parameter in enumerate(encoder.parameters)
            if isinstance(parameter, Choice)
        }

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """At most n valid random codes (n, p); forbidden ones are left out."""
        encoder = self._encoder
        codes = encoder.from_unit_raw(rng.random((n, len(encoder.names))))
        for j, parameter in enumerate(encoder.parameters):
            if j in self._choices:
                if len(self._choices[j]) < parameter.size:
                    codes[:, j] = rng.choice(self._choices[j], size=n)
            elif self._high[j] - self._low[j] < 1.0:
                unit = self._low[j] + rng.random(n) * (self._high[j] - self._low[j])
                codes[:, j] = parameter.decode(unit[:, None])
        codes = encoder.deactivate(codes)
        return codes[encoder.allowed(codes)]

    def shrink(self, best: Array, rng: np.random.Generator) -> None:
        """Halve each interval around best (p,), and drop one other choice of each category.

        Hyperparameters that are inactive in `best` are not restricted.
        """
        for j, parameter in enumerate(self._encoder.parameters):
            if np.isnan(best[j]) or parameter.size <= 1:
                continue
            if j in self._choices:
                others = self._choices[j][self._choices[j] != best[j]]
                if len(others):
                    kept = np.delete(others, rng.integers(len(others)))
                    self._choices[j] = np.append(kept, best[j])
            else:
                centre = float(parameter.encode(best[[j]])[0, 0])
                quarter = (self._high[j] - self._low[j]) / 4
                self._low[j] = max(self._low[j], centre - quarter)
                self._high[j] = min(self._high[j], centre + quarter)


@dataclass(frozen=True)
class LocalSearch:
    """Hill climbing from several starts at once.

    In each round every start is perturbed `steps` times, with step sizes spread around a scale
    that shrinks without improvement, and moves to the best perturbation. The best start is also
    compared with all neighbours that differ in one hyperparameter.

    Attributes:
        starts: number of starts.
        steps: perturbations per start and round.
        rounds: number of rounds.
        scale: scale of the first steps in units of the cube.
    """

    starts: int = 8
    steps: int = 40
    rounds: int = 12
    scale: float = 0.1

    def __call__(
        self,
        utility: Utility,
        encoder: Encoder,
        rng: np.random.Generator,
        codes: Array,
        values: Array,
    ) -> tuple[Array, Array]:
        """Codes (n, p) and utilities (n,) of the given and all visited points."""
        order = np.argsort(-values, kind="stable")[: self.starts]
        current, height = codes[order].copy(), values[order].copy()
        scale = np.full(len(current), self.scale)
        found, heights = [codes], [values]
        rate = 1.0 / max(2, encoder.n_tuned)
        for _ in range(self.rounds):
            parents = np.repeat(np.arange(len(current)), self.steps)
            spread = scale[parents] * 10.0 ** rng.uniform(-1.0, 0.5, size=len(parents))
            moved, origin = perturb(encoder, current[parents], rng, spread, rate)
            top = int(np.argmax(height))
            near = one_exchange(encoder, current[top], rng, float(scale[top]))
            moved = np.concatenate([moved, near])
            owners = np.concatenate([parents[origin], np.full(len(near), top)])
            if not len(moved):
                break
            u = utility(encoder.encode_codes(moved))
            found.append(moved)
            heights.append(u)
            for k in range(len(current)):
                mine = np.flatnonzero(owners == k)
                best = mine[np.argmax(u[mine])] if len(mine) else None
                if best is not None and u[best] > height[k]:
                    current[k], height[k] = moved[best], u[best]
                else:
                    scale[k] *= 0.3
        return np.concatenate(found), np.concatenate(heights)


@dataclass(frozen=True)
class Tournament:
    """Search for utilities that can be compared only within one set, such as ranks.

    The first set has random points and perturbations of the best evaluated configurations. Each
    further set has the best points of the last one and perturbations of them, with a scale that
    halves.

    Attributes:
        points: number of points in each set.
        rounds: number of sets.
        winners: number of points of a set that are kept for the next.
        scale: scale of the first perturbations in units of the cube.
    """

    points: int = 1000
    rounds: int = 5
    winners: int = 50
    scale: float = 0.1

    def __call__(
        self, utility: Utility, encoder: Encoder, rng: np.random.Generator, elite: Array
    ) -> tuple[Array, Array]:
        """Codes (n, p) and utilities (n,) of the last set.

        Args:
            utility: function to maximize.
            encoder: encoder of the space.
            rng: random generator.
            elite: the best evaluated configurations (k, d).
        """
        codes = encoder.sample_codes(self.points, rng)
        if len(elite):
            scale = 10.0 ** rng.uniform(-3.0, -0.5, size=self.points // 2)
            near = self._near(encoder.decode_codes(elite), encoder, rng, scale)
            codes = np.concatenate([codes[: self.points // 2], near])
        values = utility(encoder.encode_codes(codes))
        for k in range(1, self.rounds):
            best = codes[np.argsort(-values, kind="stable")[: self.winners]]
            spread = self.scale * 0.5 ** (k - 1) * 10.0 ** rng.uniform(-1.0, 0.5, self.points)
            codes = np.concatenate([best, self._near(best, encoder, rng, spread)])
            values = utility(encoder.encode_codes(codes))
        return codes, values

    def _near(
        self, codes: Array, encoder: Encoder, rng: np.random.Generator, scale: Array
    ) -> Array:
        """One perturbation of codes (k, p) for each scale (n,), without forbidden ones."""
        parents = codes[np.arange(len(scale)) % len(codes)]
        near, _ = perturb(encoder, parents, rng, scale, 1.0 / max(2, encoder.n_tuned))
        return near


def climb(slope: Slope, encoder: Encoder, X: Array, steps: int = 20) -> Array:
    """Gradient ascent from each row of X (k, d); returns the allowed end points as codes (m, p).

    Args:
        slope: utility and its gradient.
        encoder: encoder of a space that has only numbers without conditions.
        X: start points.
        steps: number of steps of each ascent.
    """
    from scipy.optimize import minimize

    def descent(x: Array) -> tuple[float, Array]:
        value, gradient = slope(x)
        return -value, -gradient

    bounds = [(0.0, 1.0)] * X.shape[1]
    options = {"maxiter": steps, "maxfun": 2 * steps}
    tops = [
        minimize(descent, x, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
        for x in X
    ]
    codes = encoder.decode_codes(np.clip(tops, 0.0, 1.0))
    return codes[encoder.allowed(codes)]
