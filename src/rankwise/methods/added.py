"""Methods of users and of other packages.

`register` adds a method to this process. A package adds methods with an entry point of the group
"rankwise.methods": a module that calls `register`, or a `Method`.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from rankwise._core.plugins import plugins
from rankwise.errors import OptionError
from rankwise.methods.build_single import alone, assembled, gaussian_process
from rankwise.methods.build_transfer import learned
from rankwise.methods.method import Method
from rankwise.methods.rows import METHODS

if TYPE_CHECKING:
    from rankwise.acquisition.functions import Acquisition
    from rankwise.history.task import TaskSet
    from rankwise.space.encoder import Encoder
    from rankwise.strategies.base import Strategy
    from rankwise.surrogates.base import Surrogate

GROUP = "rankwise.methods"
"""Group of the entry points of methods."""

_OWN = frozenset(method.name for method in METHODS)
_ADDED: dict[str, Method] = {}

T = TypeVar("T", bound=Callable[..., Any])


def register(
    name: str,
    *,
    summary: str = "",
    transfer: bool | None = None,
    paper: str = "",
    fallback: str = "gp",
    weak_on: tuple[str, ...] = (),
) -> Callable[[T], T]:
    """Make a surrogate class, or a function that builds a strategy, a method of that name.

    The method is then in `rankwise.methods.available()`, and `minimize`, the sampler, the search
    and the benchmark accept it. Registering a name again replaces the method.

    A class is a `rankwise.surrogates.base.Surrogate` whose constructor takes keyword-only
    arguments, one of which is `seed`; the others are options of the method. A class with its own
    `meta_fit` learns from past studies. A function takes an encoder, source tasks if `transfer` is
    True, and keyword-only options; it returns a `rankwise.strategies.base.Strategy`.

    Args:
        name: name that users write.
        summary: one line for `rankwise methods`; by default the first line of the docstring.
        transfer: True if the method learns from source tasks; by default what the class says.
        paper: authors and year of the publication.
        fallback: method without transfer that the guard falls back to.
        weak_on: kinds of search spaces on which the method works less efficiently.

    Raises:
        OptionError: the name is a method of this package, or the class cannot be used.

    Examples:
        >>> from rankwise.surrogates import GaussianProcess
        >>> import rankwise
        >>> @rankwise.methods.register("my-gp", summary="a process of my own")
        ... class MyProcess(GaussianProcess):
        ...     def __init__(self, *, seed=0, noise_floor=1e-4):
        ...         super().__init__(noise_floor=noise_floor)
        >>> result = rankwise.minimize(
        ...     lambda c: c["x"] ** 2, {"x": (-1.0, 1.0)}, trials=4, method="my-gp"
        ... )
    """
    if name in _OWN or not name or set(name) & set(":,= "):
        raise OptionError(
            f"{name!r} cannot be the name of a new method: it is taken, empty, or has one of "
            "':', ',', '=' and a blank"
        )

    def add(thing: T) -> T:
        line = summary or (inspect.getdoc(thing) or "").partition("\n")[0]
        common: dict[str, Any] = {
            "name": name,
            "summary": line,
            "idea": line,
            "family": "added",
            "paper": paper,
            "fallback": fallback,
            "weak_on": weak_on,
        }
        if inspect.isclass(thing):
            learns, build = _builder(thing)
            learns = learns if transfer is None else transfer
            _ADDED[name] = Method(build=build, surrogate=thing, transfer=learns, **common)
        else:
            _ADDED[name] = Method(build=thing, transfer=bool(transfer), **common)
        return thing

    return add


def added() -> dict[str, Method]:
    """The methods that were added, by name: those of entry points and those of this process."""
    for thing in plugins(GROUP).values():
        if isinstance(thing, Method) and thing.name not in _OWN:
            _ADDED.setdefault(thing.name, thing)
    return _ADDED


def adopt(methods: Mapping[str, Method]) -> None:
    """Add the methods of another process."""
    _ADDED.update(methods)


def _builder(surrogate: type[Any]) -> tuple[bool, Callable[..., Strategy]]:
    """True if a surrogate learns from source tasks, and the function that makes its strategy."""
    from rankwise.surrogates.base import Surrogate
    from rankwise.surrogates.transfer_base import TransferSurrogate

    if not issubclass(surrogate, Surrogate):
        raise OptionError(
            f"{surrogate.__name__} is not a rankwise.surrogates.base.Surrogate; register a "
            "function that returns a Strategy instead"
        )
    if "seed" not in inspect.signature(surrogate).parameters:
        raise OptionError(f"{surrogate.__name__}(...) needs a keyword argument seed")
    if issubclass(surrogate, TransferSurrogate):
        return True, learned
    learns = surrogate.meta_fit is not Surrogate.meta_fit
    return learns, (taught if learns else alone)


def taught(
    encoder: Encoder,
    past: TaskSet,
    *,
    surrogate: Any,
    acquisition: str | Acquisition = "ei",
    liar: str = "min",
    learning_seed: int = 0,
    **settings: Any,
) -> Strategy:
    """A surrogate with its own `meta_fit`; a Gaussian process without source tasks.

    It learns once. Each proposal is made by a copy.
    """
    learnt = surrogate(seed=learning_seed, **settings)
    if not past.everything:
        return gaussian_process(encoder, acquisition=acquisition, liar=liar)
    learnt.meta_fit(past.tasks, past.validation)
    return assembled(encoder, partial(_copy, learnt), acquisition, liar, informed=True)


def _copy(learnt: Surrogate, seed: int) -> Surrogate:
    made = copy.deepcopy(learnt)
    if hasattr(made, "seed"):
        made.seed = seed
    return made
