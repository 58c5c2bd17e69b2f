"""Spaces that users write: dicts of distributions, lists and ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ConfigSpace import ConfigurationSpace
from ConfigSpace.hyperparameters import Hyperparameter

from rankwise.errors import SpaceError, is_number
from rankwise.estimators.estimator_space import Decoder, EstimatorSpace, one_of
from rankwise.estimators.object_choices import labelled
from rankwise.estimators.parameter_names import check_estimator, check_names
from rankwise.estimators.ready_spaces import space_of
from rankwise.estimators.scipy_distributions import from_distribution, is_distribution
from rankwise.space.shorthand import make_space
from rankwise.types import Configuration

CHOOSER = "option"
"""The hyperparameter that chooses one dict of a list of dicts."""


@dataclass(frozen=True)
class _Entry:
    """One parameter of a dict.

    Attributes:
        spec: range or choices in the form of `make_space`.
        default: default value; None for the default of `make_space`.
        read: maps a hyperparameter's value to the estimator's parameter; None if they are equal.
        values: the choices, if the parameter is a list.
    """

    spec: Any
    default: Any = None
    read: Callable[[Any], Any] | None = None
    values: Sequence[Any] = ()


@dataclass(frozen=True)
class _Reading:
    """Decodes each value of a configuration with the function of its hyperparameter."""

    readers: Mapping[str, Callable[[Any], Any]]

    def __call__(self, configuration: Configuration) -> dict[str, Any]:
        readers = self.readers
        return {k: readers[k](v) if k in readers else v for k, v in configuration.items()}


@dataclass(frozen=True)
class _Option:
    """Decodes the hyperparameters of the chosen dict and those that all dicts share."""

    options: Mapping[str, Decoder]

    def __call__(self, configuration: Configuration) -> dict[str, Any]:
        option = configuration[CHOOSER]
        # Hyperparameters of the other dicts are inactive, so they are not in the configuration.
        names = {k.removeprefix(f"{option}:"): k for k in configuration if k != CHOOSER}
        return self.options[option]({name: configuration[k] for name, k in names.items()})


def space_from(estimator: Any, space: Any) -> EstimatorSpace:
    """The search space of an estimator, from any form that users may write.

    Args:
        estimator: the estimator to tune. Names of hyperparameters are names of its parameters
            ("step__parameter" in a pipeline).
        space: one of these:

            - None: the ready-made space, see `space_of`;
            - a ConfigSpace space, for example from `rankwise.make_space`;
            - a dict of distributions (`scipy.stats`), lists and arrays of any objects, or
              ranges and constants as in `make_space`. A tuple is a range. Three or more
              numbers in a list are ordered;
            - a list of such dicts; the search chooses one of them;
            - an `EstimatorSpace`, which is returned unchanged.

    Raises:
        SpaceError: the estimator lacks a parameter, or a range or list is invalid.

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
    # A hyperparameter that is equal in all dicts is shared, so that its effect is learnt once.
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
    # Some estimators are iterable, but an estimator is a single value.
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
