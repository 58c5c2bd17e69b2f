"""Write the tables and the figure of `evaluate_past`.

    python -m benchmarks.builtin.summarize_past

Reads `benchmarks/results/builtin-past`, writes `benchmarks/results/builtin-past.json` and
`docs/images/builtin-past.png`. Methods that were not run for every learner are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from benchmarks.builtin.collect import ROOT
from rankwise.builtin.records import VERSION

FOLDER = ROOT / "benchmarks" / "results" / "builtin-past"
MARKS = (1, 3, 5, 10, 20)
NAMES = {
    "eb-gp": "eb-gp, built-in past",
    "eb-gp-no-context": "eb-gp, built-in past, no meta-features",
    "portfolio": "portfolio of the built-in past",
    "default": "default, then random",
    "random": "random",
    "tpe": "TPE",
    "mbo": "mbo",
    "flaml": "FLAML's suggestion, then random",
}
Key = tuple[str, str]
Found = dict[str, dict[Key, dict[str, list[float]]]]
"""Regret curves by method, (learner, kind) and data set."""


def load() -> Found:
    """All results, methods in the order of `NAMES`."""
    found: Found = {name: {} for name in NAMES}
    for path in sorted(FOLDER.glob("*.json")):
        content = json.loads(path.read_text())
        key = (content["learner"], content["kind"])
        found[content["method"]][key] = content["regret"]
    return {method: parts for method, parts in found.items() if parts}


def common(found: Found, methods: Iterable[str]) -> Found:
    """The results of some methods for the learners and data sets that all of them have."""
    some = {m: found[m] for m in methods if m in found}
    keys = set.intersection(*(set(parts) for parts in some.values()))
    names = {k: set.intersection(*(set(parts[k]) for parts in some.values())) for k in keys}
    return {
        m: {k: {n: parts[k][n] for n in sorted(names[k])} for k in sorted(keys)}
        for m, parts in some.items()
    }


def at(parts: dict[Key, dict[str, list[float]]], mark: int) -> np.ndarray:
    """Regret of each data set after some trials, mean over its learners."""
    sets: dict[str, list[float]] = {}
    for (_, kind), curves in parts.items():
        for name, curve in curves.items():
            sets.setdefault(f"{kind} {name}", []).append(curve[mark - 1])
    return np.array([np.mean(sets[name]) for name in sorted(sets)])


def bounds(values: np.ndarray) -> tuple[float, float]:
    """A 95 % interval of the mean, over data sets drawn anew."""
    rng = np.random.default_rng(0)
    draws = values[rng.integers(len(values), size=(2000, len(values)))].mean(axis=1)
    low, high = np.quantile(draws, (0.025, 0.975))
    return float(low), float(high)


def interval(values: np.ndarray) -> str:
    low, high = bounds(values)
    return f"{values.mean():.3f} [{low:.3f}, {high:.3f}]"


def overall(found: Found, about: str) -> dict[str, object]:
    rows = [
        [NAMES[method], *(interval(at(parts, mark)) for mark in MARKS)]
        for method, parts in found.items()
    ]
    columns = [{"name": "method"}, *({"name": f"after {mark}"} for mark in MARKS)]
    sizes = next(iter(found.values())).values()
    where = f"{len(sizes)} learners, {sum(map(len, sizes))} pairs of learner and data set"
    return {"about": f"{about} {where}.", "columns": columns, "rows": rows}


def wins(found: Found, key: Key, a: str, b: str) -> tuple[int, int]:
    """On how many data sets the first trial of a is better than that of b, and worse."""
    pairs = [(found[a][key][n][0], found[b][key][n][0]) for n in found[a][key]]
    return sum(x < y for x, y in pairs), sum(x > y for x, y in pairs)


def by_learner(found: Found) -> dict[str, object]:
    shown = ("eb-gp", "portfolio", "default", "random")
    rows = []
    for key, sets in sorted(found["eb-gp"].items()):
        better, worse = wins(found, key, "eb-gp", "default")
        cells = [f"{better / max(better + worse, 1):.0%} ({better} : {worse})"]
        for method in shown:
            curves = np.array(list(found[method][key].values()))
            cells.append(" / ".join(f"{curves[:, k - 1].mean():.3f}" for k in (1, 3, 10)))
        rows.append([f"{key[0]}, {key[1]}", len(sets), *cells])
    columns = [
        {"name": "learner"},
        {"name": "data sets"},
        {"name": "first proposal better than the default (wins : losses)"},
        *({"name": NAMES[name]} for name in shown),
    ]
    about = (
        "Share of data sets on which the first proposal of `eb-gp` is better than the default "
        "configuration, ties excluded, and mean normalised regret after 1 / 3 / 10 trials."
    )
    return {"about": about, "columns": columns, "rows": rows}


def aims(found: Found) -> dict[str, object]:
    """The aims of the built-in past, with figures."""
    rows: list[list[object]] = []

    def add(aim: str, figure: str, met: bool) -> None:
        rows.append([aim, figure, "met" if met else "missed"])

    def no_worse(aim: str, rival: str, ours: int, theirs: int) -> None:
        """Mean regret after `ours` trials against the rival's after `theirs`."""
        pair = common(found, ("eb-gp", rival))
        a, b = at(pair["eb-gp"], ours), at(pair[rival], theirs)
        add(
            aim,
            f"{a.mean():.3f} against {b.mean():.3f}; difference {interval(a - b)}",
            met=bool(bounds(a - b)[0] <= 0),
        )

    base = common(found, ("eb-gp", "default", "portfolio", "random"))
    first = {
        key: [np.mean([c[0] for c in base[m][key].values()]) for m in ("eb-gp", "default")]
        for key in base["eb-gp"]
    }
    above = [f"{a} {b}" for (a, b), (ours, default) in first.items() if ours >= default]
    below = len(first) - len(above)
    add(
        "first proposal: mean regret below the default's for every learner",
        f"{below} of {len(first)} learners" + "".join(f"; not {name}" for name in above),
        not above,
    )
    shares = []
    for key in base["eb-gp"]:
        better, worse = wins(base, key, "eb-gp", "default")
        shares.append(better / max(better + worse, 1))
    share = float(np.mean(shares))
    add(
        "first proposal better than the default on 60 % of data sets", f"{share:.0%}", share >= 0.6
    )
    no_worse("3 trials as good as 10 random ones", "random", 3, 10)
    for rival in ("tpe", "mbo"):
        if rival in found:
            no_worse(f"5 trials as good as 20 of {NAMES[rival]}", rival, 5, 20)
    for rival in ("portfolio", "flaml"):
        if rival in found:
            pair = common(found, ("eb-gp", rival))
            for mark in (3, 5, 10):
                leads = rank_leads(pair, rival, mark)
                add(
                    f"better average rank than {NAMES[rival]} after {mark}",
                    f"difference of ranks {interval(leads)}",
                    bounds(leads)[1] < 0,
                )
    if "mbo" in found:
        pair = common(found, ("eb-gp", "mbo"))
        worse_than = []
        for key in pair["eb-gp"]:
            gaps = np.array(
                [pair["eb-gp"][key][n][19] - c[19] for n, c in pair["mbo"][key].items()]
            )
            if bounds(gaps)[0] > 0:
                worse_than.append(f"{key[0]} {key[1]} ({gaps.mean():+.3f})")
        add(
            "no learner worse than mbo after 20 by more than noise",
            ", ".join(worse_than) or f"0 of {len(pair['mbo'])} learners",
            not worse_than,
        )
    columns = [{"name": "aim"}, {"name": "figure"}, {"name": ""}]
    about = (
        "The aims that were set before the measurements. As good: the 95 % interval of the "
        "difference in mean regret reaches 0. Better: the interval of the difference of ranks "
        "(-1: always better, 1: always worse) is below 0."
    )
    return {"about": about, "columns": columns, "rows": rows}


def rank_leads(pair: Found, rival: str, mark: int) -> np.ndarray:
    """Mean difference of ranks between `eb-gp` and a rival for each data set."""
    signs = {
        key: {
            name: [float(np.sign(curve[mark - 1] - pair[rival][key][name][mark - 1]))]
            for name, curve in curves.items()
        }
        for key, curves in pair["eb-gp"].items()
    }
    return at(signs, 1)


def draw(found: Found, path: Path) -> None:
    """Mean regret by trial, one panel per learner and kind; only methods that all panels have."""
    from matplotlib.figure import Figure

    keys = sorted(found["eb-gp"])
    figure = Figure(figsize=(14, 3.0 * -(-len(keys) // 5)), layout="constrained")
    axes = figure.subplots(-(-len(keys) // 5), 5, sharex=True).ravel()
    for panel, key in zip(axes, keys, strict=False):
        for method, parts in found.items():
            mean = np.mean(list(parts[key].values()), axis=0)
            panel.plot(np.arange(1, len(mean) + 1), mean, label=NAMES[method], lw=1.6)
        panel.set_yscale("symlog", linthresh=0.01)
        panel.set_title(f"{key[0]}, {key[1]}", fontsize=9)
        panel.spines[["top", "right"]].set_visible(False)
    axes[0].legend(fontsize=6, frameon=False)
    figure.supxlabel("trial")
    figure.supylabel("mean normalised regret")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)


def main() -> None:
    found = load()
    full = common(found, ("eb-gp", "portfolio", "default", "random"))
    peers = common(found, ("eb-gp", "portfolio", "tpe", "mbo", "default", "random"))
    about = "Mean normalised regret (0: best recorded configuration, 1: worst), 95 % intervals:"
    tables = {
        "aims": aims(found),
        "regret": overall(full, about),
        "peers": overall(peers, f"With TPE and `mbo`, on every fourth data set. {about}"),
        "context": overall(common(found, ("eb-gp", "eb-gp-no-context")), about),
        "learners": by_learner(full),
    }
    if "flaml" in found:
        methods = ("eb-gp", "portfolio", "flaml", "default", "random")
        tables["flaml"] = overall(common(found, methods), f"Where FLAML was evaluated. {about}")
    content = {
        "title": "The built-in past, leaving data sets out",
        "date": "2026-11-19",
        "machine": "2 cores, other work on the machine",
        "versions": f"built-in past {VERSION}",
        "command": [
            "python -m benchmarks.builtin.evaluate_past",
            "python -m benchmarks.builtin.summarize_past",
        ],
        "protocol": "Data sets in ten folds, near-duplicates in the same fold; `eb-gp` and the "
        "portfolio learn from the other folds. Each method chooses among recorded evaluations "
        "of a held-out data set by accuracy or R²: 65, or 25 to 32 for forests and boosting. "
        "Random methods: mean of 20 seeds, TPE of 3, `mbo` 1.",
        "tables": tables,
    }
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    FOLDER.with_suffix(".json").write_text(text, "utf-8")
    draw(full, ROOT / "docs" / "images" / "builtin-past.png")


if __name__ == "__main__":
    main()
