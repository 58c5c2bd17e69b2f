"""Figure of a run with several objectives: the Pareto front and the hypervolume."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise._core.atomic_write import atomic_write
from rankwise._core.extras import require
from rankwise.errors import OptionError

if TYPE_CHECKING:
    from rankwise.run.result import Result

_TRIAL, _FRONT = "#9aa5b1", "#0b6e4f"
_PICTURES = (".png", ".svg", ".pdf")
_MOST_PAIRS = 3


def draw_front(result: Result, path: Any = None) -> Any:
    """Draw the trials of each pair of objectives with their front, and the hypervolume.

    Args:
        result: result of a run with several objectives.
        path: file to write: ".png", ".svg" or ".pdf". None writes no file.

    Returns:
        A matplotlib figure.
    """
    require("a plot of a result", "plot")
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    if path is not None and Path(path).suffix.lower() not in _PICTURES:
        raise OptionError(
            f"the front of several objectives is drawn as {', '.join(_PICTURES)}, not as "
            f"{str(path)!r}"
        )
    pairs = list(combinations(range(len(result.directions)), 2))[:_MOST_PAIRS]
    figure = Figure(figsize=(4.2 * (len(pairs) + 1), 3.8), layout="constrained")
    *panels, last = figure.subplots(1, len(pairs) + 1)
    values = np.array([trial.values for trial in result.trials if trial.values])
    front = np.array([trial.values for trial in result.front])
    for axes, (i, j) in zip(panels, pairs, strict=True):
        if len(values):
            axes.plot(values[:, i], values[:, j], "o", color=_TRIAL, ms=4, label="trial")
            kind = "o-" if len(result.directions) == 2 else "o"
            axes.plot(front[:, i], front[:, j], kind, color=_FRONT, ms=5, label="front")
            axes.legend(frameon=False, fontsize=8)
        axes.set_xlabel(f"{result.names[i]} ({result.directions[i]})".replace("$", r"\$"))
        axes.set_ylabel(f"{result.names[j]} ({result.directions[j]})".replace("$", r"\$"))
    last.step([t.number for t in result.trials], result.hypervolume, where="post", color=_FRONT)
    last.set_xlabel("trial")
    last.set_ylabel("share of the hypervolume")
    last.set_ylim(0, 1)
    last.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axes in (*panels, last):
        axes.grid(alpha=0.25, lw=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    if path is not None:
        with atomic_write(path) as unfinished:
            figure.savefig(unfinished, dpi=150, format=Path(path).suffix[1:])
    return figure
