"""What the guard against a misleading past is worth, from related to adversarial pasts.

    python benchmarks/guard.py --jobs 2

The synthetic families with a knob for how related past and new tasks are (`bench/synthetic.py`).
From each of 20 new tasks 1000 configurations are drawn, and methods choose among them after the
same five initial ones (`--initial 0`: with nothing evaluated at the start); the past are 24
studies of 40 random trials. Each method that learns is run as it is and with `guard=true`, and
beside them the Gaussian process that takes over where the past is not trusted. Two figures per
method:

- regret after 50 trials over that of the Gaussian process, whatever the past is like, and for
  methods that are no Gaussian process without a past, beside that of what they are (`OWN`);
- the share of what is gained in the first ten trials with a related past, over what the method is
  without one, that the guard keeps.

Regret is that of the best so far, 0 for the best of the 1000 and 1 for the worst. Results are kept
in `--out`, one file per family, knob and method, and only missing ones are computed. One thread
per process. `--quick` says little.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")})

import joblib
import numpy as np
from transfer import begin, markdown

from rankwise.bench import protocol
from rankwise.bench.base import Benchmark, TableProblem
from rankwise.bench.synthetic_families import FUNCTIONS, family, make_loss
from rankwise.history.task import TaskSet
from rankwise.methods.registry import split
from rankwise.run.model_cache import learnt_optimizer
from rankwise.space.encoder import Encoder

PLAIN = "gp"
OWN = {"portfolio": "random", "ws-cma-es": "cma-es"}
METHODS = ("eb-gp", "eb-net", "rgpe", "tst", "taf", "ablr", "gcp", "fsbo", "dklm", "scot", "icm")
METHODS += ("init", "portfolio", "ws-cma-es", "dre:training.steps=500")
KNOBS = (1.0, 0.5, 0.0, -0.5, -1.0)
# Tasks to report, others to choose by, and those that earlier rules were reported on. The seed of
# their rows, and how the names of the past tasks begin: to report, the past is another one as well
KINDS = {"report": (2028, "report-"), "aside": (99, "")}
KINDS |= {"new": (8, ""), "fresh": (2026, "fresh-"), "unseen": (2027, "unseen-")}
TASKS, ROWS, TRIALS, EARLY = 20, 1000, 50, 10
NEVER, NEGLIGIBLE = 1.05, 1e-3  # what is asked of the guard; regrets below that are none

Found = Mapping[tuple[str, float, str], np.ndarray]


def past(benchmark: Benchmark, kind: str) -> TaskSet:
    """What may be learnt from before the tasks of a kind are optimised."""
    _, prefix = KINDS[kind]
    train, validation = (
        tuple(prefix + task for task in part) for part in (benchmark.train, benchmark.validation)
    )
    return replace(benchmark, train=train, validation=validation).past(f"{kind}-0")


def pool(name: str, knob: float, encoder: Encoder, kind: str, k: int, rows: int) -> TableProblem:
    """Configurations of the k-th task of a family and kind, all evaluated."""
    seed, _ = KINDS[kind]
    codes = encoder.sample_codes(rows, np.random.default_rng([seed, k]))
    losses = make_loss(name, f"{kind}-{k}", knob).at(codes)
    return TableProblem.of(f"{kind}-{k}", encoder.encode_codes(codes), losses)


def cell(
    name: str,
    knob: float,
    method: str,
    out: Path,
    kind: str,
    initial: int,
    tasks: int,
    rows: int,
    trials: int,
) -> np.ndarray:
    """Regrets (tasks, trials + 1) of a method, from its file or computed now."""
    size = f"{kind}-{initial}-{tasks}-{rows}-{trials}"
    path = out / f"{name}-{knob:g}-{method.replace(':', '-')}-{size}.json"
    if not path.exists():
        begin()
        warnings.simplefilter("ignore")
        benchmark, (plain_name, options) = family(name, relatedness=knob), split(method)
        optimizer = learnt_optimizer(
            plain_name,
            benchmark.encoder,
            past(benchmark, kind),
            out / "models" / f"{name}-{knob:g}",
            **options,
        )
        found = []
        for k in range(tasks):
            problem = pool(name, knob, benchmark.encoder, kind, k, rows)
            trace = protocol.run(problem, optimizer, seed=k, initial=initial, trials=trials)
            found.append(trace.regrets)
        path.write_text(json.dumps(found))
        print(f"{path.stem}: {np.mean(found, axis=0)[-1]:.4f}", flush=True)
    return np.array(json.loads(path.read_text()))


def marks(
    found: Found, name: str, knobs: Sequence[float], methods: Sequence[str]
) -> Iterable[str]:
    """How sure it is, for each method that is above the aim with the guard, that it is above."""
    missed = [int((found[name, knob, PLAIN][:, -1] > 0).sum()) for knob in knobs]
    yield f"Runs of {PLAIN} that did not find the best: {', '.join(map(str, missed))}."
    for method, knob in product(methods, knobs):
        plain, before, after = (found[name, knob, m] for m in (PLAIN, method, guarded(method)))
        if ratio(after, plain) > NEVER:
            gaps = [after[:, -1] - other[:, -1] for other in (plain, before)]
            texts = [f"{g.mean():.3f} ± {g.std(ddof=1) / len(g) ** 0.5:.3f}" for g in gaps]
            yield (
                f"{method.partition(':')[0]} with the guard, relatedness {knob:g}, less {PLAIN}: "
                f"{texts[0]}; less itself without the guard: {texts[1]} (paired, standard errors)."
            )


def against_own(
    found: Found, name: str, knobs: Sequence[float], methods: Sequence[str]
) -> Iterable[str]:
    """Regrets with the guard, and those of what a method is without a past."""
    for method in methods:
        if own(method) != PLAIN:
            ends = [
                [found[name, k, m][:, -1].mean() for m in (guarded(method), own(method))]
                for k in knobs
            ]
            texts = [f"{with_past:.4f} ({without:.4f})" for with_past, without in ends]
            yield f"{method} with the guard (and {own(method)}): {', '.join(texts)}."


def own(method: str) -> str:
    """What a method is without a past."""
    return OWN.get(method.partition(":")[0], PLAIN)


def guarded(method: str) -> str:
    return f"{method}{',' if ':' in method else ':'}guard=true"


def ratio(ours: np.ndarray, plain: np.ndarray) -> float:
    """Of mean regrets after the last trial; both below what counts are equal."""
    a, b = (max(float(regrets[:, -1].mean()), NEGLIGIBLE) for regrets in (ours, plain))
    return a / b


def tables(
    found: Found, names: Sequence[str], knobs: Sequence[float], methods: Sequence[str]
) -> str:
    plain = [
        [name, *(f"{found[name, knob, PLAIN][:, -1].mean():.4f}" for knob in knobs)]
        for name in names
    ]
    header = [f"relatedness {knob:g}" for knob in knobs]
    parts = [f"Regret of {PLAIN} after the last trial:", markdown(["family", *header], plain)]
    for name in names:
        rows = []
        for method in methods:
            row = [method.partition(":")[0]]
            for knob in knobs:
                base = found[name, knob, PLAIN]
                before, after = (
                    ratio(found[name, knob, m], base) for m in (method, guarded(method))
                )
                row.append(f"{before:.2f} → {after:.2f}{' !' if after > NEVER else ''}")
            rows.append(row)
        parts.append(f"{name}: regret over that of {PLAIN}, without → with the guard")
        parts.append(markdown(["method", *header], rows))
        parts.extend(marks(found, name, knobs, methods))
        parts.extend(against_own(found, name, knobs, methods))
    rows = []
    related = max(knobs)
    parts.append(
        f"Mean regret of trials 1 to {EARLY}, relatedness {related:g}, over all families:"
    )

    def early(method: str) -> float:
        curves = [found[name, related, method][:, 1 : EARLY + 1] for name in names]
        return float(np.mean(curves))

    for method in methods:
        base, before, after = early(own(method)), early(method), early(guarded(method))
        kept = (base - after) / (base - before) if base > before else np.nan
        name = method.partition(":")[0]
        rows.append([name, f"{base:.4f} ({own(method)})", before, after, f"{100 * kept:.0f} %"])
    header = ["method", "without the past", "without guard", "with guard", "gain kept"]
    parts.append(markdown(header, rows))
    return "\n\n".join(parts)


def draw(
    found: Found,
    names: Sequence[str],
    knobs: Sequence[float],
    methods: Sequence[str],
    path: Path,
) -> None:
    """Regret after the last trial by relatedness, a panel per method, families together."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    def line(method: str) -> list[float]:
        return [
            float(np.mean([found[name, knob, method][:, -1].mean() for name in names]))
            for knob in knobs
        ]

    columns = min(5, len(methods))
    height = -(-len(methods) // columns)
    figure, axes = plt.subplots(
        height, columns, figsize=(2.3 * columns, 2.0 * height), sharex=True, sharey=True
    )
    for axis, method in zip(np.ravel(axes), methods, strict=False):
        axis.plot(knobs, line(PLAIN), color="0.6", label=f"{PLAIN}, no past")
        axis.plot(knobs, line(method), color="#c44e52", marker="o", ms=3, label="without guard")
        axis.plot(
            knobs, line(guarded(method)), color="#4c72b0", marker="o", ms=3, label="with guard"
        )
        axis.set_title(method.partition(":")[0], fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_yscale("function", functions=(np.sqrt, np.square))  # small ones can be told apart
        axis.tick_params(labelsize=7, labelbottom=True)
    for axis in np.ravel(axes)[len(methods) :]:
        axis.set_visible(False)
    largest = max(max(line(m)) for method in methods for m in (PLAIN, method, guarded(method)))
    np.ravel(axes)[0].set(ylim=(0.0, 1.1 * largest), yticks=[0.0, 0.01, 0.05, 0.2, 0.5])
    handles, labels = np.ravel(axes)[0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=8, frameon=False, ncols=3, loc="upper center")
    figure.supxlabel("relatedness of the past: 1 alike, 0 unrelated, -1 opposite", fontsize=9)
    trials = found[names[0], knobs[0], PLAIN].shape[1] - 1
    figure.supylabel(f"regret after {trials} trials", fontsize=9)
    figure.tight_layout(rect=(0.0, 0.0, 1.0, 0.96))
    figure.savefig(path, dpi=150)


def chosen(text: str, all_of_them: Iterable[Any], kind: type = str) -> list[Any]:
    return [kind(piece) for piece in text.split(",")] if text else list(all_of_them)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/guard"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--initial", type=int, default=5, help="evaluations given at the start")
    parser.add_argument("--tasks", type=int, default=TASKS, help="new tasks of each family")
    parser.add_argument("--kind", choices=KINDS, default="report", help="aside: to choose by")
    parser.add_argument("--families", default="", help="only these, separated by commas")
    parser.add_argument("--methods", default="", help="only these, separated by commas")
    parser.add_argument("--knobs", default="", help="only these, separated by commas")
    parser.add_argument("--figure", type=Path, help="file of a picture")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    names = chosen(options.families, FUNCTIONS)
    methods = chosen(options.methods, METHODS)
    knobs = chosen(options.knobs, KNOBS, float)
    size = (options.tasks, ROWS, TRIALS)
    if options.quick:
        names, methods, knobs, size = names[:1], methods[:1], [1.0, -1.0], (2, 50, 12)
    (options.out / "models").mkdir(parents=True, exist_ok=True)
    every = [PLAIN, *(m for method in methods for m in (method, guarded(method)))]
    every += [own(method) for method in methods if own(method) != PLAIN]
    keys = [(name, knob, method) for method, name, knob in product(every, names, knobs)]
    regrets = joblib.Parallel(n_jobs=options.jobs)(
        joblib.delayed(cell)(*key, options.out, options.kind, options.initial, *size)
        for key in keys
    )
    found = dict(zip(keys, regrets, strict=True))
    print(
        f"{date.today()}, {os.cpu_count()} cores, {options.jobs} at a time, Python "
        f"{platform.python_version()}; {size[0]} {options.kind} tasks, {size[1]} configurations, "
        f"{options.initial} evaluated at the start, {size[2]} trials; regrets below {NEGLIGIBLE} "
        "count as that\n"
    )
    print(tables(found, names, knobs, methods))
    if options.figure:
        draw(found, names, knobs, methods, options.figure)


if __name__ == "__main__":
    main()
