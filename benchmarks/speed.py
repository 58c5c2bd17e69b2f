"""How fast Deep Ranking Ensembles learn and score, beside a plain loop over their members.

    python benchmarks/speed.py

Everything runs on one thread. Before anything is timed, the loop (`yardstick.py`) and the library
learn from the same weights and random subsets, and their losses, weights and gradients are
compared. The two are timed in turns, so that other work on the machine slows down both; the
ratios are what counts. `--quick` takes about a minute and says little.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from importlib.metadata import version
from itertools import product
from pathlib import Path

os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")})

import numpy as np
import torch
from yardstick import (
    CHECKS,
    COLUMNS,
    EPOCHS,
    EVALUATIONS,
    LISTS,
    TASKS,
    Case,
    Plain,
    check,
    generator,
    learner,
    past_task,
    seconds,
    since,
)

import rankwise
from rankwise.surrogates.numeric.batched_networks import Architecture
from rankwise.surrogates.ranking.dre import DeepRankingEnsemble
from rankwise.surrogates.ranking.meta_training import MetaTraining, _Pass

# ---------------------------------------------------------------------- measurements


def fine_tuning(sizes: Sequence[int], columns: Sequence[int], epochs: int, repeats: int) -> str:
    rows = []
    for n, d in product(sizes, columns):
        case = Case.of(n, d)
        times = [(case.plain(epochs), seconds(case.ours)) for _ in range(repeats)]
        rows.append([n, d, *medians(times)])
    note = f"Medians of {repeats} runs of each, in turns; the loop ran {epochs} epochs, scaled."
    header = ["observations", "columns", "plain loop s", "ours s", "ratio"]
    return f"## Fine-tuning, {EPOCHS} epochs\n\n{note}\n\n{markdown(header, rows)}"


def defaults(sizes: Sequence[int], epochs: int, repeats: int, steps: int) -> str:
    """`fit` as it is by default, from random and from meta-learned weights."""
    tasks = [past_task(seed) for seed in range(TASKS)]
    ensemble = DeepRankingEnsemble()
    short = MetaTraining(steps=steps)
    learnt = DeepRankingEnsemble(training=short).meta_fit(tasks, progress=False)
    rows = []
    for n, (start, model) in product(sizes, [("random", ensemble), ("meta-learned", learnt)]):
        case, made = Case.of(n, COLUMNS), []
        times = []
        for seed in range(repeats):
            twin = model.with_seed(seed)
            times.append((case.plain(epochs), seconds(partial(twin.fit, case.task))))
            made.append(twin.epochs_)
        rows.append([n, start, int(np.median(made)), *medians(times)])
    note = (
        f"By default: at most {ensemble.epochs} epochs, patience {ensemble.patience}, learning "
        f"rate {ensemble.rate} after meta-learning (here {steps} steps), else "
        f"{ensemble.random_rate}. The plain loop makes {EPOCHS} epochs. d = {COLUMNS}."
    )
    header = ["observations", "start", "epochs", "plain loop s", "ours s", "ratio"]
    return f"## Fine-tuning with the default settings\n\n{note}\n\n{markdown(header, rows)}"


@dataclass
class Training:
    """Meta-training up to the first validation that was as good as the best, or as wanted."""

    name: str
    lists: int
    steps: int = 0
    validation: float = np.inf
    seconds: float = np.nan

    @property
    def seen(self) -> int:
        return self.steps * self.lists * Architecture(COLUMNS).members

    def row(self, wanted: float) -> list[object]:
        reached = "yes" if self.validation <= wanted else "no"
        text = f"{self.validation:.4f}"
        each = 1e6 * self.seconds / self.seen
        return [self.name, self.lists, self.steps, self.seen, text, reached, self.seconds, each]


class Reached(Exception):
    """The validation loss is as good as wanted."""


def plain_training(lists: int, budget: float, wanted: float = -np.inf) -> Training:
    """The plain loop for some seconds, in which its validations do not count."""
    shape, source, loss = Architecture(COLUMNS), learner(), Case.of(10, COLUMNS).loss
    checks = source.checks.draw_evenly(MetaTraining().validation_lists)
    model, best = Plain(shape, shape.initial(generator()), loss), Training("plain loop", lists)
    clock, steps = 0.0, 0
    while clock < budget and best.validation > wanted:
        for _ in range(max(1, LISTS // lists)):
            clock += seconds(partial(model.step, source.corpus, steps, lists))
            steps += 1
        flat = model.flat()
        validation = _Pass(shape, loss, flat, torch.zeros_like(flat)).measure(checks)
        if validation < best.validation:
            best = replace(best, steps=steps, validation=validation, seconds=clock)
    return best


def our_training(wanted: float) -> Training:
    """The library until it is as good as wanted, in its time with its validations."""
    best, start = Training("ours", MetaTraining().lists), time.perf_counter()

    def watch(step: int, _: float, validation: float) -> None:
        nonlocal best
        if validation < best.validation:
            best = replace(best, steps=step, validation=validation, seconds=since(start))
        if validation <= wanted:
            raise Reached

    with suppress(Reached):
        learner().run(watch=watch)
    return best


def meta_training(budget: float) -> str:
    """How long all take to the best validation loss that the plain loop finds in its time."""
    plain, training = plain_training(LISTS, budget), MetaTraining()
    wanted = plain.validation
    ours, small = our_training(wanted), plain_training(training.lists, budget, wanted)
    note = (
        f"{TASKS} tasks, {CHECKS} for validation, {EVALUATIONS} evaluations in {COLUMNS} "
        f"columns, lists of {training.list_size}. The plain loop had {budget:.0f} s with {LISTS} "
        "lists per step and scorer, as in the paper; all others try to be as good as its best. "
        f"Validations, every {training.every} steps, count for ours and not for the loop."
    )
    header = ["", "lists per step", "steps", "lists", "validation loss", "as good", "s"]
    rows = [run.row(wanted) for run in (plain, small, ours)]
    ratios = [(t.seconds / t.seen) / (ours.seconds / ours.seen) for t in (plain, small)]
    good = [t.validation <= wanted and ours.validation <= wanted for t in (plain, small)]
    times = [
        f"{t.seconds / ours.seconds:.2f}" if ok else "not reached"
        for t, ok in zip((plain, small), good, strict=True)
    ]
    return (
        f"## Meta-training to the same validation loss\n\n{note}\n\n"
        f"{markdown([*header, 'µs per list'], rows)}\n\n"
        f"Ours processes {ratios[0]:.2f} times as many lists per second as the loop with {LISTS} "
        f"lists per step, {ratios[1]:.2f} times as many as with {small.lists}. Time "
        f"to the loss, over ours: {times[0]} with {LISTS}, {times[1]} with {small.lists}."
    )


def scoring(candidates: int, repeats: int) -> str:
    case = Case.of(50, COLUMNS)
    model = DeepRankingEnsemble(epochs=1).fit(case.task)
    plain = Plain(case.shape, model._weights, case.loss)
    X = np.random.default_rng(0).random((candidates, COLUMNS))
    single = torch.as_tensor(X, dtype=torch.float32)
    apart = np.abs(model.scores(X) - plain.scores(single, case.seen.items).numpy()).max()
    assert apart < 1e-4, f"scores differ by {apart}"
    times = [
        (seconds(lambda: plain.scores(single, case.seen.items)), seconds(lambda: model.scores(X)))
        for _ in range(repeats)
    ]
    ranking = statistics.median(seconds(lambda: model.predict(X)) for _ in range(repeats))
    header = ["candidates", "plain loop s", "ours s", "ratio", "with ranks, mean and spread s"]
    return f"## Scoring\n\n{markdown(header, [[candidates, *medians(times), ranking]])}"


def markdown(header: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; numbers with three digits."""
    lines = [header, ["---"] * len(header), *rows]
    text = [[f"{v:#.3g}" if isinstance(v, float) else str(v) for v in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in text)


def medians(times: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Of both, and of their ratios."""
    a, b = (statistics.median(column) for column in zip(*times, strict=True))
    return a, b, statistics.median(x / y for x, y in times)


# ---------------------------------------------------------------------- memory

PROGRAMS = {
    "import torch": "import torch",
    "import rankwise and the ensemble": "import speed",
    "ours: fine-tuning, 105 observations": "import yardstick; yardstick.Case.of(105, 16).ours()",
    "plain loop: the same": "import yardstick; yardstick.Case.of(105, 16).plain(20)",
    "ours: meta-training, 100 steps": "import yardstick; "
    "yardstick.learner(yardstick.MetaTraining(steps=100)).run()",
    "plain loop: meta-training, 1 step": "import speed; speed.plain_training(speed.LISTS, 0.001)",
}
# Linux counts what the parent of a process used before it started its own program, so that a
# small process has to be in between.
PEAK = "; import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
BETWEEN = "import subprocess, sys; subprocess.run([sys.executable, *sys.argv[1:]], check=True)"


def memory() -> str:
    rows = []
    unit = 1024**2 if sys.platform == "darwin" else 1024
    for name, program in PROGRAMS.items():
        command = [sys.executable, "-c", BETWEEN, "-c", program + PEAK]
        folder = Path(__file__).parent
        out = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
        rows.append([name, round(int(out.stdout) / unit)])
    return f"## Peak memory of a process\n\n{markdown(['', 'MB'], rows)}"


# ---------------------------------------------------------------------- the command


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Time deep ranking ensembles.")
    parser.add_argument("--repeats", type=int, default=5, help="of every pair of timings")
    parser.add_argument("--epochs", type=int, default=100, help="of the plain loop, then scaled")
    parser.add_argument("--budget", type=float, default=60.0, help="s of plain meta-training")
    parser.add_argument("--quick", action="store_true", help="a trial run that says little")
    parser.add_argument("--out", type=Path, default=Path("runs/speed/report.md"))
    return parser.parse_args()


def main() -> None:
    """Measure, print and write."""
    arguments = parse_arguments()
    torch.set_num_threads(1)
    epochs, repeats, budget = arguments.epochs, arguments.repeats, arguments.budget
    sizes, columns, steps = [10, 50, 105], [8, 16], 500
    if arguments.quick:
        epochs, repeats, budget, sizes, columns, steps = 10, 1, 2.0, [10, 105], [8], 20
    load = os.getloadavg()[0]
    packages = [f"{name} {version(name)}" for name in ("torch", "numpy")]
    parts = [
        check(),
        fine_tuning(sizes, columns, epochs, repeats),
        defaults(sizes, epochs, repeats, steps),
        meta_training(budget),
        memory(),
        scoring(10_000, repeats),
    ]
    head = [
        "# Speed of deep ranking ensembles",
        f"{date.today()}, {os.cpu_count()} cores, one thread; load {load:.1f} before and "
        f"{os.getloadavg()[0]:.1f} after. rankwise {rankwise.__version__}, {', '.join(packages)}, "
        f"Python {platform.python_version()}.",
        f"`{shlex.join(['python', *sys.argv])}`",
    ]
    text = "\n\n".join([*head, *parts]) + "\n"
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
