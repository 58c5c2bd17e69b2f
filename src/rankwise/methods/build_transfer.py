"""Builders of transfer methods: they make a strategy from an encoder, source tasks and options.

Keyword-only arguments of a builder are options of its methods (`rows`).
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise._core.extras import PACKAGES, installed
from rankwise.errors import OptionError, RunWarning, check_count, check_name, is_number
from rankwise.history.task import Task, TaskSet
from rankwise.methods.build_single import (
    assembled,
    evolution,
    gaussian_process,
    make_forest,
    model_based,
    ranked,
    untaught_ranking_ensemble,
)
from rankwise.methods.method import load_surrogate

if TYPE_CHECKING:
    from rankwise.acquisition.functions import Acquisition
    from rankwise.space.encoder import Encoder
    from rankwise.strategies.base import Strategy
    from rankwise.strategies.guard.trust import Witnesses
    from rankwise.surrogates.empirical_bayes.surrogate import EmpiricalBayes

_MAX_WITNESSES = 100  # source tasks that predict the order of configurations for the guard
_MAX_HELD_OUT, _MAX_ROWS = 50, 200  # of them held out to measure agreement; rows of each
_MANY = 3000  # past studies above which one network for all is learnt faster: docs/decisions/008
_TORCH = PACKAGES["neural"]


def ranking_ensemble(
    encoder: Encoder,
    past: TaskSet,
    *,
    model: str | Path | None = None,
    acquisition: str | Acquisition = "ei",
    liar: str = "min",
    checkpoint: str | Path | None = None,
    progress: bool | None = None,
    learning_seed: int = 0,
    **settings: Any,
) -> Strategy:
    """Deep Ranking Ensemble, meta-learned on source tasks or loaded from a model file."""
    from rankwise.surrogates.ranking.dre import DeepRankingEnsemble

    _check_either(model, past)
    if model is not None:
        ensemble = DeepRankingEnsemble.load(model, **_space_of(encoder), **settings)
    else:
        ensemble = DeepRankingEnsemble(seed=learning_seed, **settings)
        ensemble.meta_fit(past.tasks, past.validation, checkpoint=checkpoint, progress=progress)
    return ranked(encoder, ensemble, acquisition, liar)


def described_ranking(
    encoder: Encoder,
    past: TaskSet,
    *,
    acquisition: str | Acquisition = "ei",
    liar: str = "min",
    progress: bool | None = None,
    learning_seed: int = 0,
    description: str = "data",
    **settings: Any,
) -> Strategy:
    """Deep Ranking Ensemble with a learnt description of the data set as input."""
    from rankwise.surrogates.ranking.dre_with_data import DescribedRankingEnsemble

    learnt = DescribedRankingEnsemble(seed=learning_seed, description=description, **settings)
    learnt.meta_fit(past.tasks, past.validation, progress=progress)
    if not learnt.meta_learned:
        return untaught_ranking_ensemble(encoder, acquisition=acquisition, liar=liar, **settings)
    return assembled(
        encoder,
        learnt.with_seed,
        acquisition,
        liar,
        informed=True,
        make_cost_surrogate=partial(make_forest, encoder.layout, 100, 1),
    )


def learned(
    encoder: Encoder,
    past: TaskSet,
    *,
    surrogate: str | type[Any],
    model: str | Path | None = None,
    acquisition: str | Acquisition = "ei",
    liar: str = "min",
    progress: bool | None = None,
    learning_seed: int = 0,
    **settings: Any,
) -> Strategy:
    """A surrogate that learns from source tasks; a Gaussian process if nothing can be learnt.

    Args:
        encoder: encoder of the search space.
        past: source tasks.
        surrogate: class of a `TransferSurrogate` (see `Method.surrogate`).
        model: model file to load instead of learning from source tasks.
        acquisition: acquisition function or its name.
        liar: loss that pending configurations get (see `ModelStrategy`).
        progress: show a progress bar while learning.
        learning_seed: seed of the learning.
        **settings: keyword arguments of the surrogate.
    """
    kind = load_surrogate(surrogate)
    _check_either(model, past)
    if settings.get("warm_start") and acquisition != "ei":
        raise OptionError(
            "warm_start puts expected improvement aside at first: it needs acquisition='ei', not "
            f"{acquisition!r}"
        )
    if model is not None:
        learnt = kind.load(model, **_space_of(encoder), **settings)
    else:
        learnt = kind(seed=learning_seed, **settings)
        learnt.meta_fit(past.tasks, past.validation, progress=progress)
    if not learnt.meta_learned:
        return gaussian_process(encoder, acquisition=acquisition, liar=liar)
    return assembled(
        encoder,
        learnt.with_seed,
        acquisition,
        liar,
        informed=True,
        make_cost_surrogate=partial(make_forest, encoder.layout, 100, 1),
        learner=learnt,
    )


def distributional(
    encoder: Encoder,
    past: TaskSet,
    *,
    surrogate: str,
    kind: str,
    description: str,
    model: str | Path | None = None,
    acquisition: str | Acquisition = "ei",
    liar: str = "believer",
    progress: bool | None = None,
    learning_seed: int = 0,
    **settings: Any,
) -> Strategy:
    """One model of all tasks with a description of each data set as input (distBO).

    With `kind="blr"` the first proposal is one of the best past configurations, because the
    regression extrapolates badly before the first evaluation.
    """
    strategy = learned(
        encoder,
        past,
        surrogate=surrogate,
        model=model,
        acquisition=acquisition,
        liar=liar,
        progress=progress,
        learning_seed=learning_seed,
        kind=kind,
        description=description,
        **settings,
    )
    from rankwise.strategies.baselines import legal_rows
    from rankwise.strategies.model_based import ModelStrategy
    from rankwise.surrogates.distbo.surrogate import DistributionalTransfer

    learnt = strategy.learner
    if kind != "blr" or learnt is None:
        return strategy
    assert isinstance(strategy, ModelStrategy) and isinstance(learnt, DistributionalTransfer)
    return replace(strategy, openings=legal_rows(encoder, learnt.best))


def empirical_bayes(
    encoder: Encoder,
    past: TaskSet,
    *,
    kind: str,
    model: str | Path | EmpiricalBayes | None = None,
    previous: str | Path | EmpiricalBayes | None = None,
    acquisition: str | Acquisition = "ei",
    liar: str = "believer",
    progress: bool | None = None,
    learning_seed: int = 0,
    **settings: Any,
) -> Strategy:
    """A Gaussian process whose prior is learnt from source tasks; `gp` without source tasks."""
    from rankwise.surrogates.empirical_bayes.surrogate import EmpiricalBayes

    _check_either(model, past)
    if isinstance(model, EmpiricalBayes):
        learnt = model
    elif model is not None:
        learnt = EmpiricalBayes.load(model, **_space_of(encoder), **settings)
    else:
        learnt = EmpiricalBayes(kind=kind, seed=learning_seed, **settings)
        learnt.meta_fit(past.tasks, past.validation, previous=previous, progress=progress)
    if not learnt.meta_learned:
        return gaussian_process(encoder, acquisition=acquisition, liar=liar)
    from rankwise.acquisition.maximizer import Maximizer
    from rankwise.acquisition.search import FocusSearch, LocalSearch

    # With a gradient, a few starting points are enough.
    climbs = encoder.n_numbers == encoder.n_columns
    focus = FocusSearch(400, 1, 1) if climbs else FocusSearch(200, 4, 1)
    maximizer = Maximizer(focus, LocalSearch(4, 16, 0 if climbs else 6))
    exact = learnt.with_seed
    compact = exact if encoder.points is not None else learnt.compact().with_seed
    return assembled(
        encoder,
        compact,
        acquisition,
        liar,
        informed=True,
        make_cost_surrogate=partial(make_forest, encoder.layout, 100, 1),
        learner=learnt,
        make_pool_surrogate=exact,
        maximizer=maximizer,
        checks=True,
        alone=model_based(encoder, acquisition=acquisition),
    )


def automatic(
    encoder: Encoder,
    past: TaskSet,
    *,
    model: str | Path | EmpiricalBayes | None = None,
    previous: str | Path | EmpiricalBayes | None = None,
    acquisition: str | Acquisition | None = None,
    liar: str | None = None,
    progress: bool | None = None,
    learning_seed: int = 0,
) -> Strategy:
    """`mbo` without useful source tasks, else `eb-gp`, or `eb-net` if there are very many.

    `eb-net` needs PyTorch. Where it is not installed, `eb-gp` learns from the longest `_MANY` past
    tasks, and a warning says so.
    """
    useful = _useful(past)
    many = useful > _MANY
    if many and not installed(_TORCH):
        past, many = _longest(past, useful), False
    if model is not None or useful:
        strategy = empirical_bayes(
            encoder,
            past,
            kind="net" if many else "gp",
            model=model,
            previous=previous,
            acquisition=acquisition or "ei",
            liar=liar or "believer",
            progress=progress,
            learning_seed=learning_seed,
        )
        if strategy.learner is not None:
            return strategy
    return model_based(encoder, acquisition=acquisition or "ei", liar=liar or "min")


def _space_of(encoder: Encoder) -> dict[str, Any]:
    """Return the fingerprint and the number of columns of a space, to check model files with."""
    return {"fingerprint": encoder.fingerprint, "columns": encoder.n_columns}


def _check_either(model: object, past: TaskSet) -> None:
    if model is not None and past.everything:
        raise OptionError("give past studies or a model that has learnt from them, not both")


def _useful(past: TaskSet) -> int:
    """Number of source tasks with different losses."""
    from rankwise.surrogates.empirical_bayes.past_functions import teaches

    return sum(teaches(task) for task in past.everything)


def _longest(past: TaskSet, useful: int) -> TaskSet:
    """The `_MANY` useful source tasks with the most trials; warns that the others are not used."""
    from rankwise.surrogates.empirical_bayes.past_functions import task_digest

    warnings.warn(
        f"of {useful} past studies the {_MANY} with the most trials are used; to learn from all "
        'of them by one network, pip install "rankwise[neural]"',
        RunWarning,
        stacklevel=2,
    )
    ranked = sorted(_teaching(past), key=lambda task: (-len(task), task_digest(task)))
    return TaskSet(tuple(ranked[:_MANY]), fingerprint=past.fingerprint)


def portfolio(
    encoder: Encoder, past: TaskSet, *, length: int = 50, measure: str = "regret"
) -> Strategy:
    """Past configurations that were good together, one after the other."""
    from rankwise.strategies.baselines import MEASURES, PortfolioStrategy, greedy_portfolio

    check_name("measure", measure, MEASURES)
    tasks = past.everything
    rows = greedy_portfolio(tasks, check_count("length", length), measure)
    return PortfolioStrategy(encoder, None, rows)


def warm_start(
    encoder: Encoder,
    past: TaskSet,
    *,
    similar: int = 5,
    points: int = 5,
    then: str = "mbo",
    progress: bool | None = None,
) -> Strategy:
    """The best configurations of similar source tasks, then a method without transfer."""
    from rankwise import methods
    from rankwise.strategies.warm_start import InitStrategy, best_rows

    if methods.get(then).transfer:
        raise OptionError(f"after a warm start comes a method without transfer, not {then!r}")
    counts = {"similar": check_count("similar", similar), "points": check_count("points", points)}
    after = methods.make(then, encoder)
    tasks = [task for task in _teaching(past) if len(best_rows(encoder, task, 1))]
    if not tasks:
        return after
    return InitStrategy.of(encoder, tasks, **counts, then=after, progress=progress)


def warm_evolution(
    encoder: Encoder, past: TaskSet, *, gamma: float = 0.1, alpha: float = 0.1
) -> Strategy:
    """CMA-ES, started at the best configurations of source tasks."""
    from rankwise.strategies.cma_es import CmaStrategy, Gaussian, import_cmaes
    from rankwise.surrogates.empirical_bayes.past_functions import task_digest

    for name, value in (("gamma", gamma), ("alpha", alpha)):
        if not (is_number(value) and 0 < value <= 1):
            raise OptionError(f"{name} must be above 0 and at most 1, not {value!r}")
    import_cmaes()
    tasks = _teaching(past)
    if not tasks:
        return evolution(encoder)
    start = Gaussian.promising(sorted(tasks, key=task_digest), gamma, alpha)
    return CmaStrategy(encoder, None, start, mean_first=True)


def _teaching(past: TaskSet) -> list[Task]:
    """The source tasks with different losses and at least one column."""
    from rankwise.surrogates.empirical_bayes.past_functions import teaches

    return [t for t in past.everything if teaches(t) and t.X.shape[1]]


def witnesses(past: TaskSet) -> Witnesses:
    """Functions of source tasks that predict the order of configurations, for the guard.

    Of many source tasks every k-th is used, so that at most `_MAX_WITNESSES` remain.
    """
    from rankwise._core.threads import one_thread
    from rankwise.strategies.guard.trust import Expectation, Witnesses
    from rankwise.surrogates.empirical_bayes.past_functions import (
        SourcePast,
        sources_of,
        task_digest,
    )

    tasks = sorted(_teaching(past), key=task_digest)  # independent of the given order
    if not tasks:
        return Witnesses()
    with one_thread():
        sources = sources_of(tasks[:: -(-len(tasks) // _MAX_WITNESSES)])
        different = {source.digest: source.thinned(_MAX_ROWS) for source in sources}
        lessons = SourcePast(list(different.values())).lessons(_MAX_HELD_OUT)
        return Witnesses(SourcePast(sources).compact(), Expectation.of(lessons))
