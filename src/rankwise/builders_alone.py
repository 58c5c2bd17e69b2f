"""Builders of methods without a past: from a space and options to a strategy.

The keyword arguments of a builder are the options of its methods (`methods.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from rankwise.errors import OptionError, check_count

if TYPE_CHECKING:
    from rankwise.acquisition import Acquisition
    from rankwise.model_strategy import Learner
    from rankwise.proposal import Maximizer
    from rankwise.space import Encoder, Layout
    from rankwise.strategy import Strategy
    from rankwise.surrogates.base import Surrogate
    from rankwise.surrogates.dre import DeepRankingEnsemble


def random_search(encoder: Encoder) -> Strategy:
    """Uniformly random configurations."""
    from rankwise.strategy import RandomStrategy

    return RandomStrategy(encoder, design=None)


def grid_search(encoder: Encoder, *, levels: int | None = None) -> Strategy:
    """Ever finer grids, or one of given levels."""
    from rankwise.strategy import GridStrategy

    return GridStrategy(encoder, None, None if levels is None else check_count("levels", levels))


def default_first(encoder: Encoder) -> Strategy:
    """The space's default configuration, then random ones."""
    from rankwise.baselines import DefaultStrategy

    return DefaultStrategy(encoder, design=None)


def gaussian_process(
    encoder: Encoder,
    *,
    acquisition: str | Acquisition = "ei",
    transform: str = "standardize",
    noise_floor: float = 1e-6,
    liar: str = "min",
) -> Strategy:
    """A Gaussian process and what it expects to improve."""
    surrogate = partial(make_gp, transform, noise_floor)
    surrogate(0)  # a wrong option is said now, not at the first proposal
    cost = partial(make_gp, "standardize", noise_floor)  # seconds are wanted, not scores
    return assembled(encoder, surrogate, acquisition, liar, make_cost_surrogate=cost)


def random_forest(
    encoder: Encoder,
    *,
    acquisition: str | Acquisition = "lcb",
    trees: int = 100,
    min_leaf: int = 1,
    liar: str = "min",
) -> Strategy:
    """A forest and its lower confidence bound."""
    counts = check_count("trees", trees), check_count("min_leaf", min_leaf)
    surrogate = partial(make_forest, encoder.layout, *counts)
    return assembled(encoder, surrogate, acquisition, liar)


def model_based(
    encoder: Encoder, *, acquisition: str | Acquisition | None = None, liar: str = "min"
) -> Strategy:
    """Kriging on mostly numeric spaces without conditions, a forest on others."""
    if _suits_kriging(encoder):
        return gaussian_process(encoder, acquisition=acquisition or "ei", liar=liar)
    return random_forest(encoder, acquisition=acquisition or "lcb", liar=liar)


def _suits_kriging(encoder: Encoder) -> bool:
    """Whether nothing is ever inactive and at least half of the tuned hyperparameters are numbers.

    On such spaces a few one-hot columns do a Gaussian process no harm, and a forest's steps do:
    see docs/benchmarks.md.
    """
    return not encoder.conditional and 2 * encoder.n_numbers >= encoder.n_tuned


def alone(
    encoder: Encoder,
    *,
    surrogate: str,
    acquisition: str | Acquisition = "ei",
    liar: str = "min",
    **settings: Any,
) -> Strategy:
    """A surrogate that learns the study alone, anew at every proposal.

    Args:
        encoder: of the space.
        surrogate: the name of a class in `rankwise.surrogates`.
        acquisition: its name.
        liar: what the model is told about pending configurations.
        **settings: of the surrogate.
    """
    _make_alone(surrogate, settings, 0)  # a wrong setting is said now, not at the first proposal
    return assembled(encoder, partial(_make_alone, surrogate, settings), acquisition, liar)


def hebo(
    encoder: Encoder,
    *,
    acquisition: str | Acquisition = "mace",
    liar: str = "min",
    **settings: Any,
) -> Strategy:
    """HEBO: warped inputs, power-transformed losses, several acquisitions at once."""
    from rankwise.proposal import Maximizer

    make = partial(_make_alone, "WarpedGP", settings)
    make(0)
    return assembled(
        encoder,
        make,
        acquisition,
        liar,
        make_cost_surrogate=partial(
            _make_alone, "WarpedGP", {**settings, "transform": "standardize"}
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
    """Deep Ranking Ensembles from random weights."""
    from rankwise.surrogates.dre import DeepRankingEnsemble

    return ranked(encoder, DeepRankingEnsemble(**settings), acquisition, liar)


def evolution(encoder: Encoder) -> Strategy:
    """CMA-ES from the middle of the space."""
    from rankwise.cma import CmaStrategy, Gaussian, import_cmaes

    import_cmaes()  # what is missing is said now, not at the first proposal
    return CmaStrategy(encoder, None, Gaussian.middle(encoder.n_columns))


def optuna_sampler(encoder: Encoder, sampler: str) -> Strategy:
    """One of Optuna's samplers."""
    from rankwise.peers import OptunaStrategy

    return OptunaStrategy(encoder, None, sampler)


def ranked(
    encoder: Encoder, ensemble: DeepRankingEnsemble, acquisition: str | Acquisition, liar: str
) -> Strategy:
    """The strategy of a ranking ensemble, taught or not; seconds are predicted by a forest."""
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
) -> Strategy:
    """A `ModelStrategy` of these parts, with a design unless the surrogate is informed."""
    from rankwise.acquisition import make_acquisition
    from rankwise.design import Design
    from rankwise.model_strategy import ModelStrategy
    from rankwise.proposal import Maximizer

    if liar == "believer" and not (surrogate := make_surrogate(0)).believes:
        raise OptionError(f"{type(surrogate).__name__} cannot believe: choose another liar")
    # 4d leaves too little of a budget of 60: docs/benchmarks.md. Who knows needs none.
    design = None if informed else Design("lhs", "2d")
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
    )


def make_gp(transform: str, noise_floor: float, seed: int) -> Surrogate:
    """An unfitted Gaussian process."""
    from rankwise.surrogates.gp import GaussianProcess

    return GaussianProcess(transform=transform, noise_floor=noise_floor)


def _make_alone(surrogate: str, settings: dict[str, Any], seed: int) -> Surrogate:
    from rankwise import surrogates

    made: Surrogate = getattr(surrogates, surrogate)(seed=seed, **settings)
    return made


def make_forest(layout: Layout, trees: int, min_leaf: int, seed: int) -> Surrogate:
    """An unfitted forest."""
    from rankwise.surrogates.forest import RandomForest

    return RandomForest(layout, trees=trees, min_leaf=min_leaf, seed=seed)
