"""Encoder: configurations of a space as rows of a matrix in the unit cube, and back.

A configuration has three forms, and the encoder converts between them:

    configuration (dict) <--> codes (n, p) <--> X (n, d)

*Configurations* are what users see. *Codes* hold one number per hyperparameter, NaN if it is
inactive; conditions and forbidden clauses are evaluated on codes. *X* is what models see: numbers
scaled to [0, 1] (on a log scale if the space defines one), categories one-hot, ordinals in one
column, constants in none, plus one activity column (0 or 1) for each hyperparameter that may be
inactive. The value columns of an inactive hyperparameter are 0.5 (numbers, ordinals) or all zeros
(categories).
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise.errors import ConfigurationError, SpaceError
from rankwise.space.conditions import Rule, compile_rule
from rankwise.space.parameters import Parameter, make_parameter, stable_name
from rankwise.types import Array, Configuration, Mask

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

ENUMERATION_LIMIT = 10_000
"""Spaces with at most this many configurations are enumerated and searched exhaustively."""

_MOST_DRAWS = 200_000  # after this many forbidden random draws a space counts as empty


@dataclass(frozen=True)
class Layout:
    """Meaning of the columns of an encoded matrix, for surrogates that need it.

    Attributes:
        n_columns: d, the number of columns.
        values: the value columns of each hyperparameter, in order.
        activity: for each hyperparameter its activity column, or None if it is always active.
    """

    n_columns: int
    values: tuple[slice, ...]
    activity: tuple[int | None, ...]


class Encoder:
    """Converts configurations of a space to points of the unit cube and back, exactly.

    Args:
        space: a ConfigSpace space, or the dict shorthand of `rankwise.make_space`.
        extra_forbidden: forbidden clauses in addition to those of the space.

    Raises:
        SpaceError: the space is empty, or its forbidden clauses exclude every configuration.
    """

    def __init__(
        self,
        space: ConfigurationSpace | Mapping[str, Any],
        *,
        extra_forbidden: Sequence[Any] = (),
    ) -> None:
        from ConfigSpace import ConfigurationSpace

        from rankwise.space.shorthand import make_space

        self.space = space if isinstance(space, ConfigurationSpace) else make_space(space)
        # ConfigSpace keeps hyperparameters sorted so that parents come before children.
        self.names: tuple[str, ...] = tuple(self.space.keys())
        if not self.names:
            raise SpaceError("the space has no hyperparameters; add at least one")
        self.parameters: tuple[Parameter, ...] = tuple(
            make_parameter(hp) for hp in self.space.values()
        )
        self._index = {name: j for j, name in enumerate(self.names)}
        self._conditions: dict[int, Rule] = {}
        for clause in self.space.conditions:
            child = getattr(clause, "child", None) or clause.get_children()[0]  # type: ignore[union-attr]
            self._conditions[self._index[child.name]] = self._compile(clause)
        clauses = [*self.space.forbidden_clauses, *extra_forbidden]
        self._forbidden = tuple(self._compile(clause) for clause in clauses)
        self.layout = self._make_layout()
        self._grids: dict[int, Array] = {}
        self.default: Configuration = self._find_default()

    # ------------------------------------------------------------------ facts

    @property
    def n_columns(self) -> int:
        """d, the number of columns of an encoded matrix."""
        return self.layout.n_columns

    @property
    def columns(self) -> dict[str, slice]:
        """The value columns of each hyperparameter."""
        return dict(zip(self.names, self.layout.values, strict=True))

    @property
    def activity(self) -> dict[str, int]:
        """The activity column of each hyperparameter that may be inactive."""
        pairs = zip(self.names, self.layout.activity, strict=True)
        return {name: column for name, column in pairs if column is not None}

    @property
    def n_tuned(self) -> int:
        """The number of hyperparameters with more than one value."""
        return sum(parameter.size > 1 for parameter in self.parameters)

    @property
    def n_numbers(self) -> int:
        """The number of tuned hyperparameters that are numbers or ordinals."""
        return sum(parameter.size > 1 and parameter.width == 1 for parameter in self.parameters)

    @property
    def conditional(self) -> bool:
        """True if some hyperparameter may be inactive."""
        return bool(self._conditions)

    @cached_property
    def has_default(self) -> bool:
        """True if somebody chose the default configuration.

        By default the default is the middle of a range and the first of the choices; one value
        that differs from that was chosen.
        """
        return any(_chosen_default(hp) for hp in self.space.values())

    @cached_property
    def size(self) -> float:
        """The number of different configurations; inf if they cannot be enumerated."""
        points = self.points
        return float("inf") if points is None else float(len(points))

    @cached_property
    def points(self) -> Array | None:
        """Every configuration of a small finite space, encoded (n, d); None for larger ones."""
        product = float(np.prod([parameter.size for parameter in self.parameters]))
        if product > ENUMERATION_LIMIT:
            return None
        return self.encode_codes(self._product([p.levels(int(p.size)) for p in self.parameters]))

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the space's definition; equal spaces have equal fingerprints."""
        return hashlib.sha256(json.dumps(self.description, sort_keys=True).encode()).hexdigest()

    @property
    def description(self) -> dict[str, Any]:
        """The space as JSON data in ConfigSpace's format, including its format version."""
        data: dict[str, Any] = self.space.to_serialized_dict()
        for incidental in ("name", "meta", "python_module_version"):
            data.pop(incidental, None)
        plain: dict[str, Any] = json.loads(json.dumps(data, default=_json_value))
        return plain

    # ------------------------------------------------------------------ the way there and back

    def encode(self, configurations: Iterable[Mapping[str, Any]]) -> Array:
        """Configurations as a matrix (n, d) in the unit cube.

        Raises:
            ConfigurationError: a hyperparameter is unknown, missing, inactive or out of range,
                or the combination is forbidden.
        """
        return self.encode_codes(self.codes(configurations))

    def decode(self, X: Array) -> list[Configuration]:
        """The configurations nearest to the rows of X (n, d).

        Exact for rows that `encode` returned. Inactive hyperparameters are left out of the
        configurations. Rows that `encode` did not return may give a forbidden configuration
        (see `allowed`).
        """
        return [self._configuration(row) for row in self.decode_codes(X)]

    def codes(self, configurations: Iterable[Mapping[str, Any]]) -> Array:
        """Configurations as codes (n, p); raises `ConfigurationError` as `encode` does."""
        rows = [self._checked_row(configuration) for configuration in configurations]
        return np.array(rows, dtype=float).reshape(len(rows), len(self.names))

    def encode_codes(self, codes: Array) -> Array:
        """Codes (n, p) as a matrix (n, d) in the unit cube."""
        X = np.empty((len(codes), self.n_columns))
        for j, parameter in enumerate(self.parameters):
            X[:, self.layout.values[j]] = parameter.encode(codes[:, j])
            column = self.layout.activity[j]
            if column is not None:
                X[:, column] = ~np.isnan(codes[:, j])
        return X

    def decode_codes(self, X: Array) -> Array:
        """A matrix (n, d) in the unit cube as codes (n, p)."""
        X = np.atleast_2d(np.asarray(X, dtype=float))
        codes = np.empty((len(X), len(self.names)))
        for j, parameter in enumerate(self.parameters):
            codes[:, j] = parameter.decode(X[:, self.layout.values[j]])
        return self.deactivate(codes)

    # ------------------------------------------------------------------ conditions

    def deactivate(self, codes: Array) -> Array:
        """Codes (n, p) with every hyperparameter whose condition fails set to NaN."""
        codes = codes.copy()
        for j, rule in self._conditions.items():
            codes[~rule.holds(codes), j] = np.nan
        return codes

    def allowed(self, codes: Array) -> Mask:
        """The mask (n,) of the rows of codes (n, p) that no forbidden clause excludes."""
        mask = np.ones(len(codes), dtype=bool)
        for rule in self._forbidden:
            mask &= ~rule.holds(codes)
        return mask

    # ------------------------------------------------------------------ making configurations

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """n random valid configurations, encoded (n, d); a small space may give duplicates."""
        return self.encode_codes(self.sample_codes(n, rng))

    def sample_codes(self, n: int, rng: np.random.Generator) -> Array:
        """n random valid configurations as codes (n, p).

        If clauses forbid nearly everything, the few valid ones that are found are repeated.

        Raises:
            SpaceError: no valid configuration was found.
        """
        kept, found, drawn, batch = [np.empty((0, len(self.names)))], 0, 0, n
        while found < n and drawn < _MOST_DRAWS:
            codes = self.from_unit(rng.random((batch, len(self.names))))
            kept.append(codes[self.allowed(codes)])
            found += len(kept[-1])
            drawn += batch
            batch = max(batch, 1_000)
        codes = np.concatenate(kept)[:n]
        if not n:
            return codes
        if not found and self.points is not None:
            codes = self.decode_codes(self.points)
        if not len(codes):
            raise SpaceError(
                f"of {drawn} random configurations none is allowed: "
                "the forbidden clauses exclude (almost) everything; drop or narrow some"
            )
        return codes if len(codes) == n else codes[rng.integers(len(codes), size=n)]

    def from_unit(self, U: Array) -> Array:
        """Codes (n, p) at quantiles U (n, p); NaN where inactive; some may be forbidden."""
        return self.deactivate(self.from_unit_raw(U))

    def from_unit_raw(self, U: Array) -> Array:
        """Codes (n, p) at quantiles U (n, p); inactive hyperparameters also have a code."""
        columns = [p.from_unit(U[:, j]) for j, p in enumerate(self.parameters)]
        return np.stack(columns, axis=1)

    def grid(self, levels: int) -> Array:
        """The valid points (n, d) of a full grid with at most `levels` values per number.

        All values of a choice without order are used. Points that differ only in inactive
        hyperparameters count once.

        Raises:
            SpaceError: the grid would have more than a million points.
        """
        if levels in self._grids:
            return self._grids[levels]
        axes = [parameter.levels(levels) for parameter in self.parameters]
        product = float(np.prod([float(len(axis)) for axis in axes]))
        if product > 1e6:
            raise SpaceError(f"a grid of {product:.0f} points is too large; use fewer levels")
        self._grids[levels] = self.encode_codes(self._product(axes))
        return self._grids[levels]

    def neighbours(self, x: Array, rng: np.random.Generator, *, scale: float = 0.2) -> Array:
        """Valid points (n, d) that differ from x (d,) in one hyperparameter.

        A choice takes every other value (the two adjacent ones if it is ordered). A float takes
        four random steps with standard deviation `scale`; an integer takes these and the two
        adjacent integers. A hyperparameter that becomes active takes a random value.
        """
        from rankwise.space.neighbours import one_exchange

        return self.encode_codes(one_exchange(self, self.decode_codes(x)[0], rng, scale))

    def restricted(self, legal: Mapping[str, Any]) -> Encoder:
        """An encoder with the same columns and fingerprint that allows fewer values.

        Samples, grids, neighbours and decoded configurations have legal values only.
        `encode_codes` still accepts all values, so that past studies can be encoded.

        Args:
            legal: the legal values of some hyperparameters: `(low, high)` or
                `(low, high, step)` for a number, a list of values for a choice.

        Raises:
            SpaceError: a name is unknown, or a hyperparameter would have no legal value.
        """
        unknown = [name for name in legal if name not in self._index]
        if unknown:
            raise SpaceError(
                f"unknown hyperparameter {unknown[0]!r}; the space has {', '.join(self.names)}"
            )
        narrow = copy.copy(self)
        narrow.parameters = tuple(
            p.within(legal[p.name]) if p.name in legal else p for p in self.parameters
        )
        narrow._grids = {}
        for cached in ("points", "size"):
            narrow.__dict__.pop(cached, None)
        narrow.default = narrow._allowed_default(self.codes([self.default]))
        return narrow

    # ------------------------------------------------------------------ helpers

    def _compile(self, clause: Any) -> Rule:
        return compile_rule(clause, self.parameters, self._index)

    def _make_layout(self) -> Layout:
        values, activity, start = [], [], 0
        for j, parameter in enumerate(self.parameters):
            values.append(slice(start, start + parameter.width))
            start += parameter.width
            conditional = j in self._conditions
            activity.append(start if conditional else None)
            start += conditional
        return Layout(start, tuple(values), tuple(activity))

    def _product(self, axes: Sequence[Array]) -> Array:
        mesh = np.meshgrid(*axes, indexing="ij")
        codes = self.deactivate(np.stack([m.ravel() for m in mesh], axis=1))
        codes = np.where(np.isnan(codes), -np.inf, codes)[self.allowed(codes)]
        codes = np.unique(codes, axis=0)
        return np.where(np.isneginf(codes), np.nan, codes)

    def _find_default(self) -> Configuration:
        values = {name: hp.default_value for name, hp in self.space.items()}
        codes = np.array([[p.code(values[p.name]) for p in self.parameters]])
        return self._allowed_default(self.deactivate(codes))

    def _allowed_default(self, codes: Array) -> Configuration:
        """The configuration with codes (1, p); if it is forbidden, a valid one near it."""
        codes = self.decode_codes(self.encode_codes(codes))
        if not self.allowed(codes)[0]:
            wanted = self.encode_codes(codes)
            codes = self.sample_codes(256, np.random.default_rng(0))
            nearest = np.argmin(np.linalg.norm(self.encode_codes(codes) - wanted, axis=1))
            codes = codes[[nearest]]
        return self._configuration(codes[0])

    def _configuration(self, row: Array) -> Configuration:
        pairs = zip(self.parameters, row, strict=True)
        return {p.name: p.value(code) for p, code in pairs if not np.isnan(code)}

    def _checked_row(self, configuration: Mapping[str, Any]) -> Array:
        unknown = [name for name in configuration if name not in self._index]
        if unknown:
            raise ConfigurationError(
                f"unknown hyperparameter {unknown[0]!r}; the space has {', '.join(self.names)}"
            )
        row = np.full(len(self.names), np.nan)
        for name, value in configuration.items():
            j = self._index[name]
            row[j] = self.parameters[j].code(value)
        for j, name in enumerate(self.names):
            rule = self._conditions.get(j)
            active = rule is None or bool(rule.holds(row[None])[0])
            if active and np.isnan(row[j]):
                if self.parameters[j].size > 1:
                    raise ConfigurationError(
                        f"{name!r} is active in {dict(configuration)} and has no value"
                    )
                row[j] = self.parameters[j].levels(1)[0]
            if not active and not np.isnan(row[j]):
                raise ConfigurationError(
                    f"{name!r} is inactive in {dict(configuration)}: its condition does not hold; "
                    "leave it out"
                )
        if not self.allowed(row[None])[0]:
            raise ConfigurationError(f"{dict(configuration)} is excluded by a forbidden clause")
        return row


def _json_value(value: Any) -> Any:
    """Convert a value for JSON: NumPy scalars to numbers, sets to lists, objects to names."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    return stable_name(value)


def _chosen_default(hp: Any) -> bool:
    """True if the default value of a hyperparameter is not the one of ConfigSpace."""
    from ConfigSpace.hyperparameters import (
        CategoricalHyperparameter,
        OrdinalHyperparameter,
        UniformFloatHyperparameter,
        UniformIntegerHyperparameter,
    )

    if isinstance(hp, UniformFloatHyperparameter | UniformIntegerHyperparameter):
        plain: Any = type(hp)(hp.name, hp.lower, hp.upper, log=hp.log)
        return bool(plain.default_value != hp.default_value)
    if isinstance(hp, CategoricalHyperparameter):
        return bool(hp.default_value != hp.choices[0])
    if isinstance(hp, OrdinalHyperparameter):
        return bool(hp.default_value != hp.sequence[0])
    return False
