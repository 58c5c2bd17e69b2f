"""Deep Ranking Ensembles with a Deep Set, a Set Transformer or no context, on validation tasks.

    python benchmarks/contexts.py --data ../shared/data

Ensembles are meta-trained on the train tasks of a table, all alike but for the network that
describes the evaluations so far, always for the same number of steps: validation tasks do not
say when to stop, because they are what is optimised then. Runs are those of `rankwise bench`:
five initial rows, then the method chooses among the rows of the table. Test tasks are never
used. Printed are

- regret of the best so far after 5, 10 and 30 trials and its mean over all trials, 0 for the best
  row of a task and 1 for the worst;
- the mean ranking loss of lists of the validation tasks, before any fine-tuning;
- processor seconds of meta-training, that loss included, and milliseconds of a choice after 20
  evaluations;
- the differences to the Deep Set in mean regret and in ranking loss, paired by task and by seed,
  with standard errors over tasks (regret) and over tables and seeds (loss).

Seeds are those of meta-training and of the runs alike. Results are kept in `--out`, one file per
table, network and seed, and only missing ones are computed. Before anything else the Set
Transformer is checked, its gradients by differences. One thread. `--quick` says little.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")})

import numpy as np
import torch
from torch import Tensor
from transfer import begin, machine, markdown, seconds

from rankwise.bench import benchmarks as registry
from rankwise.bench import protocol
from rankwise.bench.base import INITIAL, TableProblem
from rankwise.errors import check_name
from rankwise.history.task import Task
from rankwise.methods.build_single import ranked
from rankwise.surrogates.numeric.batched_networks import Architecture
from rankwise.surrogates.ranking.dre import DeepRankingEnsemble

# ---------------------------------------------------------------------- the Set Transformer


@dataclass(frozen=True)
class SetArchitecture(Architecture):
    """An ensemble whose context is that of a Set Transformer.

    Attributes:
        heads: of every attention; they share the width.
        blocks: of self-attention.
    """

    heads: int = 4
    blocks: int = 1

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ValueError(f"a width of {self.width} cannot be shared by {self.heads} heads")

    @property
    def context_shapes(self) -> dict[str, tuple[int, ...]]:
        h, c = self.width, self.context
        shapes: dict[str, tuple[int, ...]] = {"set0": (self.columns + 1, h), "set_b0": (h,)}
        for k in range(self.blocks + 1):  # the last one pools
            shapes |= {f"set_query{k}": (h, h), f"set_pairs{k}": (h, 2 * h)}
            shapes |= {f"set_heads{k}": (h, h), f"set_row{k}": (h, h), f"set_row_b{k}": (h,)}
        return {**shapes, "set_seed": (1, h), "set_out": (h, c), "set_out_b": (c,)}

    def context_network(
        self, weights: dict[str, Tensor], gradients: dict[str, Tensor]
    ) -> SetTransformer | None:
        return SetTransformer(self, weights, gradients) if self.context else None


class SetTransformer:
    """The context of sets of evaluations by attention; see `ContextNetwork`.

    Lee et al., ICML 2019: an embedding of each evaluation, blocks in which the evaluations of a
    set attend to each other (SAB), pooling by attention from one learnt seed (PMA), and a linear
    layer. Without layer norm. An item is in a set if its pooling weight is positive. In the empty
    set the seed has nothing to attend to and goes on alone. The backward pass is autograd's.

    Args:
        shape: of the ensemble.
        weights: of the ensemble, by name.
        gradients: added to by `backward`.
    """

    def __init__(
        self, shape: SetArchitecture, weights: dict[str, Tensor], gradients: dict[str, Tensor]
    ) -> None:
        names = list(shape.context_shapes)
        self._shape = shape
        self._weights = {name: weights[name] for name in names}
        self._gradients = [gradients[name] for name in names]

    def forward(self, items: Tensor, pool: Tensor) -> Tensor:
        # Tensors made in inference mode are unknown to autograd, their copies are not.
        with torch.inference_mode(False), torch.enable_grad():
            self._leaves = {
                name: w.detach().clone().requires_grad_() for name, w in self._weights.items()
            }
            self._z = self._contexts(self._leaves, items.detach().clone(), pool.detach().clone())
            return self._z.detach()

    def backward(self, dz: Tensor) -> None:
        with torch.inference_mode(False):
            slopes = torch.autograd.grad(
                self._z, list(self._leaves.values()), dz.clone(), retain_graph=True
            )
        for gradient, slope in zip(self._gradients, slopes, strict=True):
            gradient.add_(slope)

    def _contexts(self, w: Mapping[str, Tensor], items: Tensor, pool: Tensor) -> Tensor:
        """Contexts (G * q, c); S = G * q sets below."""
        (groups, q, u), h = pool.shape, self._shape.width
        rows = torch.addmm(w["set_b0"], items.reshape(groups * u, -1), w["set0"])
        if q > 1:
            rows = rows.view(groups, 1, u, h).expand(groups, q, u, h)
        X = rows.reshape(groups * q, u, h)
        known = (pool > 0).view(groups * q, 1, 1, u)
        for k in range(self._shape.blocks):
            X = self._attend(w, k, X, X, known)
        seed = w["set_seed"].expand(groups * q, 1, h)
        pooled = self._attend(w, self._shape.blocks, seed, X, known)
        return torch.addmm(w["set_out_b"], pooled.view(groups * q, h), w["set_out"])

    def _attend(
        self, w: Mapping[str, Tensor], k: int, X: Tensor, Y: Tensor, known: Tensor
    ) -> Tensor:
        """MAB(X, Y): rows X (S, n, h) look at the known ones (S, 1, 1, u) of Y (S, u, h)."""
        (S, n, h), heads = X.shape, self._shape.heads

        def split(rows: Tensor) -> Tensor:
            return rows.reshape(S, -1, heads, h // heads).transpose(1, 2)

        query = split(X @ w[f"set_query{k}"])
        keys, values = map(split, (Y @ w[f"set_pairs{k}"]).split(h, dim=-1))
        scores = query @ keys.mT / math.sqrt(h // heads)
        # Finite, and zero afterwards, so that the empty set gets nothing, and not NaN.
        shares = scores.masked_fill(~known, -1e9).softmax(-1) * known
        found = (shares @ values).transpose(1, 2).reshape(S, n, h)
        H = X + found @ w[f"set_heads{k}"]
        return H + torch.relu(H @ w[f"set_row{k}"] + w[f"set_row_b{k}"])


class SetRankingEnsemble(DeepRankingEnsemble):
    """A ranking ensemble with a Set Transformer in place of the Deep Set."""

    blocks = 1

    def _shape(self, columns: int) -> Architecture:
        sizes = columns, self.members, self.layers, self.width, self.deep_set
        return SetArchitecture(*sizes, blocks=self.blocks)


class DeeperRankingEnsemble(SetRankingEnsemble):
    """The same with two blocks of self-attention."""

    blocks = 2


def check() -> None:
    """Stop if the Set Transformer is not what it should be: a wrong one would be no rival."""
    shape = SetArchitecture(3, members=2, layers=2, width=8, context=5, blocks=2)
    generator = torch.Generator().manual_seed(0)
    flat = shape.initial(generator, torch.float64)
    gradient = torch.zeros_like(flat)
    network = shape.context_network(shape.views(flat), shape.views(gradient))
    assert network is not None
    items = torch.randn(2, 6, 4, generator=generator, dtype=torch.float64)
    known = torch.rand(2, 3, 6, generator=generator, dtype=torch.float64) < 0.5
    known[0, 0] = False
    known[0, 1, :2] = torch.tensor([True, False])
    pool = known / known.sum(-1, keepdim=True).clamp_min(1)
    slope = torch.randn(6, 5, generator=generator, dtype=torch.float64)
    with torch.inference_mode():
        z = network.forward(items, pool)
        network.backward(slope)
    near = torch.testing.assert_close
    moved = torch.randperm(6, generator=generator)
    near(network.forward(items[:, moved], pool[..., moved]), z)  # the order does not matter
    near(network.forward(items[:1, known[0, 1]], pool[:1, 1:2, known[0, 1]]), z[1:2])  # nor others
    near(network.forward(items + 1.0, pool)[0], z[0])  # nothing is seen of the empty set
    assert not torch.allclose(network.forward(items + 1.0, pool)[1:], z[1:])
    step = 1e-6
    for k in range(flat.numel()):
        before, values = flat[k].clone(), []
        for sign in (1.0, -1.0):
            flat[k] = before + sign * step
            values.append((network.forward(items, pool) * slope).sum())
        flat[k] = before
        near((values[0] - values[1]) / (2 * step), gradient[k], rtol=1e-5, atol=1e-6)


# ---------------------------------------------------------------------- the comparison

REFERENCE = "deep set"
NETWORKS: dict[str, tuple[type[DeepRankingEnsemble], dict[str, Any]]] = {
    REFERENCE: (DeepRankingEnsemble, {}),
    "set transformer": (SetRankingEnsemble, {}),
    "set transformer, 2 blocks": (DeeperRankingEnsemble, {}),
    "no context": (DeepRankingEnsemble, {"deep_set": 0}),
}
CHOSEN = (REFERENCE, "set transformer", "no context")
TABLES = ("tst-svm-hpob", "hpobench-xgb", "textclf")
STEPS, SEEDS, TRIALS, LISTS = 1000, 3, 30, 100
MARKS, KNOWN, REPEATS = (5, 10, 30), 20, 5

Found = Mapping[tuple[str, str, int], Mapping[str, Any]]


def cell(
    table: str, network: str, seed: int, data: Path, out: Path, steps: int, trials: int
) -> dict[str, Any]:
    """What is known of a network on a table, from its file or computed now.

    Its "regrets" (tasks, trials + 1), the ranking "loss", "training" seconds, "choice" seconds.
    """
    name = f"{table}-{network.replace(', ', '-').replace(' ', '-')}-{seed}-{steps}-{trials}"
    path = out / f"{name}.json"
    if not path.exists():
        found = computed(table, network, seed, data, steps, trials)
        path.write_text(json.dumps(found))
        means = f"regret {np.mean(found['regrets']):.4f}, loss {found['loss']:.4f}"
        print(f"{path.stem}: {means}, {found['training']:.0f} s", flush=True)
    return json.loads(path.read_text())


def computed(
    table: str, network: str, seed: int, data: Path, steps: int, trials: int
) -> dict[str, Any]:
    benchmark = registry.load(table, data)
    # Looked at once, at the end: the validation tasks choose nothing.
    training = {"steps": steps, "every": steps, "validation_lists": LISTS}
    kind, options = NETWORKS[network]
    ensemble = kind(**options, training=training, seed=seed)
    past = benchmark.past(benchmark.validation[0])
    learn = partial(ensemble.meta_fit, past.tasks, past.validation, progress=False)
    training_seconds = seconds(learn)
    assert ensemble.record is not None and ensemble.record.best_step == steps
    strategy = ranked(benchmark.encoder, ensemble, "ei", "min")
    optimizer: Any = SimpleNamespace(strategy=strategy)  # all of it that a table needs
    regrets, problems = [], [benchmark.problem(task) for task in benchmark.validation]
    for problem in problems:
        trace = protocol.run(problem, optimizer, seed=seed, initial=INITIAL, trials=trials)
        assert not trace.fallbacks, f"{network} failed on {problem.name}"
        regrets.append(trace.regrets)
    return {
        "regrets": regrets,
        "loss": ensemble.record.losses[-1][2],
        "training": training_seconds,
        "choice": choice_seconds(strategy, problems[0]),
    }


def choice_seconds(strategy: Any, problem: TableProblem) -> float:
    """Processor seconds of a choice after some evaluations, the median of a few."""
    times = []
    for k in range(REPEATS):
        rows = np.random.default_rng(k).permutation(len(problem.losses))
        first, rest = rows[:KNOWN], rows[KNOWN:]
        history = Task.of(problem.X[first], problem.losses[first])
        rng = np.random.default_rng(k)
        times.append(seconds(partial(strategy.choose, history, problem.X[rest], rng)))
    return statistics.median(times)


# ---------------------------------------------------------------------- the report


def curves(found: Found, table: str, network: str, seeds: Sequence[int]) -> np.ndarray:
    """Regrets (seeds, tasks, trials) after each trial."""
    return np.array([found[table, network, seed]["regrets"] for seed in seeds])[..., 1:]


def figures(
    found: Found, tables: Sequence[str], networks: Sequence[str], seeds: Sequence[int]
) -> str:
    """A row per network, for each table and for all; tables weigh the same."""
    trials = curves(found, tables[0], networks[0], seeds).shape[-1]
    marks = [k for k in MARKS if k <= trials]
    parts, every = [], {network: [] for network in networks}
    for table in tables:
        for network in networks:
            regrets = curves(found, table, network, seeds).mean(axis=(0, 1))
            cells = [found[table, network, seed] for seed in seeds]
            others = [float(np.mean([c[key] for c in cells])) for key in ("loss", "training")]
            choice = 1e3 * float(np.median([c["choice"] for c in cells]))
            numbers = [*(regrets[k - 1] for k in marks), regrets.mean(), *others, choice]
            every[network].append(numbers)
    header = ["network", *(f"after {k}" for k in marks), f"1 to {trials}"]
    header += ["ranking loss", "training s", "choice ms"]
    for k, table in enumerate([*tables, "all tables"] if len(tables) > 1 else tables):
        rows = [
            [n, *shown(np.mean(every[n], axis=0) if k == len(tables) else every[n][k])]
            for n in networks
        ]
        parts.append(f"{table}:\n\n{markdown(header, rows)}")
    return "\n\n".join(parts)


def shown(numbers: Sequence[float]) -> list[str]:
    *regrets, loss, training, choice = numbers
    return [*(f"{r:.4f}" for r in regrets), f"{loss:.4f}", f"{training:.0f}", f"{choice:.0f}"]


def differences(
    found: Found, tables: Sequence[str], networks: Sequence[str], seeds: Sequence[int]
) -> str:
    """Of each other network to the reference, paired; negative is better than the reference."""
    rows = []
    for network in networks:
        if network == REFERENCE:
            continue
        gaps, losses = [], []
        for table in tables:
            ours, base = (curves(found, table, n, seeds) for n in (network, REFERENCE))
            gaps.append((ours - base).mean(axis=-1))
            ours, base = (
                [found[table, n, s]["loss"] for s in seeds] for n in (network, REFERENCE)
            )
            losses.append(np.subtract(ours, base))
        by_task = [gap.mean(axis=0) for gap in gaps]
        errors = [g.std(ddof=1) / len(g) ** 0.5 if len(g) > 1 else np.nan for g in by_task]
        error = float(np.sqrt(np.sum(np.square(errors)))) / len(tables)
        mean = float(np.mean([g.mean() for g in by_task]))
        runs = np.concatenate([gap.ravel() for gap in gaps])
        loss = np.ravel(losses)
        loss_error = loss.std(ddof=1) / len(loss) ** 0.5 if len(loss) > 1 else np.nan
        rows.append(
            [
                network,
                *(f"{g.mean():+.4f} ± {e:.4f}" for g, e in zip(by_task, errors, strict=True)),
                f"{mean:+.4f} ± {error:.4f}",
                f"{(runs < 0).sum()}/{(runs > 0).sum()}",
                f"{loss.mean():+.4f} ± {loss_error:.4f}",
            ]
        )
    header = ["network", *tables, "all tables", "runs better/worse", "ranking loss"]
    return f"Less the {REFERENCE}, mean regret over all trials:\n\n{markdown(header, rows)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    default = Path(os.environ.get(registry.DATA_VARIABLE) or "../shared/data")
    parser.add_argument("--data", type=Path, default=default, help="folder of the tables")
    parser.add_argument("--out", type=Path, default=Path("runs/contexts"))
    parser.add_argument("--tables", default=",".join(TABLES), help="separated by commas")
    parser.add_argument("--networks", default=";".join(CHOSEN), help="separated by semicolons")
    parser.add_argument("--steps", type=int, default=STEPS, help="of meta-training")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many")
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--quick", action="store_true", help="a trial run that says little")
    options = parser.parse_args()
    tables, seeds = options.tables.split(","), range(options.seeds)
    networks = list(dict.fromkeys([REFERENCE, *options.networks.split(";")]))
    for network in networks:
        check_name("network", network, NETWORKS)
    size = options.steps, options.trials
    if options.quick:
        tables, seeds, size = tables[:1], range(1), (20, 5)
    options.out.mkdir(parents=True, exist_ok=True)
    begin()
    check()
    load, data = os.getloadavg()[0], options.data.resolve()
    keys = [(t, n, s) for s, t, n in product(seeds, tables, networks)]
    found = {key: cell(*key, data, options.out, *size) for key in keys}
    print(f"\n{machine(load, ('rankwise', 'torch', 'numpy'))}\n")
    print(f"{len(seeds)} seeds, {size[0]} steps of meta-training, {size[1]} trials.\n")
    print(figures(found, tables, networks, seeds), end="\n\n")
    print(differences(found, tables, networks, seeds))


if __name__ == "__main__":
    main()
