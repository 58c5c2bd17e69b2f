"""Builders of methods without transfer: they make a strategy from an encoder and options.

Keyword-only arguments of a builder are options of its methods (`rows`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from rankwise.errors import OptionError, check_count
from rankwise.methods.method import load_surrogate

if TYPE_CHECKING:
    from rankwise.acquisition.functions import Acquisition
    from rankwise.acquisition.maximizer import Maximizer
    from rankwise.space.design import Design
    from rankwise.space.encoder import Encoder, Layout
    from rankwise.strategies.base import Learner, Strategy
    from rankwise.strategies.model_based import ModelStrategy
    from rankwise.surrogates.base import Surrogate
    from rankwise.surrogates.ranking.dre import DeepRankingEnsemble


def random_search(encoder: Encoder) -> Strategy:
    """Random configurations."""
    from rankwise.strategies.base import RandomStrategy

    return RandomStrategy(encoder, design=None)


def grid_search(encoder: Encoder, *, levels: int | None = None) -> Strategy:
    """Grids that become finer, or one grid with a given number of levels."""
    from rankwise.strategies.base import GridStrategy

    return GridStrategy(encoder, None, None if levels is None else check_count("levels", levels))


def default_first(encoder: Encoder) -> Strategy:
    """The default configuration of the space, then random ones."""
    from rankwise.strategies.baselines import DefaultStrategy

    return DefaultStrategy(encoder, design=None)


def gaussian_process(
    encoder: Encoder,
    *,
    acquisition: str | Acquisition = "ei",
    transform: str = "standardize",
    noise_floor: float = 1e-6,
    liar: str = "min",
) -> Strategy:
    """A Gaussian process, with expected improvement by default."""
    surrogate = partial(make_gp, transform, noise_floor)
    surrogate(0)  # reports a wrong option now, not at the first proposal
    cost = partial(make_gp, "standardize", noise_floor)  # costs need predictions in seconds
    return assembled(encoder, surrogate, acquisition, liar, make_cost_surrogate=cost)


def random_forest(
    encoder: Encoder,
    *,
    acquisition: str | Acquisition = "lcb",
    trees: int = 100,
    min_leaf: int = 1,
    liar: str = "min",
) -> Strategy:
    """A random forest, with a lower confidence bound by default."""
    counts = check_count("trees", trees), check_count("min_leaf", min_leaf)
    surrogate = partial(make_forest, encoder.layout, *counts)
    return assembled(encoder, surrogate, acquisition, liar)


def model_based(
    encoder: Encoder,
    *,
    acquisition: str | Acquisition = "ei",
    noise_floor: float = 1e-6,
    warp: bool = True,
    liar: str = "min",
) -> ModelStrategy:
    """A Gaussian process with a kernel for mixed and conditional spaces, few initial points."""
    from rankwise.acquisition.ascent import AscentSearch
    from rankwise.acquisition.maximizer import Maximizer
    from rankwise.space.design import Design
    from rankwise.surrogates.single_study.structured_gp import WARPS

    linear = partial(make_structured_gp, encoder.layout, noise_floor, WARPS[:1])
    surrogate = partial(make_structured_gp, encoder.layout, noise_floor, WARPS) if warp else linear
    surrogate(0)  # reports a wrong option now, not at the first proposal
    return assembled(
        encoder,
        surrogate,
        acquisition,
        liar,
        maximizer=Maximizer(ascent=AscentSearch()),
        make_cost_surrogate=linear,
        design=Design("default", "few"),
    )


def alone(
    encoder: Encoder,
    *,
    surrogate: str | type[Any],
    acquisition: str | Acquisition = "ei",
    liar: str = "min",
    **settings: Any,
) -> Strategy:
    """A surrogate of the target study alone, fitted before every proposal.

    Args:
        encoder: encoder of the search space.
        surrogate: class of the surrogate (see `Method.surrogate`).
        acquisition: acquisition function or its name.
        liar: loss that pending configurations get (see `ModelStrategy`).
        **settings: keyword arguments of the surrogate.
    """
    _make_alone(surrogate, settings, 0)  # reports a wrong setting now, not at the first proposal
    return assembled(encoder, partial(_make_alone, surrogate, settings), acquisition, liar)


def hebo(
    encoder: Encoder,
    *,
    surrogate: str,
    acquisition: str | Acquisition = "mace",
    liar: str = "min",
    **settings: Any,
) -> Strategy:
    """HEBO: warped inputs, power-transformed losses, several acquisition functions at once."""
    from rankwise.acquisition.maximizer import Maximizer

    make = partial(_make_alone, surrogate, settings)
    make(0)
    return assembled(
        encoder,
        make,
        acquisition,
        liar,
        make_cost_surrogate=partial(
            _make_alone, surrogate, {**settings, "transform": "standardize"}
        ),
        maximizer=Maximizer(spacing=0.0),
    )


def untaught_ranking_ensemble(
    encoder: Encoder,
    *,
    acquisition: str | Acquisition = "ei",
    liar: str = "min",
    **settings: Any,
) -> Strategy:
    """Deep Ranking Ensemble from random weights."""
    from rankwise.surrogates.ranking.dre import DeepRankingEnsemble

    return ranked(encoder, DeepRankingEnsemble(**settings), acquisition, liar)


def evolution(encoder: Encoder) -> Strategy:
    """CMA-ES, started in the middle of the space."""
    from rankwise.strategies.cma_es import CmaStrategy, Gaussian, import_cmaes

    import_cmaes()  # reports a missing package now, not at the first proposal
    return CmaStrategy(encoder, None, Gaussian.middle(encoder.n_columns))


def optuna_sampler(encoder: Encoder, sampler: str) -> Strategy:
    """One of Optuna's samplers."""
    from rankwise.strategies.optuna_samplers import OptunaStrategy

    return OptunaStrategy(encoder, None, sampler)


def ranked(
    encoder: Encoder, ensemble: DeepRankingEnsemble, acquisition: str | Acquisition, liar: str
) -> Strategy:
    """The strategy of a ranking ensemble, meta-learned or not; a forest predicts the seconds."""
    return assembled(
        encoder,
        ensemble.with_seed,
        acquisition,
        liar,
        informed=ensemble.meta_learned,
        make_cost_surrogate=partial(make_forest, encoder.layout, 100, 1),
        learner=ensemble if ensemble.meta_learned else None,
    )


def assembled(
    encoder: Encoder,
    make_surrogate: Callable[[int], Surrogate],
    acquisition: str | Acquisition,
    liar: str,
    *,
    informed: bool = False,
    make_cost_surrogate: Callable[[int], Surrogate] | None = None,
    learner: Learner | None = None,
    make_pool_surrogate: Callable[[int], Surrogate] | None = None,
    maximizer: Maximizer | None = None,
    checks: bool = False,
    alone: ModelStrategy | None = None,
    design: Design | None = None,
) -> ModelStrategy:
    """A `ModelStrategy` of these parts, with an initial design unless `informed` is True."""
    from rankwise.acquisition.functions import make_acquisition
    from rankwise.acquisition.maximizer import Maximizer
    from rankwise.space.design import Design
    from rankwise.strategies.model_based import ModelStrategy

    if liar == "believer" and not (surrogate := make_surrogate(0)).believes:
        raise OptionError(f"{type(surrogate).__name__} cannot believe: choose another liar")
    # 4d leaves too few of 60 trials for the model: docs/decisions/001-mbo-defaults.md.
    design = None if informed else design or Design("lhs", "2d")
    return ModelStrategy(
        encoder,
        design,
        make_surrogate,
        make_acquisition(acquisition),
        maximizer or Maximizer(),
        liar=liar,
        informed=informed,
        make_cost_surrogate=make_cost_surrogate,
        learner=learner,
        make_pool_surrogate=make_pool_surrogate,
        checks=checks,
        alone=alone,
    )


def make_gp(transform: str, noise_floor: float, seed: int) -> Surrogate:
    """An unfitted Gaussian process."""
    from rankwise.surrogates.single_study.gp import GaussianProcess

    return GaussianProcess(transform=transform, noise_floor=noise_floor)


def make_structured_gp(
    layout: Layout, noise_floor: float, warps: tuple[float, ...], seed: int
) -> Surrogate:
    """An unfitted Gaussian process that knows the hyperparameters of its columns."""
    from rankwise.surrogates.single_study.structured_gp import StructuredGP

    return StructuredGP(layout, noise_floor=noise_floor, warps=warps)


def _make_alone(surrogate: str | type[Any], settings: dict[str, Any], seed: int) -> Surrogate:
    made: Surrogate = load_surrogate(surrogate)(seed=seed, **settings)
    return made


def make_forest(layout: Layout, trees: int, min_leaf: int, seed: int) -> Surrogate:
    """An unfitted forest."""
    from rankwise.surrogates.single_study.forest import RandomForest

    return RandomForest(layout, trees=trees, min_leaf=min_leaf, seed=seed)
