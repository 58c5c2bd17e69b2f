"""Draws the figures of the benchmark page that show figures of results files.

python benchmarks/draw_results.py    writes docs/images/alone.png, speed.png and growth.png
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from rankwise._core.palette import PALETTE

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"


def read(file: str, table: str) -> dict[str, Any]:
    """A table of a results file."""
    path = ROOT / "benchmarks" / "results" / f"{file}.json"
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))["tables"][table]
    return found


def columns(table: dict[str, Any]) -> dict[str, list[Any]]:
    """The cells of a table by the names of its columns."""
    names = [column["name"] for column in table["columns"]]
    return dict(zip(names, zip(*table["rows"], strict=True), strict=True))


def alone(axes: Axes) -> None:
    """Average rank over trials, with standard errors."""
    table = read("alone-peers", "rank")
    rows = [row[1:] for row in table["rows"] if row[0] == "all"]
    marks = [int(column["name"].removeprefix("after ")) for column in table["columns"][2:]]
    for k, (name, *ranks) in enumerate(rows):
        mean, error = ([rank[key] for rank in ranks] for key in ("value", "se"))
        axes.errorbar(marks, mean, error, fmt="o-", color=PALETTE[k], label=name, capsize=3)
    axes.invert_yaxis()
    axes.set(xlabel="trials", ylabel="average rank (1 is best)", xticks=marks)


def speed(axes: Axes) -> None:
    """Processor seconds of a proposal over finished trials."""
    table = columns(read("sampler", "seconds"))
    shown = {
        "archive, dre s": "Rankwise, archive, dre",
        "GPSampler s": "Optuna GPSampler",
        "no archive s": "Rankwise, no archive",
        "archive s": "Rankwise, archive",
        "TPESampler s": "Optuna TPESampler",
    }
    for k, (name, label) in enumerate(shown.items()):
        axes.plot(table["trials"], table[name], "o-", color=PALETTE[k], label=label)
    axes.set(xlabel="finished trials", ylabel="processor seconds per proposal")
    axes.set(xscale="log", yscale="log")
    axes.set_xticks(table["trials"], [str(n) for n in table["trials"]])
    axes.minorticks_off()


def growth(axes: Axes) -> None:
    """Seconds to learn all past studies, and to add one, over their number."""
    rows = read("prior-growth", "cost")["rows"]
    for k, method in enumerate(("eb-gp", "eb-net")):
        mine = [row for row in rows if row[0] == method]
        studies = [row[1] for row in mine]
        axes.plot(
            studies, [row[3] for row in mine], "o-", color=PALETTE[k], label=f"{method}: all"
        )
        added = [(row[1], row[4]) for row in mine if row[4] is not None]
        axes.plot(*zip(*added, strict=True), "o--", color=PALETTE[k], label=f"{method}: one more")
    axes.set(xlabel="past studies of 50 trials", ylabel="seconds to learn")
    axes.set(xscale="log", yscale="log")


def main() -> None:
    """Draws all figures."""
    for draw in (alone, speed, growth):
        figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
        draw(axes)
        axes.grid(alpha=0.3)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
        figure.savefig(IMAGES / f"{draw.__name__}.png", dpi=150)
        plt.close(figure)


if __name__ == "__main__":
    main()
