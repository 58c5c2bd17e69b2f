"""The one table from a method's name to its parts.

A new method is a builder function and a row here. The keyword arguments of the builder are the
method's options; a wrong one is answered with the list of the right ones.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise.errors import OptionError, UnknownNameError, check_count, check_name
from rankwise.task import Task, TaskSet, as_task_set

if TYPE_CHECKING:
    from rankwise.acquisition import Acquisition
    from rankwise.proposal import Maximizer
    from rankwise.space import Encoder, Layout
    from rankwise.strategy import Learner, Strategy
    from rankwise.surrogates.base import Surrogate
    from rankwise.surrogates.dre import DeepRankingEnsemble


@dataclass(frozen=True)
class Method:
    """A row of the table.

    Attributes:
        name: what users write.
        summary: the idea in a line.
        transfer: whether it learns from past tasks.
        build: makes the strategy for a space, and past tasks if it learns from them; keyword
            arguments are options.
        surrogate: the name of a class of `rankwise.surrogates` whose keyword arguments are options
            too, all but the seed.
    """

    name: str
    summary: str
    transfer: bool
    build: Callable[..., Strategy]
    surrogate: str = ""

    @property
    def options(self) -> dict[str, Any]:
        """The options and their defaults."""
        own = _keywords(self.build)
        if not self.surrogate:
            return own
        from rankwise import surrogates

        settings = _keywords(getattr(surrogates, self.surrogate))
        fixed = {"seed", *getattr(self.build, "keywords", {})}
        return {**own, **{name: value for name, value in settings.items() if name not in fixed}}


def _keywords(function: Callable[..., Any]) -> dict[str, Any]:
    """The keyword-only arguments of a function and their defaults, if they are not given."""
    given = getattr(function, "keywords", {})
    parameters = inspect.signature(function).parameters.values()
    return {
        p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in given
    }


def available() -> list[str]:
    """The names of all methods."""
    return list(_TABLE)


def get(name: str) -> Method:
    """The row of that name.

    Raises:
        UnknownNameError: there is none; the message lists those there are.
    """
    if name not in _TABLE:
        raise UnknownNameError("method", name, _TABLE)
    return _TABLE[name]


def make(
    name: str, encoder: Encoder, tasks: TaskSet | Sequence[Task] = (), **options: Any
) -> Strategy:
    """The strategy of a method for a space, with options.

    Args:
        name: of the method.
        encoder: of the space.
        tasks: past tasks of the space to learn from, encoded; a plain sequence is split into
            those to learn from and those for validation.
        **options: of the method.

    Raises:
        UnknownNameError: the method or an option does not exist.
        OptionError: the method cannot learn from past tasks, or they are of another space.
    """
    method = get(name)
    for option in options:
        if option not in method.options:
            raise UnknownNameError(f"option of method {name!r}", option, method.options)
    if not method.transfer:
        if len(tasks):
            able = ", ".join(m.name for m in _TABLE.values() if m.transfer)
            raise OptionError(f"method {name!r} cannot learn from past tasks; these can: {able}")
        return method.build(encoder, **options)
    return method.build(encoder, _checked_tasks(encoder, tasks), **options)


def _checked_tasks(encoder: Encoder, tasks: TaskSet | Sequence[Task]) -> TaskSet:
    past = as_task_set(tasks)
    if past.fingerprint not in ("", encoder.fingerprint):
        raise OptionError("the past tasks are of another search space than the study")
    for task in (*past.tasks, *past.validation):
        if task.X.shape[1] != encoder.n_columns:
            raise OptionError(
                f"past task {task.name!r} has {task.X.shape[1]} columns and the space has "
                f"{encoder.n_columns}; encode its configurations with Encoder(space).encode"
            )
    return past if past.validation else past.split()


# ---------------------------------------------------------------------- builders


def _random(encoder: Encoder) -> Strategy:
    from rankwise.strategy import RandomStrategy

    return RandomStrategy(encoder, design=None)


def _grid(encoder: Encoder, *, levels: int | None = None) -> Strategy:
    from rankwise.strategy import GridStrategy

    return GridStrategy(encoder, None, None if levels is None else check_count("levels", levels))


def _gp(
    encoder: Encoder,
    *,
    acquisition: str | Acquisition = "ei",
    transform: str = "standardize",
    noise_floor: float = 1e-6,
    liar: str = "min",
) -> Strategy:
    from rankwise.transforms import TRANSFORMS

    check_name("transform", transform, TRANSFORMS)
    if not (isinstance(noise_floor, float) and noise_floor > 0):
        raise OptionError(f"noise_floor must be a positive number, not {noise_floor!r}")
    surrogate = partial(_make_gp, transform, noise_floor)
    return _model_based(encoder, surrogate, acquisition, liar)


def _forest(
    encoder: Encoder,
    *,
    acquisition: str | Acquisition = "lcb",
    trees: int = 100,
    min_leaf: int = 1,
    liar: str = "min",
) -> Strategy:
    counts = check_count("trees", trees), check_count("min_leaf", min_leaf)
    surrogate = partial(_make_forest, encoder.layout, *counts)
    return _model_based(encoder, surrogate, acquisition, liar)


def _mbo(
    encoder: Encoder, *, acquisition: str | Acquisition | None = None, liar: str = "min"
) -> Strategy:
    if _suits_kriging(encoder):
        return _gp(encoder, acquisition=acquisition or "ei", liar=liar)
    return _forest(encoder, acquisition=acquisition or "lcb", liar=liar)


def _suits_kriging(encoder: Encoder) -> bool:
    """Whether nothing is ever inactive and at least half of the tuned hyperparameters are numbers.

    On such spaces a few one-hot columns do a Gaussian process no harm, and a forest's steps do:
    see docs/benchmarks.md.
    """
    return not encoder.conditional and 2 * encoder.n_numbers >= encoder.n_tuned


def _dre(
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
    from rankwise.surrogates.dre import DeepRankingEnsemble

    _check_either(model, past)
    if model is not None:
        ensemble = DeepRankingEnsemble.load(model, fingerprint=encoder.fingerprint, **settings)
    else:
        ensemble = DeepRankingEnsemble(seed=learning_seed, **settings)
        ensemble.meta_fit(past.tasks, past.validation, checkpoint=checkpoint, progress=progress)
    return _ranked(encoder, ensemble, acquisition, liar)


def _dre_ri(
    encoder: Encoder,
    *,
    acquisition: str | Acquisition = "ei",
    liar: str = "min",
    **settings: Any,
) -> Strategy:
    from rankwise.surrogates.dre import DeepRankingEnsemble

    return _ranked(encoder, DeepRankingEnsemble(**settings), acquisition, liar)


def _eb(
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
    from rankwise.surrogates.eb import EmpiricalBayes

    _check_either(model, past)
    if model is not None:
        learnt = EmpiricalBayes.load(model, fingerprint=encoder.fingerprint, **settings)
    else:
        learnt = EmpiricalBayes(kind=kind, seed=learning_seed, **settings)
        learnt.meta_fit(past.tasks, past.validation, previous=previous, progress=progress)
    if not learnt.meta_learned:
        return _gp(encoder, acquisition=acquisition, liar=liar)
    from rankwise.proposal import FocusSearch, LocalSearch, Maximizer

    # Where there is a gradient, points to climb from are enough.
    climbs = encoder.n_numbers == encoder.n_columns
    focus = FocusSearch(400, 1, 1) if climbs else FocusSearch(200, 4, 1)
    maximizer = Maximizer(focus, LocalSearch(4, 16, 0 if climbs else 6))
    exact = learnt.with_seed
    compact = exact if encoder.points is not None else learnt.compact().with_seed
    return _model_based(
        encoder,
        compact,
        acquisition,
        liar,
        informed=True,
        make_cost_surrogate=partial(_make_forest, encoder.layout, 100, 1),
        learner=learnt,
        make_pool_surrogate=exact,
        maximizer=maximizer,
    )


def _auto(
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
        strategy = _eb(
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
    return _mbo(encoder, acquisition=acquisition, liar=liar or "min")


def _check_either(model: str | Path | None, past: TaskSet) -> None:
    if model is not None and len(past):
        raise OptionError("give past tasks to learn from or a model that has learnt, not both")


def _useful(past: TaskSet) -> int:
    """How many past tasks have an order to learn."""
    from rankwise.surrogates.sources import teaches

    return sum(teaches(task) for task in (*past.tasks, *past.validation))


def _default(encoder: Encoder) -> Strategy:
    from rankwise.baselines import DefaultStrategy

    return DefaultStrategy(encoder, design=None)


def _portfolio(encoder: Encoder, past: TaskSet, *, length: int = 50) -> Strategy:
    from rankwise.baselines import PortfolioStrategy, greedy_portfolio

    rows = greedy_portfolio((*past.tasks, *past.validation), check_count("length", length))
    return PortfolioStrategy(encoder, None, rows)


def _optuna(encoder: Encoder, sampler: str) -> Strategy:
    from rankwise.peers import OptunaStrategy

    return OptunaStrategy(encoder, None, sampler)


def _ranked(
    encoder: Encoder, ensemble: DeepRankingEnsemble, acquisition: str | Acquisition, liar: str
) -> Strategy:
    return _model_based(
        encoder,
        ensemble.with_seed,
        acquisition,
        liar,
        informed=ensemble.meta_learned,
        make_cost_surrogate=partial(_make_forest, encoder.layout, 100, 1),
        learner=ensemble if ensemble.meta_learned else None,
    )


def _model_based(
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
    from rankwise.acquisition import make_acquisition
    from rankwise.design import Design
    from rankwise.proposal import Maximizer
    from rankwise.strategy import ModelStrategy

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


def _make_gp(transform: str, noise_floor: float, seed: int) -> Surrogate:
    from rankwise.surrogates.gp import GaussianProcess

    return GaussianProcess(transform=transform, noise_floor=noise_floor)


def _make_forest(layout: Layout, trees: int, min_leaf: int, seed: int) -> Surrogate:
    from rankwise.surrogates.forest import RandomForest

    return RandomForest(layout, trees=trees, min_leaf=min_leaf, seed=seed)


_MANY = 3000  # past studies, above which one network for all is learnt faster: docs/benchmarks.md
_DRE, _EB = "DeepRankingEnsemble", "EmpiricalBayes"
_TABLE: dict[str, Method] = {
    method.name: method
    for method in (
        Method("auto", "eb-gp, eb-net or mbo, by what is known of the past", True, _auto),
        Method("random", "random search, none twice", False, _random),
        Method("grid", "ever finer grids in random order", False, _grid),
        Method(
            "default", "the space's default configuration, then random search", False, _default
        ),
        Method("gp", "Gaussian process, expected improvement", False, _gp),
        Method("forest", "random forest, lower confidence bound", False, _forest),
        Method(
            "mbo", "Kriging on mostly numeric spaces, a forest on conditional ones", False, _mbo
        ),
        Method("dre", "Deep Ranking Ensemble, meta-learned on past tasks", True, _dre, _DRE),
        Method("dre-ri", "Deep Ranking Ensemble from random weights", False, _dre_ri, _DRE),
        Method(
            "eb-gp",
            "past studies as the prior of a Gaussian process",
            True,
            partial(_eb, kind="gp"),
            _EB,
        ),
        Method(
            "eb-net",
            "the same prior from one network for all past studies",
            True,
            partial(_eb, kind="net"),
            _EB,
        ),
        Method("portfolio", "past configurations good together, in turn", True, _portfolio),
        Method("tpe", "Optuna's TPE sampler", False, partial(_optuna, sampler="tpe")),
        Method("gp-optuna", "Optuna's GP sampler", False, partial(_optuna, sampler="gp")),
    )
}
