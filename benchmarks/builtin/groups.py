"""Groups of near-duplicate data sets, which must never test each other.

    python -m benchmarks.builtin.groups

Two data sets of one kind are near-duplicates if one of these holds:

- they have as many columns, and at least a third of the distinct rows of the smaller one,
  rounded to four digits, are rows of the other (both have fifty distinct rows or more);
- at least nine tenths of their column names are the same, there are three names or more, and the
  names are not numbered ones such as V1, V2.

Groups are the connected components of these pairs. Some pairs are known from their sources and
are listed by hand.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np

from benchmarks.builtin.collect import ROOT, write
from benchmarks.builtin.datasets import DataSet, load, names_in
from benchmarks.builtin.library import KINDS

ROWS, NAMES, FEWEST, DISTINCT = 1 / 3, 0.9, 3, 50
_NUMBERED = re.compile(r"^[a-z_]{0,9}\d+$", re.IGNORECASE)

BY_HAND = [
    ("column2C", "column3C"),  # one table with two or three classes
    ("credit-a", "credit-g"),  # kept together although their sources differ
    ("heart-h", "heart-statlog"),  # two hospitals of one collection
    ("winequality-red", "winequality-white"),
    ("hypothyroid", "sick"),  # two targets of one collection
    ("analcatdata-boxing1", "analcatdata-boxing2"),
    ("spect", "spectf"),  # binary and continuous features of one collection
    ("2dplanes", "pwlinear"),  # two samples of one artificial function
    ("cpu", "machine-cpu"),
    ("autohorse", "autoprice"),  # two targets of one collection
    ("strike", "strikes"),
    ("no2", "pm10"),  # two pollutants at one road
    ("chscase-census2", "chscase-census3"),
    ("chscase-census3", "chscase-census4"),
    ("chscase-census4", "chscase-census5"),
]


def row_keys(data: DataSet) -> set[bytes]:
    """One key for every distinct row."""
    return {
        np.array([float(f"{v:.4g}") for v in row]).tobytes()
        for row in data.X.to_numpy(dtype=float)
    }


def names_of(data: DataSet) -> set[str]:
    """The column names that say something."""
    return {str(name).lower() for name in data.X.columns if not _NUMBERED.match(str(name))}


def alike(first: DataSet, second: DataSet, keys: dict[str, set[bytes]]) -> str:
    """Why two data sets are near-duplicates; "" if they are not."""
    if first.X.shape[1] == second.X.shape[1]:
        a, b = keys[first.name], keys[second.name]
        shared = len(a & b) / max(1, min(len(a), len(b)))
        if shared >= ROWS and min(len(a), len(b)) >= DISTINCT:
            return f"{shared:.0%} of the rows"
    a_names, b_names = names_of(first), names_of(second)
    if min(len(a_names), len(b_names)) >= FEWEST:
        shared = len(a_names & b_names) / len(a_names | b_names)
        if shared >= NAMES:
            return f"{shared:.0%} of the column names"
    return ""


def pairs(data: Path, kind: str) -> Iterator[tuple[str, str, str]]:
    """All near-duplicate pairs of a kind, with the reason."""
    sets = {name: load(data, kind, name) for name in names_in(data, kind)}
    keys = {name: row_keys(one) for name, one in sets.items()}
    for first, second in combinations(sets, 2):
        reason = alike(sets[first], sets[second], keys)
        if not reason and ((first, second) in BY_HAND or (second, first) in BY_HAND):
            reason = "listed by hand"
        if reason:
            yield first, second, reason


def components(found: list[tuple[str, str, str]]) -> list[list[str]]:
    """Connected components of pairs."""
    groups: list[set[str]] = []
    for first, second, _ in found:
        touched = [group for group in groups if first in group or second in group]
        groups = [group for group in groups if group not in touched]
        groups.append(set().union({first, second}, *touched))
    return sorted(sorted(group) for group in groups)


def main() -> None:
    """Write the groups of both kinds."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    out = ROOT / "benchmarks" / "results" / "builtin" / "groups.json"
    parser.add_argument("--out", type=Path, default=out)
    arguments = parser.parse_args()
    content = {}
    for kind in KINDS:
        found = list(pairs(arguments.data, kind))
        for first, second, reason in found:
            print(f"{kind}: {first} ~ {second}: {reason}")
        content[kind] = components(found)
    write(arguments.out, content)


if __name__ == "__main__":
    main()
