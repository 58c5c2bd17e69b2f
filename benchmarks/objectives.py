"""Several objectives: hypervolume after 10, 25 and 50 trials, with and without past studies.

    python benchmarks/objectives.py --data ../shared/data --seeds 3 --cache runs/objectives.jsonl
    python benchmarks/objectives.py --choose
    python benchmarks/objectives.py --three

The problems are those of `objectives_problems.py`. A past study has 30 random trials (of the
built-in records: 30 of its configurations). The hypervolume is relative to that of the true front;
objectives of tables and records are measured as quantiles. `--choose` compares expected
hypervolume improvement with a random augmented Chebyshev scalarisation on development problems
that are not reported, and `--three` scales of losses with three objectives.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import optuna
from cells import ROOT, Lines, arguments, write_results
from objectives_problems import (
    Problem,
    bowls,
    convex,
    plane,
    problems,
    synthetic,
    three_bowls,
)

from rankwise import RankwiseSampler
from rankwise.acquisition.hypervolume import on_front
from rankwise.strategies import joint
from rankwise.strategies.joint import JointStrategy

FIGURE = ROOT / "docs" / "images" / "objectives.png"
SHOWN, TRIALS = (10, 25, 50), 50
SAMPLERS = ("rankwise, past", "rankwise", "TPE", "NSGA-II", "GP")


def curve(problem: Problem, which: str, seed: int, trials: int) -> list[float]:
    """Relative hypervolume after each of some trials."""
    made = {
        "rankwise": lambda: RankwiseSampler(seed=seed, strict=True),
        "rankwise, past": lambda: RankwiseSampler(problem.past(seed), seed=seed, strict=True),
        "TPE": lambda: optuna.samplers.TPESampler(seed=seed),
        "NSGA-II": lambda: optuna.samplers.NSGAIISampler(seed=seed, population_size=10),
        "GP": lambda: optuna.samplers.GPSampler(seed=seed),
    }
    study = optuna.create_study(
        study_name="target", directions=["minimize"] * problem.m, sampler=made[which]()
    )
    study.optimize(lambda t: problem.target(problem.suggest(t)), n_trials=trials)
    values = np.array([t.values for t in study.trials])
    return [round(problem.volume(values[: n + 1]), 5) for n in range(trials)]


def run(data: Path, seeds: int, lines: Lines) -> None:
    """Run what has no result yet, one problem of each family after the other."""
    for seed in range(seeds):
        made = list(problems(data, seed).items())
        families = [family for (family, _), _ in made]
        places = [families[:k].count(family) for k, family in enumerate(families)]
        for k in np.argsort(places, kind="stable"):
            (family, name), make = made[k]
            for which in SAMPLERS:
                key = (family, name, seed, which)
                if key not in lines:
                    lines.add(key, curve(make(), which, seed, TRIALS))
                    print(*key, *[lines[key][n - 1] for n in SHOWN], flush=True)


def by_family(lines: Lines) -> dict[str, dict[str, np.ndarray]]:
    """Curves (runs, trials) by family and sampler, of the problems that have all of them."""
    heads = lines.complete(SAMPLERS)
    return {
        family: {w: np.array([lines[(*h, w)] for h in heads if h[0] == family]) for w in SAMPLERS}
        for family in dict.fromkeys(head[0] for head in heads)
    }


def reached(curve: np.ndarray, goal: float) -> int | None:
    """The first trial with which a mean curve is as good as a goal."""
    there = np.flatnonzero(curve >= goal)
    return int(there[0]) + 1 if len(there) else None


def write(lines: Lines, command: str) -> None:
    rows, speed = [], []
    for family, curves in by_family(lines).items():
        mean = {which: found.mean(axis=0) for which, found in curves.items()}
        for which in SAMPLERS:
            error = curves[which][:, -1].std(ddof=1) / np.sqrt(len(curves[which]))
            shown = [float(mean[which][n - 1]) for n in SHOWN]
            rows.append([family, which, len(curves[which]), *shown, float(error)])
        for n in SHOWN:
            best = max(SAMPLERS[2:], key=lambda w: mean[w][n - 1])
            row: list = [family, n, best]
            for other in (best, "rankwise"):
                first = reached(mean["rankwise, past"], mean[other][n - 1])
                row += [first, n / first if first else None]
            speed.append(row)
    columns = [{"name": "family"}, {"name": "sampler"}, {"name": "runs"}]
    columns += [{"name": f"after {n}", "digits": 3, "best": "max"} for n in SHOWN]
    write_results(
        "objectives",
        "Several objectives",
        command,
        "Three families: ZDT1, ZDT2 and DTLZ2 in five dimensions with optima that differ by up to "
        "0.24 of the range (five past studies); error and size of the four networks of "
        "`hpolib-fcnet` (three past studies); error and seconds of three learners in the built-in "
        "records (20 past studies, a forest between the records of the target). Past studies have "
        "30 random trials. NSGA-II has a population of 10, the others their defaults. The "
        "acquisition function was chosen on other problems.",
        {
            "hypervolume": {
                "about": "Mean hypervolume relative to the true front (1 is perfect), over tasks "
                "and seeds, and the standard error of the last.",
                "columns": [*columns, {"name": "± of the last", "digits": 3}],
                "rows": rows,
                "best_within": "family",
            },
            "speed": {
                "about": "Trials that Rankwise with past studies needs for the mean hypervolume "
                "of the best of Optuna's samplers, and of Rankwise without past studies; – means "
                "more than 50.",
                "columns": [
                    {"name": "family"},
                    {"name": "trials"},
                    {"name": "best of Optuna"},
                    {"name": "reached after"},
                    {"name": "times fewer", "digits": 1},
                    {"name": "Rankwise without past: reached after"},
                    {"name": "times fewer ", "digits": 1},
                ],
                "rows": speed,
            },
        },
    )


def draw(lines: Lines) -> None:
    """Draw the mean hypervolume of each sampler, one panel for each family."""
    from matplotlib.figure import Figure

    families = by_family(lines)
    figure = Figure(figsize=(4 * len(families), 3.4), layout="constrained")
    panels = figure.subplots(1, len(families), squeeze=False)[0]
    for axes, (family, curves) in zip(panels, families.items(), strict=True):
        for which in SAMPLERS:
            width = 2.4 if which.startswith("rankwise") else 1.2
            axes.plot(range(1, TRIALS + 1), curves[which].mean(axis=0), lw=width, label=which)
        axes.set_title(family, fontsize=10)
        axes.set_xlabel("trial")
        axes.grid(alpha=0.25, lw=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("mean relative hypervolume")
    panels[-1].legend(frameon=False, fontsize=9, loc="lower right")
    figure.savefig(FIGURE, dpi=110)


# ---------------------------------------------------------------------- choice of the acquisition


def chebyshev(self, history, rows, pending, rng):
    """A utility like that of ParEGO, from the same surrogates: EI of a random scalarisation."""
    from rankwise.strategies.joint import believing

    seed = int(rng.integers(2**31))
    pairs = zip(self.objectives, self._tasks(history), strict=True)
    surrogates = [believing(part, task, pending, seed) for part, task in pairs]
    weights = rng.dirichlet(np.ones(len(surrogates)))
    draws = np.random.default_rng(seed).normal(size=(64, 1, len(surrogates)))
    codes = self.encoder.sample_codes(200, np.random.default_rng(seed))
    rivals = history.X[rows] if len(history) else self.encoder.encode_codes(codes)

    def utility(X):
        both = [s.predict(np.concatenate([X, rivals])) for s in surrogates]
        mean = np.stack([p.mean for p in both], axis=1)
        std = np.stack([p.std for p in both], axis=1)
        low, width = mean[len(X) :].min(axis=0), np.ptp(mean[len(X) :], axis=0) + 1e-9

        def scalar(y):
            scaled = weights * (y - low) / width
            return scaled.max(axis=-1) + 0.05 * scaled.sum(axis=-1)

        there = scalar(mean[len(X) :])
        incumbent = there.min() if len(history) else there.mean()
        sampled = scalar(mean[: len(X)] + std[: len(X)] * draws)
        return np.maximum(incumbent - sampled, 0).mean(axis=0) - 1e-6 * sampled.mean(axis=0)

    return utility, surrogates


def nearer_reference(self, rivals, *, known):
    """Boxes below a reference point near the front, as in BoTorch."""
    from rankwise.acquisition.hypervolume import free_boxes

    if not known:
        return free_boxes(rivals[:0], rivals.mean(axis=0))
    front = np.unique(rivals[on_front(rivals)], axis=0)
    width = np.where(np.ptp(front, axis=0) > 0, np.ptp(front, axis=0), np.ptp(rivals, axis=0))
    return free_boxes(front, front.max(axis=0) + 0.1 * np.maximum(width, 1e-9))


def choose() -> list[list]:
    """Compare acquisition functions on development problems."""
    variants = {
        "hypervolume, reference behind all trials": {},
        "hypervolume, reference behind the front": {"_boxes": nearer_reference},
        "Chebyshev scalarisation": {"_utility": chebyshev},
    }
    kept = {name: getattr(JointStrategy, name) for name in ("_boxes", "_utility")}
    rows = []
    for variant, patches in variants.items():
        for name in kept:
            setattr(JointStrategy, name, patches.get(name, kept[name]))
        for which in ("rankwise, past", "rankwise"):
            found = [
                curve(synthetic(bowls, "bowls", seed, d), which, seed, 20)
                for seed in range(3)
                for d in (3, 6)
            ]
            mean = np.mean(found, axis=0)
            rows.append([which, variant, *[round(float(mean[n - 1]), 3) for n in (5, 10, 20)]])
            print(*rows[-1], flush=True)
    return rows


def write_choice(rows: list[list]) -> None:
    columns = [{"name": "sampler"}, {"name": "acquisition"}]
    columns += [{"name": f"after {n}", "digits": 3, "best": "max"} for n in (5, 10, 20)]
    write_results(
        "objectives-choice",
        "Acquisition of several objectives",
        "python benchmarks/objectives.py --choose",
        "Development problems: two bowls in three and in six dimensions, three seeds, five past "
        "studies of 30 random trials.",
        {
            "hypervolume": {
                "about": "Mean hypervolume relative to the true front, over six runs.",
                "columns": columns,
                "rows": rows,
                "best_within": "sampler",
            }
        },
    )


def three() -> None:
    """Compare losses as they are with transformed ones on three objectives; write the table."""
    rows = []
    for name, make in (("three bowls", three_bowls), ("convex", convex), ("plane", plane)):
        for scale, first in (("transformed", 9), ("as they are", 3)):
            joint._LINEAR_FROM = first
            found = [curve(synthetic(make, name, s), "rankwise", s, 40) for s in range(2)]
            mean = np.mean(found, axis=0)
            rows.append([name, scale, *[float(mean[n - 1]) for n in (10, 20, 40)]])
            print(*rows[-1], flush=True)
    columns = [{"name": "problem"}, {"name": "losses"}]
    columns += [{"name": f"after {n}", "digits": 3, "best": "max"} for n in (10, 20, 40)]
    write_results(
        "objectives-three",
        "Scale of three objectives",
        "python benchmarks/objectives.py --three",
        "Development problems with three objectives in five dimensions, two seeds, no past "
        "studies, method `mbo`. Values above 1 are possible where the reference front is coarse.",
        {
            "hypervolume": {
                "about": "Mean hypervolume relative to the true front, over two runs.",
                "columns": columns,
                "rows": rows,
                "best_within": "problem",
            }
        },
    )


def main() -> None:
    parser = arguments("objectives", __doc__, seeds=3)
    parser.add_argument("--three", action="store_true", help="compare scales of losses only")
    options = parser.parse_args()
    if options.three:
        three()
        return
    if options.choose:
        write_choice(choose())
        return
    lines = Lines(options.cache)
    if not options.write:
        run(options.data, options.seeds, lines)
    draw(lines)
    write(lines, f"python benchmarks/objectives.py --seeds {options.seeds}")


if __name__ == "__main__":
    main()
