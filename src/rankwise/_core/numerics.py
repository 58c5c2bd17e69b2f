"""Numerically stable functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import erfcx, log_ndtr

from rankwise.types import Array


def log_h(z: Array) -> Array:
    """log(phi(z) + z Phi(z)), accurate for every z (n,), however negative.

    phi + z Phi loses all digits to cancellation for z << 0. There it is written as
    log phi(z) + log(1 + z m(z)) with m(z) = Phi(z) / phi(z) = sqrt(pi/2) erfcx(-z / sqrt 2);
    below -1000, where 1 + z m(z) cancels too, 1 + z m(z) = 1/z^2 (1 + O(1/z^2)).
    """
    z = np.asarray(z, dtype=float)
    log_phi = -0.5 * z**2 - 0.5 * np.log(2 * np.pi)
    near = np.maximum(z, -1.0)
    direct = np.log(np.exp(-0.5 * near**2) / np.sqrt(2 * np.pi) + near * np.exp(log_ndtr(near)))
    middle = np.clip(z, -1e3, -1.0)
    mills = np.sqrt(np.pi / 2) * erfcx(-middle / np.sqrt(2))
    tail = log_phi + np.log1p(middle * mills)
    far = log_phi - 2.0 * np.log(np.maximum(-z, 1.0))
    out: Array = np.where(z > -1.0, direct, np.where(z > -1e3, tail, far))
    return out


def rankdata(values: Any, *, axis: int | None = None, method: str = "average") -> Array:
    """SciPy's function of that name, imported when it is called.

    `scipy.stats` takes longer to import than the rest of the library.
    """
    from scipy.stats import rankdata as ranks_of

    ranks: Array = ranks_of(values, axis=axis, method=method)
    return ranks
