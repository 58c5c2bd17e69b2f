"""Search for the maximum of a smooth utility: few candidates, then gradient ascent from the best.

Candidates are random configurations and changes of the best evaluated ones in few hyperparameters.
The latter matter in high dimension, where a random configuration is far from everything.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankwise.acquisition.search import Slope, Utility
from rankwise.space.encoder import Encoder
from rankwise.space.neighbours import activate, one_exchange
from rankwise.space.parameters import Choice
from rankwise.types import Array, Mask

_CHANGED = 5.0  # hyperparameters that a change of an evaluated configuration concerns, on average


@dataclass(frozen=True)
class AscentSearch:
    """Gradient ascent in the numbers and hill climbing in the choices, from several starts.

    Attributes:
        points: random candidates.
        changes: candidates that are changes of the best evaluated configurations.
        starts: number of starts.
        steps: most steps of each gradient ascent.
        rounds: number of times that neighbours are compared and the best one is climbed from.
    """

    points: int = 400
    changes: int = 400
    starts: int = 4
    steps: int = 30
    rounds: int = 2

    def __call__(
        self,
        utility: Utility,
        slope: Slope,
        encoder: Encoder,
        rng: np.random.Generator,
        elite: Array,
    ) -> tuple[Array, Array]:
        """Codes (n, p) and utilities (n,) of the visited points.

        Args:
            utility: function to maximize.
            slope: utility and gradient at a point.
            encoder: encoder of the space.
            rng: random generator.
            elite: best evaluated configurations (k, d).
        """
        codes = encoder.sample_codes(self.points, rng)
        if len(elite):
            start = encoder.decode_codes(elite)
            codes = np.concatenate([codes, start, changed(encoder, start, self.changes, rng)])
        values = utility(encoder.encode_codes(codes))
        found, heights = [codes], [values]
        current, height = self._starts(codes, values, encoder)
        for _ in range(self.rounds):
            tops = self._climb(slope, encoder, current)
            tops = tops[encoder.allowed(tops)]
            if len(tops):
                found.append(tops)
                heights.append(utility(encoder.encode_codes(tops)))
                current = np.concatenate([current, tops])
                height = np.concatenate([height, heights[-1]])
            if encoder.n_numbers == encoder.n_columns and not _stepped(encoder):
                break
            best = np.argsort(-height, kind="stable")[: self.starts]
            near = np.concatenate([one_exchange(encoder, current[k], rng, 0.1) for k in best])
            if not len(near):
                break
            found.append(near)
            heights.append(utility(encoder.encode_codes(near)))
            better = np.argsort(-heights[-1], kind="stable")[:2]
            better = better[heights[-1][better] > height.max()]
            if not len(better):
                break
            current, height = near[better], heights[-1][better]
        return np.concatenate(found), np.concatenate(heights)

    def _starts(self, codes: Array, values: Array, encoder: Encoder) -> tuple[Array, Array]:
        """The best codes (s, p) that are a distance apart, and their utilities (s,)."""
        order = np.argsort(-values, kind="stable")[: 20 * self.starts]
        X = encoder.encode_codes(codes[order])
        chosen = [0]
        for k in range(1, len(order)):
            if len(chosen) == self.starts:
                break
            if np.abs(X[chosen] - X[k]).max(axis=1).min() > 0.05:
                chosen.append(k)
        return codes[order[chosen]], values[order[chosen]]

    def _climb(self, slope: Slope, encoder: Encoder, codes: Array) -> Array:
        """End points as codes (k, p) of gradient ascents from codes (k, p).

        Numbers move as if they were continuous. Choices and inactive hyperparameters stay.
        """
        from scipy.optimize import minimize

        tops = []
        for row in codes:
            free = _free_columns(encoder, row)
            x = encoder.encode_codes(row[None])[0]
            if not free.any():
                continue

            def descent(part: Array, x: Array = x, free: Mask = free) -> tuple[float, Array]:
                x[free] = part
                value, gradient = slope(x)
                return -value, -gradient[free]

            options = {"maxiter": self.steps, "maxfun": 2 * self.steps}
            bounds = [(0.0, 1.0)] * int(free.sum())
            end = minimize(
                descent, x[free], jac=True, method="L-BFGS-B", bounds=bounds, options=options
            )
            x[free] = np.clip(end.x, 0.0, 1.0)
            tops.append(x)
        return encoder.decode_codes(np.array(tops).reshape(len(tops), encoder.n_columns))


def changed(encoder: Encoder, rows: Array, n: int, rng: np.random.Generator) -> Array:
    """At most n valid codes: codes (k, p) with a few of their active hyperparameters changed.

    Numbers take steps of many sizes, choices are drawn anew.
    """
    out = rows[np.arange(n) % len(rows)].copy()
    tuned = np.array([parameter.size > 1 for parameter in encoder.parameters])
    moves = rng.random(out.shape) < min(0.5, _CHANGED / max(1, int(tuned.sum())))
    moves[np.arange(n), rng.choice(np.flatnonzero(tuned), n)] = True
    scale = 10.0 ** rng.uniform(-2.5, -0.3, size=n)
    fresh = encoder.from_unit_raw(rng.random(out.shape))
    for j, parameter in enumerate(encoder.parameters):
        if not tuned[j]:
            continue
        if isinstance(parameter, Choice) and not parameter.ordered:
            values = fresh[:, j]
        else:
            step = (rng.normal(size=n) * scale)[:, None]
            values = parameter.decode(parameter.encode(out[:, j]) + step)
        out[:, j] = np.where(moves[:, j] & ~np.isnan(out[:, j]), values, out[:, j])
    out = activate(encoder, out, rng)
    return out[encoder.allowed(out)]


def _free_columns(encoder: Encoder, row: Array) -> Mask:
    """Mask (d,) of the columns of numbers that are active in codes (p,)."""
    free = np.zeros(encoder.n_columns, dtype=bool)
    for j, (parameter, values) in enumerate(
        zip(encoder.parameters, encoder.layout.values, strict=True)
    ):
        if parameter.width == 1 and parameter.size > 1 and not np.isnan(row[j]):
            free[values] = True
    return free


def _stepped(encoder: Encoder) -> bool:
    """True if some number has few values, so that gradients do not find the best of them."""
    return any(1 < parameter.size < 100 for parameter in encoder.parameters)
