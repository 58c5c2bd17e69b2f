"""Results file and figures of `ablations.py`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from ablations import GROUPS, TRIALS, VARIANTS, Group, path_of

from rankwise._core.palette import PALETTE
from rankwise.bench.base import INITIAL
from rankwise.bench.figures import difference_picture, rank_picture, styles
from rankwise.bench.results import Run
from rankwise.bench.run_arrays import Panel, make_panel
from rankwise.bench.significance import compare, duel
from rankwise.bench.statistics import average_ranks, mean_regrets
from rankwise.surrogates.ranking.losses import WEIGHTINGS

ROOT = Path(__file__).resolve().parents[1]
IMAGES, RESULTS = ROOT / "docs" / "images", ROOT / "benchmarks" / "results"
MARKS = (5, 10, TRIALS)


def complete(out: Path, group: Group) -> tuple[list[str], list[int]]:
    """The variants of a group that have every cell of seed 0, and the seeds that all of them have.

    The variants are empty if the reference or all others have none.
    """

    def has(variant: str, seed: int) -> bool:
        return all(path_of(out, t, group.variants[variant], seed).exists() for t in group.tables)

    names = [name for name in group.variants if has(name, 0)]
    if len(names) < 2 or names[0] != next(iter(group.variants)):
        return [], []
    seeds = []
    while all(has(name, len(seeds)) for name in names):
        seeds.append(len(seeds))
    return names, seeds


def panels_of(out: Path, group: Group, names: Sequence[str], seeds: Sequence[int]) -> list[Panel]:
    """The runs of a group, one panel per table."""
    found = []
    for table in group.tables:
        runs = []
        for name in names:
            for seed in seeds:
                path = path_of(out, table, group.variants[name], seed)
                regrets = json.loads(path.read_text())["regrets"]
                runs += [
                    Run(table, task, name, seed, INITIAL, TRIALS, np.array(curve))
                    for task, curve in regrets.items()
                ]
        found.append(make_panel(runs))
    return found


def table_of(group: Group, panels: Sequence[Panel], seeds: Sequence[int]) -> dict[str, Any]:
    """One row per variant."""
    names = panels[0].methods
    whole, ranks = mean_regrets(panels).mean, average_ranks(panels).mean
    comparison = compare(panels, TRIALS)
    single = [panel.regrets[:, :, 1:].mean(axis=(1, 2)) for panel in panels]
    rows = []
    for k, name in enumerate(names):
        mine = duel(panels, name, names[0]) if k else None
        rows.append(
            [
                name,
                *(round(float(means[k]), 4) for means in single),
                round(float(whole[k, 1:].mean()), 4),
                *(round(float(whole[k, mark]), 4) for mark in MARKS),
                *(round(float(ranks[k, mark]), 2) for mark in MARKS),
                f"{mine.wins}/{mine.losses}" if mine else None,
                round(mine.p, 3) if mine else None,
                round(float(comparison.pairs[0, k]), 3) if mine else None,
            ]
        )
    columns: list[dict[str, Any]] = [{"name": "variant"}]
    columns += [{"name": panel.benchmark.replace("-hpob", ""), "digits": 4} for panel in panels]
    columns += [{"name": "all", "digits": 4, "best": "min"}]
    columns += [{"name": f"r@{mark}", "digits": 4} for mark in MARKS]
    columns += [{"name": f"rank@{mark}", "digits": 2} for mark in MARKS]
    columns += [{"name": "runs better/worse"}, {"name": "p", "digits": 3}]
    columns += [{"name": f"p, rank@{TRIALS}", "digits": 3}]
    numbers = " and ".join(map(str, seeds)) if len(seeds) < 3 else f"0 to {seeds[-1]}"
    friedman = (
        f" Friedman's test of the ranks after {TRIALS} trials: p = {comparison.friedman:.3f}."
        if np.isfinite(comparison.friedman)
        else ""
    )
    past = any(VARIANTS[variant].past for variant in group.variants.values())
    learnt = f"; at most {group.steps} steps of meta-training" if past else ""
    tasks = "train" if group.tables[0].endswith(":fold") else "test"
    return {
        "about": (
            f"{group.question}: {comparison.tasks} {tasks} tasks, "
            f"seed{'s' if len(seeds) > 1 else ''} {numbers}{learnt}.{friedman}"
        ),
        "columns": columns,
        "rows": rows,
    }


def draw(key: str, group: Group, panels: Sequence[Panel]) -> None:
    """Average rank over trials, and the critical differences at the end."""
    looks = styles(panels[0].methods)
    figure = rank_picture(average_ranks(panels), group.question, looks)
    figure.savefig(IMAGES / f"ablation-{key}-rank.png", dpi=90)
    comparison = compare(panels, TRIALS)
    if comparison.test == "Nemenyi":
        title = f"{group.question}, after {TRIALS} trials"
        figure = difference_picture(comparison, title, looks)
        figure.savefig(IMAGES / f"ablation-{key}-difference.png", dpi=90)


def draw_weights(length: int = 100) -> None:
    """The weights of a list's positions, scaled to 1 for the first one."""
    figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    position, size = torch.arange(1.0, length + 1), torch.tensor([float(length)])
    for k, (name, weigh) in enumerate(WEIGHTINGS.items()):
        weights = weigh(position, size)
        axes.plot(position, weights / weights[0], color=PALETTE[k], label=name)
    axes.set(xlabel=f"position in a list of {length}", ylabel="weight, relative to the first")
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    figure.savefig(IMAGES / "ablation-weights.png", dpi=90)
    plt.close(figure)


def write(out: Path, keys: Sequence[str]) -> None:
    """Write the results file and the figures; groups not in `keys` keep their tables."""
    path = RESULTS / "ablations.json"
    tables = json.loads(path.read_text("utf-8"))["tables"] if path.exists() else {}
    draw_weights()
    for key in keys:
        group = GROUPS[key]
        names, seeds = complete(out, group)
        left = [name for name in group.variants if name not in names]
        if left:
            print(f"{key}: no runs of {', '.join(left)}")
        if not names:
            continue
        panels = panels_of(out, group, names, seeds)
        tables[key] = table_of(group, panels, seeds)
        draw(key, group, panels)
        print(f"{key}: seeds {seeds}")
    content = {
        "title": "Ablations of deep ranking ensembles",
        "date": date.today().isoformat(),
        "machine": "2 cores, one thread, other work on the machine",
        "command": [
            "python benchmarks/ablations.py --data ../shared/data --groups parts,acquisition,loss",
            "python benchmarks/ablations.py --data ../shared/data --seeds 1",
            "python benchmarks/ablations.py --summary",
        ],
        "protocol": (
            f"{INITIAL} given initial rows, then {TRIALS} trials among the rows of a table. Mean "
            f"regret over trials 1 to {TRIALS} by table and for all tables, regret and average "
            f"rank after k trials; runs (pairs of task and seed) with a smaller/larger mean "
            "regret than the first row, and p of Wilcoxon's signed-rank test of the same over "
            f"tasks. The last column is the p value of the difference of ranks after {TRIALS} "
            "trials: Nemenyi's, or Wilcoxon's of two variants. One thing is changed at a time; "
            "learning rates and epochs stay those of the weighted list-wise loss."
        ),
        "tables": tables,
    }
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    path.write_text(text, "utf-8")
