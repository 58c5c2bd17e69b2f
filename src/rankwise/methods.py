"""The one table from a method's name to its parts.

A new method is a builder function and a row here. The keyword arguments of the builder are the
method's options; a wrong one is answered with the list of the right ones.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from rankwise.errors import OptionError, UnknownNameError, check_count, check_name

if TYPE_CHECKING:
    from rankwise.acquisition import Acquisition
    from rankwise.space import Encoder, Layout
    from rankwise.strategy import Strategy
    from rankwise.surrogates.base import Surrogate


@dataclass(frozen=True)
class Method:
    """A row of the table.

    Attributes:
        name: what users write.
        summary: the idea in a line.
        transfer: whether it learns from past tasks.
        build: makes the strategy for a space; keyword arguments are options.
    """

    name: str
    summary: str
    transfer: bool
    build: Callable[..., Strategy]

    @property
    def options(self) -> dict[str, Any]:
        """The options and their defaults."""
        parameters = inspect.signature(self.build).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


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


def make(name: str, encoder: Encoder, **options: Any) -> Strategy:
    """The strategy of a method for a space, with options.

    Raises:
        UnknownNameError: the method or an option does not exist.
    """
    method = get(name)
    for option in options:
        if option not in method.options:
            raise UnknownNameError(f"option of method {name!r}", option, method.options)
    return method.build(encoder, **options)


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


def _model_based(
    encoder: Encoder,
    make_surrogate: Callable[[int], Surrogate],
    acquisition: str | Acquisition,
    liar: str,
) -> Strategy:
    from rankwise.acquisition import make_acquisition
    from rankwise.design import Design
    from rankwise.strategy import ModelStrategy

    design = Design("lhs", "2d")  # 4d leaves too little of a budget of 60: docs/benchmarks.md
    return ModelStrategy(encoder, design, make_surrogate, make_acquisition(acquisition), liar=liar)


def _make_gp(transform: str, noise_floor: float, seed: int) -> Surrogate:
    from rankwise.surrogates.gp import GaussianProcess

    return GaussianProcess(transform=transform, noise_floor=noise_floor)


def _make_forest(layout: Layout, trees: int, min_leaf: int, seed: int) -> Surrogate:
    from rankwise.surrogates.forest import RandomForest

    return RandomForest(layout, trees=trees, min_leaf=min_leaf, seed=seed)


_TABLE: dict[str, Method] = {
    method.name: method
    for method in (
        Method("random", "random search, none twice", False, _random),
        Method("grid", "ever finer grids in random order", False, _grid),
        Method("gp", "Gaussian process, expected improvement", False, _gp),
        Method("forest", "random forest, lower confidence bound", False, _forest),
        Method(
            "mbo", "Kriging on mostly numeric spaces, a forest on conditional ones", False, _mbo
        ),
    )
}
