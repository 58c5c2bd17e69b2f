"""Inputs of a kernel that knows which columns belong to one hyperparameter and when it is active.

A configuration is mapped so that Euclidean distances are those wanted:

- a number that is always active is itself;
- a number that may be inactive lies on an arc, and is the arc's centre if it is inactive: all its
  active values are equally far from an inactive one (as in the kernel of Swersky et al., 2014,
  "Raiders of the Lost Architecture");
- two different values of a choice are as far apart as the ends of a number's range.

All columns of a hyperparameter form a group with one length-scale, its relevance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rankwise.types import Array

if TYPE_CHECKING:
    from rankwise.space.encoder import Layout

_CHOICE = np.sqrt(0.5)  # two one-hot rows are a distance of sqrt(2) apart


@dataclass(frozen=True)
class KernelInputs:
    """Map from encoded configurations (n, d) to inputs of a kernel (n, e).

    Attributes:
        plain: columns that are copied.
        scale: factor of each plain column.
        arcs: value columns of numbers that may be inactive.
        activity: activity column of each of them.
        groups: group (e,) of each input; inputs are the plain columns, sines, then cosines.
    """

    plain: npt.NDArray[np.intp]
    scale: Array
    arcs: npt.NDArray[np.intp]
    activity: npt.NDArray[np.intp]
    groups: npt.NDArray[np.intp]

    @classmethod
    def of(cls, layout: Layout) -> KernelInputs:
        """The inputs for the columns of an encoder."""
        plain, scale, arcs, activity = [], [], [], []
        own: list[int] = []
        bent: list[int] = []
        group = 0
        for values, active in zip(layout.values, layout.activity, strict=True):
            columns = list(range(values.start, values.stop))
            if not columns:
                if active is not None:  # a constant that may be inactive
                    plain.append(active)
                    scale.append(1.0)
                    own.append(group)
                    group += 1
                continue
            if len(columns) == 1 and active is not None:
                arcs.append(columns[0])
                activity.append(active)
                bent.append(group)
            else:
                plain += columns
                scale += [1.0 if len(columns) == 1 else float(_CHOICE)] * len(columns)
                own += [group] * len(columns)
            group += 1
        integers = [np.array(part, dtype=np.intp) for part in (plain, arcs, activity)]
        groups = np.array([*own, *bent, *bent], dtype=np.intp)
        return cls(integers[0], np.array(scale), integers[1], integers[2], groups)

    def __call__(self, X: Array) -> Array:
        """Inputs (n, e) of configurations X (n, d)."""
        flat = X[:, self.plain] * self.scale
        if not len(self.arcs):
            return flat
        angle, active = X[:, self.arcs] - 0.5, X[:, self.activity]
        return np.concatenate([flat, active * np.sin(angle), active * np.cos(angle)], axis=1)

    def pull_back(self, x: Array, gradient: Array) -> Array:
        """The gradient (d,) by a configuration x (d,) from that by its inputs (e,)."""
        out = np.zeros(len(x))
        p, a = len(self.plain), len(self.arcs)
        out[self.plain] = gradient[:p] * self.scale
        if a:
            angle, active = x[self.arcs] - 0.5, x[self.activity]
            by_sine, by_cosine = gradient[p : p + a], gradient[p + a :]
            out[self.arcs] = active * (by_sine * np.cos(angle) - by_cosine * np.sin(angle))
        return out
