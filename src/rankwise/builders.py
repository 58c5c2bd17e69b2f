"""Builders of methods with a past: from a space, past tasks and options to a strategy.

The keyword arguments of a builder are the options of its methods (`methods.py`).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise.builders_alone import (
    assembled,
    evolution,
    gaussian_process,
    make_forest,
    model_based,
    ranked,
    untaught_ranking_ensemble,
)
from rankwise.errors import OptionError, check_count, check_name, is_number
from rankwise.task import Task, TaskSet

if TYPE_CHECKING:
    from rankwise.acquisition import Acquisition
    from rankwise.space import Encoder
    from rankwise.strategy import Strategy
    from rankwise.trust import Witnesses

_WITNESSES = 100  # past tasks that are asked at most how configurations compare
_LESSONS, _ROWS = 50, 200  # of which so many are put in order by the others, and rows of each
_MANY = 3000  # past studies, above which one network for all is learnt faster: docs/benchmarks.md


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
    """Deep Ranking Ensembles, taught by past tasks or from a file."""
    from rankwise.surrogates.dre import DeepRankingEnsemble

    _check_either(model, past)
    if model is not None:
        ensemble = DeepRankingEnsemble.load(model, fingerprint=encoder.fingerprint, **settings)
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
    """Deep Ranking Ensembles that are told what the data are like."""
    from rankwise.surrogates.described import DescribedRankingEnsemble

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
    surrogate: str,
    model: str | Path | None = None,
    acquisition: str | Acquisition = "ei",
    liar: str = "min",
    progress: bool | None = None,
    learning_seed: int = 0,
    **settings: Any,
) -> Strategy:
    """A surrogate that learns past tasks; a Gaussian process if they teach nothing.

    Args:
        encoder: of the space.
        past: tasks.
        surrogate: the name of a `TransferSurrogate` in `rankwise.surrogates`.
        model: a file of what was learnt, instead of past tasks.
        acquisition: its name.
        liar: what the model is told about pending configurations.
        progress: show a bar while learning.
        learning_seed: of what is drawn then.
        **settings: of the surrogate.
    """
    from rankwise import surrogates

    kind = getattr(surrogates, surrogate)
    _check_either(model, past)
    if settings.get("warm_start") and acquisition != "ei":
        raise OptionError(
            "warm_start puts expected improvement aside at first: it needs acquisition='ei', not "
            f"{acquisition!r}"
        )
    if model is not None:
        learnt = kind.load(model, fingerprint=encoder.fingerprint, **settings)
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
    kind: str,
    description: str,
    model: str | Path | None = None,
    acquisition: str | Acquisition = "ei",
    liar: str = "believer",
    progress: bool | None = None,
    learning_seed: int = 0,
    **settings: Any,
) -> Strategy:
    """One model of all tasks, told what their data are like (distBO).

    A regression begins with one of the past's best configurations: elsewhere it does not know what
    it says.
    """
    strategy = learned(
        encoder,
        past,
        surrogate="DistributionalTransfer",
        model=model,
        acquisition=acquisition,
        liar=liar,
        progress=progress,
        learning_seed=learning_seed,
        kind=kind,
        description=description,
        **settings,
    )
    learnt = getattr(strategy, "learner", None)
    if learnt is None:
        return strategy
    from dataclasses import replace

    from rankwise.baselines import legal_rows
    from rankwise.model_strategy import ModelStrategy

    assert isinstance(strategy, ModelStrategy)
    return (
        replace(strategy, openings=legal_rows(encoder, learnt.best)) if kind == "blr" else strategy
    )


def empirical_bayes(
    encoder: Encoder,
    past: TaskSet,
    *,
    kind: str,
    model: str | Path | None = None,
    previous: str | Path | None = None,
    acquisition: str | Acquisition = "ei",
    liar: str = "believer",
    progress: bool | None = None,
    learning_seed: int = 0,
    **settings: Any,
) -> Strategy:
    """A Gaussian process whose prior are past tasks; an ordinary one without them."""
    from rankwise.surrogates.eb import EmpiricalBayes

    _check_either(model, past)
    if model is not None:
        learnt = EmpiricalBayes.load(model, fingerprint=encoder.fingerprint, **settings)
    else:
        learnt = EmpiricalBayes(kind=kind, seed=learning_seed, **settings)
        learnt.meta_fit(past.tasks, past.validation, previous=previous, progress=progress)
    if not learnt.meta_learned:
        return gaussian_process(encoder, acquisition=acquisition, liar=liar)
    from rankwise.proposal import Maximizer
    from rankwise.searches import FocusSearch, LocalSearch

    # Where there is a gradient, points to climb from are enough.
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
    )


def automatic(
    encoder: Encoder,
    past: TaskSet,
    *,
    model: str | Path | None = None,
    previous: str | Path | None = None,
    acquisition: str | Acquisition | None = None,
    liar: str | None = None,
    progress: bool | None = None,
    learning_seed: int = 0,
) -> Strategy:
    """By what is known: `mbo` without a useful past, else `eb-gp`, or `eb-net` for a large one."""
    useful = _useful(past)
    if model is not None or useful:
        strategy = empirical_bayes(
            encoder,
            past,
            kind="net" if useful > _MANY else "gp",
            model=model,
            previous=previous,
            acquisition=acquisition or "ei",
            liar=liar or "believer",
            progress=progress,
            learning_seed=learning_seed,
        )
        if getattr(strategy, "learner", None) is not None:
            return strategy
    return model_based(encoder, acquisition=acquisition, liar=liar or "min")


def _check_either(model: str | Path | None, past: TaskSet) -> None:
    if model is not None and past.everything:
        raise OptionError("give past tasks to learn from or a model that has learnt, not both")


def _useful(past: TaskSet) -> int:
    """How many past tasks have an order to learn."""
    from rankwise.surrogates.sources import teaches

    return sum(teaches(task) for task in past.everything)


def portfolio(
    encoder: Encoder, past: TaskSet, *, length: int = 50, measure: str = "regret"
) -> Strategy:
    """Past configurations that are good together, in turn."""
    from rankwise.baselines import MEASURES, PortfolioStrategy, greedy_portfolio

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
    """The best configurations of similar past tasks, then a method without transfer."""
    from rankwise import methods
    from rankwise.warmstart import InitStrategy, best_rows

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
    """CMA-ES from where past tasks had their best configurations."""
    from rankwise.cma import CmaStrategy, Gaussian, import_cmaes
    from rankwise.surrogates.sources import task_digest

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
    """The past tasks that have an order to learn, and columns."""
    from rankwise.surrogates.sources import teaches

    return [t for t in past.everything if teaches(t) and t.X.shape[1]]


def witnesses(past: TaskSet) -> Witnesses:
    """What the past tasks that have an order say of a study, or some of them if there are many."""
    from rankwise.surrogates.sources import SourcePast, sources_of, task_digest
    from rankwise.surrogates.threads import one_thread
    from rankwise.trust import Expectation, Witnesses

    tasks = sorted(_teaching(past), key=task_digest)  # in whatever order they are given
    if not tasks:
        return Witnesses()
    with one_thread():
        sources = sources_of(tasks[:: -(-len(tasks) // _WITNESSES)])
        different = {source.digest: source.thinned(_ROWS) for source in sources}
        lessons = SourcePast(list(different.values())).lessons(_LESSONS)
        return Witnesses(SourcePast(sources).compact(), Expectation.of(lessons))
