"""How long methods that learn from past studies take, beside others and as the past grows.

    python benchmarks/transfer.py proposals --data ../shared/data
    python benchmarks/transfer.py scale
    python benchmarks/transfer.py fit

- `proposals`: one choice among the rows of real tables (`strategy.choose`), after 5 to 35 of
  them were evaluated. Two held-out tasks of each table; what is learnt from the others is learnt
  before. BoTorch's Gaussian process has its default priors and takes the row with the largest
  logarithmic expected improvement. The first choice among the rows of a table, where a method may
  keep what it computes of them, is reported by itself. `dre` is meta-trained for few steps: how
  long it takes for a proposal does not depend on how long it was trained. Our own fine-tuning is
  short in a young study; that of the paper has 1000 epochs at every step.
- `scale`: six floats, none of them tabulated, and up to 2,000 past studies of 50 trials. Seconds
  to learn them and to add one more, the most memory that the process held, which learns and
  proposes, and milliseconds per proposal (`strategy.propose`) of a study with n observations.
- `fit`: hyperparameters of a Gaussian process, ours and BoTorch's with the same priors, and which
  of them are the more probable.

One thread. Seconds are those of the processor, so that other work on the machine counts little;
they are medians. What is compared takes turns. `--quick` says little.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")})

import numpy as np
import torch

from rankwise import methods
from rankwise.bench import benchmarks as registry
from rankwise.bench.base import Benchmark, TableProblem
from rankwise.history.task import Task, TaskSet
from rankwise.history.transforms import Standardize
from rankwise.run.model_cache import learnt_optimizer
from rankwise.space.encoder import Encoder
from rankwise.strategies.base import FALLBACK, Strategy
from rankwise.surrogates.single_study.gp import GaussianProcess

# BoTorch is imported where it is used: it is optional, and would count in the memory of `scale`.

FOLDER = Path(__file__).resolve().parent
KEPT = FOLDER.parent / "runs" / "transfer"  # models of dre, which take long to learn
BOTORCH = "BoTorch"
PUBLISHED = "dre of the paper"  # 1000 epochs of fine-tuning at every step
LEARNERS = ("eb-gp", "eb-net")
Choose = Callable[[Task, np.ndarray, np.random.Generator], int]

# ---------------------------------------------------------------------- proposals

TABLES = ("tst-svm:fold", "hpobench-xgb:fold", "oboe:fold", "textclf:fold")
METHODS = (*LEARNERS, "dre", "gp")
SIZES, TASKS, REPEATS, STEPS = (5, 15, 25, 35), 2, 5, 500  # sizes: those of a run


def proposals(data: Path, quick: bool) -> str:
    tables, sizes, tasks, repeats, steps = TABLES, SIZES, TASKS, REPEATS, STEPS
    if quick:
        tables, sizes, tasks, repeats, steps = TABLES[:1], SIZES[:1], 1, 1, 20
    names, notes = there(METHODS)
    names.append(PUBLISHED)
    if has_botorch():
        names.append(BOTORCH)
    else:
        notes.append("BoTorch is not installed: it is left out.")
    found = {}
    for k, spec in enumerate(tables):
        benchmark = registry.load(spec, data)
        with TemporaryDirectory() as folder:
            choosers = partial(all_choosers, names, benchmark, Path(folder), steps)
            if k == 0:  # imports, and what libraries do once
                problem = benchmark.problem(benchmark.test[0])
                time_choices(choosers(benchmark.test[0], []), problem, sizes[0], 1)
            for n in sizes:
                found[spec, n] = [
                    time_choices(choosers(name, notes), benchmark.problem(name), n, repeats)
                    for name in benchmark.test[:tasks]
                ]
        print(f"{spec} is done", file=sys.stderr, flush=True)
    note = (
        f"Processor milliseconds of a choice among the rows of a table; medians of {repeats} "
        f"choices on each of {tasks} held-out tasks. Every choice follows n other random rows. "
        f"dre was meta-trained for {steps} steps."
    )
    parts = [note, *dict.fromkeys(notes), choices_table(names, found, tables, data)]
    return "\n\n".join(parts)


def there(wanted: Sequence[str]) -> tuple[list[str], list[str]]:
    """The methods that exist, and a line about each other one."""
    names = [name for name in wanted if name in methods.available()]
    notes = [f"There is no method {name}: it is left out." for name in wanted if name not in names]
    return names, notes


def has_botorch() -> bool:
    try:
        version("botorch")
    except PackageNotFoundError:
        return False
    return True


def all_choosers(
    names: Sequence[str],
    benchmark: Benchmark,
    folder: Path,
    steps: int,
    task: str,
    notes: list[str],
) -> dict[str, Choose]:
    """What chooses, by name, with nothing remembered of earlier choices.

    Args:
        names: of methods, or `BOTORCH`.
        benchmark: to choose in.
        folder: of models that are learnt anew in every run of this program.
        steps: of the meta-training of dre.
        task: that is to be optimised.
        notes: grows by a line for each method that does not use the past.
    """
    choosers: dict[str, Choose] = {}
    for name in names:
        if name == BOTORCH:
            choosers[name] = botorch_choice
            continue
        method = "dre" if name == PUBLISHED else name
        kept = KEPT if method == "dre" else folder
        options: dict[str, Any] = {"training": {"steps": steps}} if method == "dre" else {}
        if name == PUBLISHED:
            options |= {"epochs": 1000, "pace": 0.0}
        past = benchmark.past(task) if methods.get(method).transfer else TaskSet(())
        strategy = learnt_optimizer(method, benchmark.encoder, past, kept, **options).strategy
        if name in LEARNERS and getattr(strategy, "learner", None) is None:
            notes.append(f"{name} does not use the past of {benchmark.name}.")
        choosers[name] = strategy.choose
    return choosers


def botorch_choice(history: Task, pool: np.ndarray, rng: np.random.Generator) -> int:
    """The number of the row of pool (m, d) with the largest logarithmic expected improvement."""
    from botorch.acquisition import LogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    X, gain = torch.as_tensor(history.X), torch.as_tensor(-history.losses)[:, None]
    model = SingleTaskGP(X, gain)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    utility = LogExpectedImprovement(model, best_f=gain.max())
    with torch.no_grad():
        return int(utility(torch.as_tensor(pool)[:, None]).argmax())


def time_choices(
    choosers: Mapping[str, Choose], problem: TableProblem, n: int, repeats: int
) -> dict[str, list[float]]:
    """Seconds of each one's choices, in turns; one more than `repeats`, and that one first."""
    times: dict[str, list[float]] = {name: [] for name in choosers}
    for k in range(repeats + 1):
        rows = np.random.default_rng(k).permutation(len(problem.losses))
        seen, rest = rows[:n], np.sort(rows[n:])
        history, pool = Task.of(problem.X[seen], problem.losses[seen]), problem.X[rest]
        for name, choose in choosers.items():
            rng = np.random.default_rng(k)
            times[name].append(seconds(partial(choose, history, pool, rng)))
    return times


def choices_table(
    names: Sequence[str],
    found: Mapping[tuple[str, int], Sequence[Mapping[str, Sequence[float]]]],
    tables: Sequence[str],
    data: Path,
) -> str:
    bases = [base for base in ("dre", PUBLISHED, BOTORCH) if base in names]
    pairs = [(name, base) for base in bases for name in names if name in LEARNERS]
    about = ["table", "rows", "columns", "past", "n"]
    header = [*about, *(f"{name} ms" for name in names), *(f"{a} : {b}" for a, b in pairs)]
    usual, first, ratios, spent = [], [], [], []
    for spec in tables:
        benchmark = registry.load(spec, data)
        problem, past = benchmark.problem(benchmark.test[0]), benchmark.past(benchmark.test[0])
        for n in (n for table, n in found if table == spec):
            times = {name: [run[name] for run in found[spec, n]] for name in names}
            later = {
                name: statistics.median(t for run in runs for t in run[1:])
                for name, runs in times.items()
            }
            once = {name: statistics.mean(run[0] for run in runs) for name, runs in times.items()}
            spent.append(later)
            facts = [spec, *problem.X.shape, len(past.tasks) + len(past.validation), n]
            ratios.append([later[a] / later[b] for a, b in pairs])
            usual.append([*facts, *(1e3 * later[name] for name in names), *ratios[-1]])
            first.append([*facts, *(1e3 * once[name] for name in names)])
    means = np.exp(np.log(ratios).mean(axis=0)).tolist()
    average = {name: statistics.mean(row[name] for row in spent) for name in names}
    blank = [""] * (len(about) - 1)
    shares = [average[a] / average[b] for a, b in pairs]
    usual.append(["mean", *blank, *(1e3 * average[name] for name in names), *shares])
    usual.append(["geometric mean", *blank, *[""] * len(names), *means])
    return (
        f"{markdown(header, usual)}\n\nThe first choice among the rows (mean of the tasks):\n\n"
        f"{markdown(header[: len(about) + len(names)], first)}"
    )


# ---------------------------------------------------------------------- scale

COLUMNS, TRIALS = 6, 50
SPACE = {f"x{j}": (0.0, 1.0) for j in range(COLUMNS)}
STUDIES, OBSERVATIONS, PROPOSALS = (10, 100, 1000, 2000), (10, 50, 200, 500), 5
CHILD = "import sys, transfer; transfer.print_one(*sys.argv[1:])"


def scale(quick: bool) -> str:
    studies, observations = (STUDIES[:2], OBSERVATIONS[:2]) if quick else (STUDIES, OBSERVATIONS)
    names, notes = there(LEARNERS)
    rows = []
    for name, count in product(names, studies):
        # Linux counts in the memory of a process what its parent held when it was started: here
        # nothing but the modules that it needs itself.
        command = [sys.executable, "-c", CHILD, name, str(count), *map(str, observations)]
        out = subprocess.run(
            command, cwd=FOLDER, check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        one = json.loads(out.splitlines()[-1])
        print(f"{name} with {count} studies: {one}", file=sys.stderr, flush=True)
        if not one["used"]:
            notes.append(f"{name} does not use the past of {count} studies.")
        learning = [one["learn"], one["add"], one["learn"] / one["add"]]
        memory, propose = [round(one["imports"]), round(one["memory"])], one["propose"]
        rows.append([name, count, count * TRIALS, *learning, *memory, *(1e3 * s for s in propose)])
    note = (
        f"{COLUMNS} floats; past studies of {TRIALS} trials of shifted quadratics with noise. "
        "Seconds of learning all studies afresh, and of adding one to a file that knows all "
        f"others; processor milliseconds of a proposal, medians of {PROPOSALS}, after n "
        "observations, the first of all proposals left out."
    )
    header = ["method", "studies", "trials", "learn s", "add one s", "learn : add"]
    header += ["MB with imports alone", "MB at most", *(f"n = {n} ms" for n in observations)]
    return "\n\n".join([note, *notes, markdown(header, rows)])


def print_one(name: str, count: str, *observations: str) -> None:
    """Measure one size and print it as JSON; this is run in a process of its own."""
    begin()
    print(json.dumps(scale_one(name, int(count), [int(n) for n in observations])))


def scale_one(name: str, count: int, observations: Sequence[int]) -> dict[str, Any]:
    """Seconds and megabytes of a method with so many past studies."""
    imports, encoder = megabytes(), Encoder(SPACE)
    rng = np.random.default_rng(count)
    past = [quadratic(TRIALS, rng, f"past-{k}") for k in range(count + 1)]
    start = time.process_time()
    strategy = learn(name, encoder, past[:count])
    learnt = time.process_time() - start
    strategy.propose(quadratic(10, rng), np.empty((0, COLUMNS)), rng)
    propose = [
        statistics.median(
            seconds(partial(strategy.propose, history, np.empty((0, COLUMNS)), rng))
            for history in (quadratic(n, rng, explored=True) for _ in range(PROPOSALS))
        )
        for n in observations
    ]
    learner, added = getattr(strategy, "learner", None), np.nan
    if learner is not None:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "known.safetensors"
            learner.save(path, fingerprint=encoder.fingerprint)
            added = seconds(partial(learn, name, encoder, past, previous=path))
    facts = {"used": learner is not None, "imports": imports, "memory": megabytes()}
    return {**facts, "learn": learnt, "add": added, "propose": propose}


def learn(name: str, encoder: Encoder, past: Sequence[Task], **options: Any) -> Strategy:
    tasks = TaskSet(tuple(past), (), encoder.fingerprint)
    return methods.make(name, encoder, tasks, progress=False, **options)


def quadratic(n: int, rng: np.random.Generator, name: str = "", *, explored: bool = False) -> Task:
    """Noisy losses of a quadratic whose best place, near (0.6, ..., 0.6), and scale are random.

    Args:
        n: random configurations.
        rng: source of randomness.
        name: of the task.
        explored: half of the configurations are near the best place, as in a search.
    """
    best = np.clip(0.6 + 0.15 * rng.normal(size=COLUMNS), 0.0, 1.0)
    X = rng.random((n, COLUMNS))
    if explored:
        X[n // 2 :] = np.clip(best + 0.1 * rng.normal(size=X[n // 2 :].shape), 0.0, 1.0)
    steepness = np.linspace(2.0, 0.2, COLUMNS) * rng.uniform(0.5, 1.5, COLUMNS)
    clean = np.square(X - best) @ steepness
    loss = 10.0 ** rng.uniform(-1.0, 1.0) * (clean + 0.02 * rng.normal(size=n))
    return Task.of(X, loss, name=name)


def megabytes() -> float:
    """The most that this process has held."""
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


# ---------------------------------------------------------------------- fit

FITS = ((5, 20, 50, 100, 150), (2, 6, 15))  # observations and columns


def fit(quick: bool) -> str:
    if not has_botorch():
        return "BoTorch is not installed: there is nothing to compare with."
    (sizes, columns), repeats = (((5, 20), (2, 6)), 1) if quick else (FITS, 5)
    time_fits(sine(10, 2, 0))  # imports
    rows, better = [], []
    for n, d in product(sizes, columns):
        ours, theirs, gain = zip(*(time_fits(sine(n, d, k)) for k in range(repeats)), strict=True)
        times = statistics.median(ours), statistics.median(theirs)
        rows.append([n, d, *(1e3 * t for t in times), times[1] / times[0], f"{min(gain):+.4f}"])
        better.append(times[1] / times[0])
        print(f"{n} observations in {d} columns are done", file=sys.stderr, flush=True)
    note = (
        f"Processor milliseconds of a fit, medians of {repeats} data sets. The last column is the "
        "log posterior of our hyperparameters minus that of BoTorch's, per observation, both "
        "computed by BoTorch: the smallest difference of all data sets."
    )
    header = ["n", "columns", "ours ms", "BoTorch ms", "BoTorch : ours", "log posterior"]
    mean = statistics.geometric_mean(better)
    return f"{note}\n\n{markdown(header, rows)}\n\nGeometric mean of the ratios: {mean:.1f}."


def time_fits(task: Task) -> tuple[float, float, float]:
    """Seconds of our fit and of BoTorch's, and by how much ours is the more probable."""
    from botorch.fit import fit_gpytorch_mll
    from gpytorch.mlls import ExactMarginalLogLikelihood

    gp, y = GaussianProcess(), Standardize.fit(task.losses)(task.losses)
    ours = seconds(partial(gp.fit, task))
    start = time.process_time()
    model = same_priors(task.X, y)
    mll = ExactMarginalLogLikelihood(model.likelihood, model)
    fit_gpytorch_mll(mll)
    theirs = time.process_time() - start

    def log_posterior() -> float:
        model.train()
        return mll(model(*model.train_inputs), model.train_targets).item()

    found = log_posterior()
    assert gp.model is not None
    model.covar_module.lengthscale = torch.as_tensor(gp.model.lengthscales)
    model.likelihood.noise = torch.as_tensor(gp.model.noise)
    model.mean_module.constant.data.fill_(gp.model.constant)
    return ours, theirs, log_posterior() - found


def same_priors(X: np.ndarray, y: np.ndarray) -> Any:
    """BoTorch's model with the kernel and the priors of `GaussianProcess`, not fitted."""
    from botorch.models import SingleTaskGP
    from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
    from gpytorch.constraints import GreaterThan
    from gpytorch.likelihoods import GaussianLikelihood
    from gpytorch.priors import LogNormalPrior

    prior = LogNormalPrior(loc=-4.0, scale=1.0)
    likelihood = GaussianLikelihood(
        noise_prior=prior,
        noise_constraint=GreaterThan(1e-6, transform=None, initial_value=float(prior.mode)),
    )
    kernel = get_covar_module_with_dim_scaled_prior(ard_num_dims=X.shape[1], use_rbf_kernel=False)
    return SingleTaskGP(
        torch.as_tensor(X),
        torch.as_tensor(y)[:, None],
        likelihood=likelihood,
        covar_module=kernel,
        outcome_transform=None,
    )


def sine(n: int, d: int, seed: int) -> Task:
    """A smooth function of one column and the sum of all, with some noise."""
    rng = np.random.default_rng([seed, n, d])
    X = rng.random((n, d))
    return Task.of(X, 20 * np.sin(5 * X[:, 0]) + 3 * X.sum(axis=1) + rng.normal(size=n))


# ---------------------------------------------------------------------- the command


def seconds(work: Callable[[], object]) -> float:
    """Processor seconds of it."""
    start = time.process_time()
    work()
    return time.process_time() - start


def markdown(header: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; numbers with three digits."""
    lines = [header, ["---"] * len(header), *rows]
    text = [[_shown(value) for value in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in text)


def _shown(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}"


def begin() -> None:
    """One thread, and no time of a random proposal instead of one of the method."""
    torch.set_num_threads(1)
    warnings.filterwarnings("error", message=FALLBACK, category=RuntimeWarning)


def machine(load: float, names: Iterable[str]) -> str:
    """When and where something was measured, and with which packages.

    Args:
        load: of the machine before.
        names: of the packages.
    """
    packages = ", ".join(f"{name} {version(name)}" for name in names)
    return (
        f"{date.today()}, {os.cpu_count()} cores, one thread; load {load:.1f} before and "
        f"{os.getloadavg()[0]:.1f} after. {packages}, Python {platform.python_version()}."
    )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parts = parser.add_subparsers(dest="part", required=True)
    summaries = {
        "proposals": "choices among the rows of real tables",
        "scale": "learning, memory and proposals as the past and the study grow",
        "fit": "hyperparameters of a Gaussian process",
    }
    for name, summary in summaries.items():
        part = parts.add_parser(name, help=summary)
        part.add_argument("--quick", action="store_true", help="a trial run that says little")
        if name == "proposals":
            default = Path(os.environ.get(registry.DATA_VARIABLE) or "../shared/data")
            part.add_argument("--data", type=Path, default=default, help="folder of the tables")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    begin()
    load, quick = os.getloadavg()[0], arguments.quick
    parts: dict[str, Callable[[], str]] = {
        "proposals": lambda: proposals(arguments.data.resolve(), quick),
        "scale": lambda: scale(quick),
        "fit": lambda: fit(quick),
    }
    text = parts[arguments.part]()
    names = ["rankwise", "torch", "numpy", "scipy"]
    if has_botorch() and arguments.part != "scale":
        names += ["botorch", "gpytorch"]
    print(f"{machine(load, names)}\n\n{text}")


if __name__ == "__main__":
    main()
