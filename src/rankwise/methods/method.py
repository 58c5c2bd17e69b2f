"""`Method`: one entry of the registry of methods."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rankwise._core.extras import PACKAGES, installed, require

if TYPE_CHECKING:
    from rankwise.strategies.base import Strategy

FAMILIES = (
    "automatic",
    "baseline",
    "single-study",
    "empirical-bayes",
    "ranking",
    "source-ensemble",
    "joint-task",
    "shared-features",
    "warm-start",
    "data-sets",
    "evolution",
    "optuna",
    "added",  # by users and other packages
)
"""Values of `Method.family`."""

SPACES = ("numeric", "mixed", "conditional")
"""Kinds of search spaces, for `Method.weak_on`."""

_GUARD = {"guard": False}  # an option of every method that learns from source tasks


@dataclass(frozen=True, kw_only=True)
class Method:
    """A named, ready-made optimizer.

    Attributes:
        name: name that users write.
        summary: one line for `rankwise methods`.
        idea: one or two sentences for the table in the documentation.
        family: group of similar methods, one of `FAMILIES`.
        build: function that makes the strategy from an encoder, source tasks if `transfer` is
            True, and keyword arguments. Its keyword-only arguments are options of the method.
        transfer: True if the method learns from source tasks.
        surrogate: class, or "module:name" below `rankwise.surrogates`; "" if there is none. Its
            keyword arguments, except the seed, are options too. If `build` has an argument
            `surrogate`, it receives this class or text.
        fixed: keyword arguments of `build` that users cannot change.
        paper: authors and year of the publication; "" if there is none.
        fallback: method without transfer that the guard falls back to, if `transfer` is True.
        weak_on: kinds of search spaces, from `SPACES`, on which the method works less efficiently.
        use_when: when to use a recommended method; "" for all others.
        same_as: name of the method of which this one is an alias; "" if it is none.
        needs: extra of this package that the method needs, one of `_core.extras.PACKAGES`; "" if
            the plain installation is enough.
    """

    name: str
    summary: str
    idea: str
    family: str
    build: Callable[..., Strategy]
    transfer: bool = False
    surrogate: str | type[Any] = ""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    paper: str = ""
    fallback: str = "gp"
    weak_on: tuple[str, ...] = ()
    use_when: str = ""
    same_as: str = ""
    needs: str = ""

    def alias(self, name: str, origin: str) -> Method:
        """The same method under the name that it has in a publication.

        Args:
            name: the other name.
            origin: the publication, such as "the distBO paper".
        """
        text = f"under the name that it has in {origin}"
        return replace(
            self,
            name=name,
            summary=f"{self.name} {text}",
            idea=f"`{self.name}` {text}",
            same_as=self.name,
            use_when="",
        )

    def make(self, *parts: Any, **options: Any) -> Strategy:
        """The strategy of this method.

        Args:
            *parts: the encoder, and a `TaskSet` of source tasks if `transfer` is True.
            **options: options of the method.
        """
        return self.build(*parts, **self._fixed, **options)

    @property
    def installed(self) -> bool:
        """True if the packages that the method needs are installed."""
        return not self.needs or installed(PACKAGES[self.needs])

    def check_installed(self) -> None:
        """Raise `MissingPackageError` if a package that the method needs is not installed."""
        if self.needs:
            require(f"method {self.name!r}", self.needs)

    @property
    def options(self) -> dict[str, Any]:
        """Default value of each option, by name.

        Raises:
            MissingPackageError: a package that the method needs is not installed.
        """
        self.check_installed()
        own = _keywords(self.build) | (_GUARD if self.transfer else {})
        settings = _keywords(load_surrogate(self.surrogate)) if self.surrogate else {}
        fixed = {"seed", *self._fixed}
        return {name: value for name, value in {**own, **settings}.items() if name not in fixed}

    @property
    def _fixed(self) -> dict[str, Any]:
        takes_surrogate = "surrogate" in inspect.signature(self.build).parameters
        return {**self.fixed, **({"surrogate": self.surrogate} if takes_surrogate else {})}


def load_surrogate(path: str | type[Any]) -> Any:
    """The class that `Method.surrogate` is or names."""
    if not isinstance(path, str):
        return path
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(f"rankwise.surrogates.{module}"), name)


def _keywords(function: Callable[..., Any]) -> dict[str, Any]:
    """Default value of each keyword-only argument, by name."""
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
