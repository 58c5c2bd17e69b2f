"""The one table from a method's name to its parts.

A new method is a row here, and a builder (`builders.py` with a past, `builders_alone.py` without)
or a surrogate for one that is there. The keyword arguments of both are the method's options; a
wrong one is answered with the list of the right ones.
"""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from rankwise import builders, builders_alone
from rankwise.errors import OptionError, UnknownNameError, check_name
from rankwise.task import Task, TaskSet, as_task_set

if TYPE_CHECKING:
    from rankwise.space import Encoder
    from rankwise.strategy import Strategy
    from rankwise.trust import Witnesses


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
        own = _keywords(self.build) | (_GUARD if self.transfer else {})
        if not self.surrogate:
            return own
        from rankwise import surrogates

        settings = _keywords(getattr(surrogates, self.surrogate))
        fixed = {"seed", *getattr(self.build, "keywords", {})}
        return {**own, **{name: value for name, value in settings.items() if name not in fixed}}


_GUARD = {"guard": False}  # an option of all methods that learn from past tasks
_PYTHON = {"True": "true", "False": "false", "None": "null"}  # as JSON has it
_PLACES = ("model", "previous", "checkpoint")  # options that are files


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


def split(text: str) -> tuple[str, dict[str, Any]]:
    """Name and options of a method written like "forest:acquisition=ei,trees=100".

    A dot leads into an option that is a dict: "dre:training.steps=500".
    """
    name, _, rest = text.partition(":")
    options: dict[str, Any] = {}
    for piece in filter(None, rest.split(",")):
        key, equals, value = piece.partition("=")
        if not equals:
            raise OptionError(f"{text!r}: an option is written name=value, not {piece!r}")
        outer, dot, inner = key.partition(".")
        place, key = (options.setdefault(outer, {}), inner) if dot else (options, key)
        try:
            place[key] = json.loads(_PYTHON.get(value, value))  # a number, true, false, null
        except ValueError:
            place[key] = value
    return name, options


def check_options(name: str, options: Iterable[str]) -> None:
    """Raise `UnknownNameError` if the method or one of these options of it does not exist."""
    method = get(name)
    for option in options:
        hint = ""
        if option == "guard" and not method.transfer:
            hint = "A guard is for methods that learn from past tasks."
        check_name(f"option of method {name!r}", option, method.options, hint)


def check_values(name: str, options: Mapping[str, Any]) -> None:
    """Find out whether a method can be made with options, before there is a study to spoil.

    It is made once, for a space of one number and without a past, so nothing is learnt.

    Raises:
        UnknownNameError: the method or an option does not exist.
        OptionError: an option has a value that makes no sense.
    """
    from rankwise.space import Encoder

    check_options(name, options)
    without = {key: value for key, value in options.items() if key not in _PLACES}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make(name, Encoder({"x": (0.0, 1.0)}), **without)


def make(
    name: str, encoder: Encoder, tasks: TaskSet | Sequence[Task] = (), **options: Any
) -> Strategy:
    """The strategy of a method for a space, with options.

    Args:
        name: of the method.
        encoder: of the space.
        tasks: past tasks of the space to learn from, encoded; a plain sequence is split into
            those to learn from and those for validation.
        **options: of the method. `guard` is True, False or, for a model that does not know how
            past tasks agree, the `rankwise.trust.Witnesses` of them.

    Raises:
        UnknownNameError: the method or an option does not exist.
        OptionError: the method cannot learn from past tasks, or they are of another space.
    """
    check_options(name, options)
    method = get(name)
    if not method.transfer:
        if as_task_set(tasks).everything:
            able = ", ".join(m.name for m in _TABLE.values() if m.transfer)
            raise OptionError(f"method {name!r} cannot learn from past tasks; these can: {able}")
        return method.build(encoder, **options)
    guard = options.pop("guard", False)
    if not isinstance(guard, bool):
        from rankwise.trust import Witnesses

        if not isinstance(guard, Witnesses):
            raise OptionError(f"guard is True or False, not {guard!r}")
    past = _checked_tasks(encoder, tasks)
    strategy = method.build(encoder, past, **options)
    if guard and (past.everything or options.get("model") is not None):
        return _guarded(name, strategy, past, guard, options)
    return strategy


def _guarded(
    name: str,
    strategy: Strategy,
    past: TaskSet,
    guard: Literal[True] | Witnesses,
    options: dict[str, Any],
) -> Strategy:
    """A strategy that uses the past only as far as the past foretells the study's evaluations.

    Args:
        name: of its method.
        strategy: with the past.
        past: tasks that it learnt from; none if it is a model that has learnt.
        guard: True, or what past tasks say of a study.
        options: of the method; what the method without the past has too, it takes over.
    """
    from rankwise.guard import GuardedStrategy

    if not strategy.informed:
        return strategy  # the past had nothing to teach
    settled = getattr(get(name).build, "keywords", {})
    default = "mbo" if name in ("auto", "init") else "gp"
    plain = options.get("then") or settled.get("then") or default
    shared = {key: options[key] for key in ("acquisition", "liar") if key in options}
    if shared.get("liar") in (None, "believer"):  # which a method without a past may not know
        shared.pop("liar", None)
    if "acquisition" not in get(plain).options:
        shared.clear()
    witnesses = builders.witnesses(past) if guard is True else guard
    return GuardedStrategy(
        strategy.encoder,
        None,
        strategy,
        make(plain, strategy.encoder, **shared),
        None if strategy.foresees else witnesses.functions,
        witnesses.expectation,
    )


def _checked_tasks(encoder: Encoder, tasks: TaskSet | Sequence[Task]) -> TaskSet:
    past = as_task_set(tasks)
    if past.fingerprint not in ("", encoder.fingerprint):
        raise OptionError("the past tasks are of another search space than the study")
    for task in past.everything:
        if task.X.shape[1] != encoder.n_columns:
            raise OptionError(
                f"past task {task.name!r} has {task.X.shape[1]} columns and the space has "
                f"{encoder.n_columns}; encode its configurations with Encoder(space).encode"
            )
    return past if past.validation else past.split()


_DRE, _EB = "DeepRankingEnsemble", "EmpiricalBayes"
_EB_GP, _EB_NET = (partial(builders.empirical_bayes, kind=kind) for kind in ("gp", "net"))
_TPE, _GP_OPTUNA = (partial(builders_alone.optuna_sampler, sampler=name) for name in ("tpe", "gp"))
_RGPE, _TST, _TAF = "RankingWeightedGPs", "TwoStageTransfer", "TransferAcquisition"
_RGPE_OF, _TST_OF, _TAF_OF = (
    partial(builders.learned, surrogate=kind) for kind in (_RGPE, _TST, _TAF)
)
_ICM, _SCOT = "MultiTaskGP", "JointRankingGP"
_ICM_OF, _SCOT_OF = (partial(builders.learned, surrogate=kind) for kind in (_ICM, _SCOT))
_DEEP, _ABLR, _GCP = "DeepKernelGP", "AdaptiveBLR", "CopulaProcess"
_FSBO_OF, _DKLM_OF = (
    partial(builders.learned, surrogate=_DEEP, deep_set=size) for size in (0, 16)
)
_ABLR_OF, _GCP_OF = (partial(builders.learned, surrogate=kind) for kind in (_ABLR, _GCP))
_DIST, _NET = "DistributionalTransfer", "NetworkRegression"
_DIST_OF = {
    (kind, description): partial(builders.distributional, kind=kind, description=description)
    for kind, description in (
        ("gp", "data"),
        ("gp", "manual"),
        ("gp", "index"),
        ("blr", "data"),
        ("blr", "manual"),
    )
}
_DE, _DROPOUT, _DNGO = "DeepEnsemble", "MonteCarloDropout", "DeepGlobalOptimization"
_BNN, _DKGP, _WARPED = "BayesianNetworks", "LoneDeepKernelGP", "WarpedGP"
_DE_OF, _DROPOUT_OF, _DNGO_OF, _BNN_OF, _DKGP_OF, _NET_OF = (
    partial(builders_alone.alone, surrogate=kind)
    for kind in (_DE, _DROPOUT, _DNGO, _BNN, _DKGP, _NET)
)
_INIT_GP, _INIT_BLR = (
    partial(builders.warm_start, similar=3, points=3, then=then) for then in ("gp", "none-blr")
)
_ROWS: list[tuple[Any, ...]] = [
    ("auto", "eb-gp, eb-net or mbo, by what is known of the past", True, builders.automatic),
    ("random", "random search, none twice", False, builders_alone.random_search),
    ("grid", "ever finer grids in random order", False, builders_alone.grid_search),
    (
        "default",
        "the default configuration, then random ones",
        False,
        builders_alone.default_first,
    ),
    ("gp", "Gaussian process, expected improvement", False, builders_alone.gaussian_process),
    ("forest", "random forest, lower confidence bound", False, builders_alone.random_forest),
    ("mbo", "Kriging on mostly numeric spaces, else a forest", False, builders_alone.model_based),
    ("dre", "Deep Ranking Ensemble taught by past tasks", True, builders.ranking_ensemble, _DRE),
    (
        "dre-ri",
        "the same from random weights",
        False,
        builders_alone.untaught_ranking_ensemble,
        _DRE,
    ),
    ("eb-gp", "past studies as the prior of a Gaussian process", True, _EB_GP, _EB),
    ("eb-net", "that prior from one network for all past studies", True, _EB_NET, _EB),
    ("rgpe", "Gaussian processes of past tasks, by how they rank", True, _RGPE_OF, _RGPE),
    ("tst", "the mean of a Gaussian process and similar past ones", True, _TST_OF, _TST),
    ("taf", "the improvement of it and of similar past ones", True, _TAF_OF, _TAF),
    ("scot", "one ranking of past and new task, as a process", True, _SCOT_OF, _SCOT),
    ("icm", "one Gaussian process of past and new task", True, _ICM_OF, _ICM),
    ("init", "best configurations of similar past tasks, then mbo", True, builders.warm_start),
    ("ws-cma-es", "CMA-ES from the best of past tasks", True, builders.warm_evolution),
    ("cma-es", "CMA-ES from the middle", False, builders_alone.evolution),
    ("fsbo", "Gaussian process with a deep kernel taught by past tasks", True, _FSBO_OF, _DEEP),
    ("dklm", "the same, told what the evaluations look like", True, _DKLM_OF, _DEEP),
    ("ablr", "linear regressions on features taught by past tasks", True, _ABLR_OF, _ABLR),
    ("gcp", "normal scores, a network of past tasks, a process on top", True, _GCP_OF, _GCP),
    ("dist-gp", "one process of all tasks, told their data", True, _DIST_OF["gp", "data"], _DIST),
    ("dist-blr", "one regression, told their data", True, _DIST_OF["blr", "data"], _DIST),
    ("dre-data", "dre that is told their data", True, builders.described_ranking, _DRE),
    ("manual-gp", "dist-gp by hand-made numbers", True, _DIST_OF["gp", "manual"], _DIST),
    ("manual-blr", "dist-blr by hand-made numbers", True, _DIST_OF["blr", "manual"], _DIST),
    ("multi-gp", "dist-gp by the tasks' evaluations alone", True, _DIST_OF["gp", "index"], _DIST),
    ("multi-blr", "ablr, by the name it has in distBO", True, _ABLR_OF, _ABLR),
    ("init-gp", "the best of three similar tasks, then gp", True, _INIT_GP),
    ("init-blr", "the best of three similar tasks, then none-blr", True, _INIT_BLR),
    ("none-gp", "gp, by the name it has in distBO", False, builders_alone.gaussian_process),
    ("none-blr", "regression on a network, no past", False, _NET_OF, _NET),
    ("deep-ensemble", "networks that say mean and variance", False, _DE_OF, _DE),
    ("mc-dropout", "one network, units dropped at random", False, _DROPOUT_OF, _DROPOUT),
    ("dngo", "linear regression on a trained network", False, _DNGO_OF, _DNGO),
    ("bohamiann", "networks drawn by Hamiltonian Monte Carlo", False, _BNN_OF, _BNN),
    ("dkgp", "Gaussian process with a deep kernel, no past", False, _DKGP_OF, _DKGP),
    ("hebo", "warped Gaussian process, three acquisitions", False, builders_alone.hebo, _WARPED),
    ("portfolio", "past configurations good together, in turn", True, builders.portfolio),
    ("tpe", "Optuna's TPE sampler", False, _TPE),
    ("gp-optuna", "Optuna's GP sampler", False, _GP_OPTUNA),
]
_TABLE = {row[0]: Method(*row) for row in _ROWS}
