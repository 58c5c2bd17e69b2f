"""Spaces that people write down: dicts of distributions, lists and ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ConfigSpace import ConfigurationSpace
from ConfigSpace.hyperparameters import Hyperparameter

from rankwise.errors import SpaceError, is_number
from rankwise.learners.estimator_space import Decoder, EstimatorSpace, one_of
from rankwise.learners.labels import labelled
from rankwise.learners.names import check_estimator, check_names
from rankwise.learners.scipy_distributions import from_distribution, is_distribution
from rankwise.learners.table import space_of
from rankwise.shorthand import make_space
from rankwise.types import Configuration

CHOOSER = "option"
"""The hyperparameter that says which dict of a list it is."""


@dataclass(frozen=True)
class _Entry:
    """One parameter of a dict.

    Attributes:
        spec: what `make_space` takes.
        default: a default, if not that of `make_space`.
        read: from a value of the hyperparameter to one of the parameter, if they differ.
        values: the choices, if there is a list of them.
    """

    spec: Any
    default: Any = None
    read: Callable[[Any], Any] | None = None
    values: Sequence[Any] = ()


@dataclass(frozen=True)
class _Reading:
    """Decodes a configuration one value at a time."""

    readers: Mapping[str, Callable[[Any], Any]]

    def __call__(self, configuration: Configuration) -> dict[str, Any]:
        readers = self.readers
        return {k: readers[k](v) if k in readers else v for k, v in configuration.items()}


@dataclass(frozen=True)
class _Option:
    """Decodes what belongs to the chosen dict, and what all dicts have in common."""

    options: Mapping[str, Decoder]

    def __call__(self, configuration: Configuration) -> dict[str, Any]:
        option = configuration[CHOOSER]
        # Those of other dicts are inactive and absent.
        names = {k.removeprefix(f"{option}:"): k for k in configuration if k != CHOOSER}
        return self.options[option]({name: configuration[k] for name, k in names.items()})


def space_from(estimator: Any, space: Any) -> EstimatorSpace:
    """The space of an estimator in any of the forms that people write.

    Args:
        estimator: whose parameters the names are, "step__parameter" in a pipeline.
        space: one of these:

            - None: the ready-made one, see `space_of`;
            - a ConfigSpace space, made by `rankwise.make_space` for example;
            - a dict of distributions (`scipy.stats`), lists and arrays of any objects, or
              ranges and constants as `make_space` takes them. A tuple is a range. Three or
              more numbers in a list are ordered;
            - a list of such dicts, one of which is chosen;
            - an `EstimatorSpace`, as it is.

    Raises:
        SpaceError: the estimator has no such parameter, or something is no range.

    Example:
        >>> from scipy import stats
        >>> from sklearn.svm import SVC
        >>> found = space_from(SVC(), {"C": stats.loguniform(1e-3, 1e3), "gamma": ["scale"]})
        >>> found.params({"C": 2.0, "gamma": "scale"})
        {'C': 2.0, 'gamma': 'scale'}
    """
    if isinstance(space, EstimatorSpace):
        return space
    if space is None:
        return space_of(estimator)
    check_estimator(estimator)
    if isinstance(space, ConfigurationSpace):
        check_names(estimator, space)
        return EstimatorSpace(space, "")
    dicts = [space] if isinstance(space, Mapping) else space
    if not isinstance(dicts, list | tuple) or not all(isinstance(d, Mapping) for d in dicts):
        raise SpaceError(
            "a space is None, a ConfigurationSpace, a dict of distributions, lists and ranges, "
            f"or a list of such dicts, not {space!r}"
        )
    read = [_entries(estimator, given) for given in dicts]
    if not any(read):
        raise SpaceError("the space is empty; name at least one parameter")
    if len(read) == 1:
        return EstimatorSpace(_space(read[0]), "", _reading(read[0]))
    return _one_of_dicts(read)


def _one_of_dicts(dicts: Sequence[Mapping[str, _Entry]]) -> EstimatorSpace:
    spaces = [_space(entries) for entries in dicts]
    # What is the same in all of them is one hyperparameter: its effect is learnt once.
    common = [
        hp
        for name, hp in spaces[0].items()
        if name != CHOOSER and all(name in s and s[name] == hp for s in spaces)
    ]
    names = {hp.name for hp in common}
    options = {}
    for number, entries in enumerate(dicts, start=1):
        own = {name: entry for name, entry in entries.items() if name not in names}
        options[str(number)] = _space(own)
    space = one_of(CHOOSER, options)
    space.add(common)
    decoders = {o: _reading(entries) for o, entries in zip(options, dicts, strict=True)}
    return EstimatorSpace(space, "", _Option(decoders))


def _space(entries: Mapping[str, _Entry]) -> ConfigurationSpace:
    return make_space(
        {name: entry.spec for name, entry in entries.items()},
        defaults={n: entry.default for n, entry in entries.items() if entry.default is not None},
    )


def _reading(entries: Mapping[str, _Entry]) -> Decoder:
    return _Reading({n: entry.read for n, entry in entries.items() if entry.read is not None})


def _entries(estimator: Any, given: Mapping[str, Any]) -> dict[str, _Entry]:
    entries = {name: _entry(name, spec) for name, spec in given.items()}
    replaced = {
        name: entry.values
        for name, entry in entries.items()
        if any(hasattr(value, "get_params") for value in entry.values)
    }
    check_names(estimator, entries, replaced)
    return entries


def _entry(name: str, spec: Any) -> _Entry:
    if isinstance(spec, Hyperparameter):
        return _Entry(spec)
    if is_distribution(spec):
        hyperparameter, quantile = from_distribution(name, spec)
        return _Entry(hyperparameter, read=quantile)
    if isinstance(spec, tuple):
        if spec and isinstance(spec[0], list):
            labels, values, read = labelled(spec[0])
            return _Entry((labels, *spec[1:]), read=read, values=values)
        return _Entry(spec)
    if isinstance(spec, set | frozenset | Mapping):
        raise SpaceError(f"{name!r}: write the choices as a list, not as {spec!r}")
    # Some estimators can be iterated over; they are one value for all that.
    one = isinstance(spec, str | bytes) or hasattr(spec, "get_params")
    return _choices([spec] if one or not isinstance(spec, Iterable) else list(spec))


def _choices(choices: list[Any]) -> _Entry:
    labels, values, read = labelled(choices)
    if len(labels) < 3 or not all(map(is_number, labels)):
        return _Entry(labels, read=read, values=values)
    labels.sort()
    low, high = labels[0], labels[-1]
    if all(isinstance(x, int) for x in labels) and high - low == len(labels) - 1:
        return _Entry((low, high))
    return _Entry((labels, "ordered"), default=labels[len(labels) // 2])
