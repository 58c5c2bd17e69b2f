"""Random search spaces in the shorthand of `make_space`, and an independent check of legality."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random
from typing import Any

import ConfigSpace as CS

NAMES = ["x", "y", "lr", "Größe", "a b", "a/b", "kernel", "class", "0", "value", "number", "🙂"]
CHOICES: list[list[Any]] = [
    ["a", "b"],
    ["rbf", "poly", "linear"],
    [True, False],
    ["True", "False", "None"],
    [None, "x", 1.5],
    [1, 2, 4, 8, 16],
    [0.1, 1.0, 10.0],
    ["1", "2", "03"],
    ["", " ", "\n"],
    ["only"],
    [f"c{k}" for k in range(40)],
]


@dataclass
class RandomSpace:
    """Arguments of `make_space`, and what a configuration of that space must look like."""

    parameters: dict[str, Any] = field(default_factory=dict)
    when: dict[str, Any] = field(default_factory=dict)
    forbid: list[dict[str, Any]] = field(default_factory=list)

    def illegal(self, configuration: dict[str, Any]) -> str:
        """What is wrong with a configuration; "" if nothing is."""
        active = {name for name in self.parameters if self._active(name, configuration)}
        if active != set(configuration):
            return f"active are {sorted(active)}, set are {sorted(configuration)}"
        for name, value in configuration.items():
            if not _within(self.parameters[name], value):
                return f"{name}={value!r} is not in {self.parameters[name]!r}"
        for clause in self.forbid:
            if all(n in configuration and _agrees(t, configuration[n]) for n, t in clause.items()):
                return f"forbidden: {clause}"
        return ""

    def _active(self, name: str, configuration: dict[str, Any]) -> bool:
        clauses = self.when.get(name)
        if clauses is None:
            return True
        clauses = clauses if isinstance(clauses, list) else [clauses]
        return any(
            all(
                parent in configuration
                and self._active(parent, configuration)
                and _agrees(test, configuration[parent])
                for parent, test in clause.items()
            )
            for clause in clauses
        )


def random_space(rng: Random) -> RandomSpace:
    """A space of one to eight hyperparameters with conditions and forbidden combinations."""
    names = rng.sample(NAMES, rng.choice([1, 1, 2, 2, 3, 4, 5, 8]))
    space = RandomSpace({name: _hyperparameter(rng, name) for name in names})
    for k, name in enumerate(names):
        parents = [p for p in names[:k] if _values(space.parameters[p])]
        if parents and rng.random() < 0.4:
            clauses = [_clause(rng, space, parents, 2) for _ in range(rng.choice([1, 1, 1, 2]))]
            space.when[name] = clauses[0] if len(clauses) == 1 else clauses
    able = [n for n in names if len(_values(space.parameters[n])) > 1]
    while able and rng.random() < 0.25:
        space.forbid.append(_clause(rng, space, able, 2))
    return space


def _hyperparameter(rng: Random, name: str) -> Any:
    kind = rng.choice(["float", "float", "log", "int", "log int", "choices", "choices", "odd"])
    if kind == "float":
        low = rng.choice([0.0, -1.0, 1e-9, -1e8, 3.25, -1e-7, rng.uniform(-9, 9)])
        return (low, low + rng.choice([1.0, 1e-6, 0.1, 1e9, 25.0]))
    if kind == "log":
        low = rng.choice([1e-8, 1e-3, 1.0, 1e-12])
        return (low, low * rng.choice([1.001, 10.0, 1e6]), "log")
    if kind == "int":
        low = rng.choice([0, 1, -5, -(10**9), 2**31])
        return (low, low + rng.choice([1, 2, 7, 100, 10**6, 2**33, 2**40]))
    if kind == "log int":
        low = rng.choice([1, 1, 3, 1000])
        return (low, low + rng.choice([1, 5, 10**4, 2**31]), "log")
    if kind == "choices":
        return list(rng.choice(CHOICES))
    return _odd(rng, name)


def _odd(rng: Random, name: str) -> Any:
    return rng.choice(
        [
            ([1, 2, 5], "ordered"),
            (["low", "mid", "high"], "ordered"),
            "constant",
            3,
            0.5,
            CS.NormalFloatHyperparameter(name, 0.4, 0.2, 0.0, 1.0),
            CS.BetaIntegerHyperparameter(name, 2.0, 3.0, 1, 9, 2),
            CS.Float(name, (0.0, 1.0), default=0.9),
            CS.Integer(name, (1, 64), log=True, default=64),
        ]
    )


def _values(spec: Any) -> list[Any]:
    """Some values that a condition or a clause can name."""
    if isinstance(spec, list):
        return list(spec)
    if isinstance(spec, tuple) and isinstance(spec[0], list):
        return list(spec[0])
    if isinstance(spec, tuple) and isinstance(spec[0], int):
        return [spec[0], (spec[0] + spec[1]) // 2, spec[1]]
    return []


def _clause(rng: Random, space: RandomSpace, names: list[str], most: int) -> dict[str, Any]:
    chosen = rng.sample(names, min(len(names), rng.randint(1, most)))
    clause = {}
    for name in chosen:
        values = _values(space.parameters[name])
        if len(values) > 2 and rng.random() < 0.4:
            clause[name] = rng.sample(values, 2)
        else:
            clause[name] = rng.choice(values)
    return clause


def _agrees(test: Any, value: Any) -> bool:
    return any(_same(value, v) for v in test) if isinstance(test, list) else _same(value, test)


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)


def _within(spec: Any, value: Any) -> bool:
    if isinstance(spec, CS.hyperparameters.Hyperparameter):
        return bool(spec.legal_value(value))
    if isinstance(spec, list):
        return _agrees(spec, value)
    if isinstance(spec, tuple) and isinstance(spec[0], list):
        return _agrees(spec[0], value)
    if isinstance(spec, tuple):
        low, high = spec[:2]
        if type(value) is not type(low) or not math.isfinite(value):
            return False
        slack = 0 if isinstance(low, int) else 1e-12 * max(abs(low), abs(high))
        return bool(low - slack <= value <= high + slack)
    return _same(value, spec)


def random_distribution(rng: Random) -> dict[str, Any]:
    """Arguments of one `suggest_*` call of Optuna, with the key "kind"."""
    kind = rng.choice(["float", "log", "step", "int", "log int", "int step", "categorical"])
    if kind == "float":
        low = rng.choice([0.0, -1.0, -1e8, 1e-9, 2.0])
        return {"kind": "float", "low": low, "high": low + rng.choice([0.0, 1.0, 1e-6, 1e9])}
    if kind == "log":
        low = rng.choice([1e-10, 1e-3, 1.0])
        high = low * rng.choice([1.0, 1.01, 1e4, 1e9])
        return {"kind": "float", "low": low, "high": high, "log": True}
    if kind == "step":
        step = rng.choice([0.1, 0.25, 1e-3, 3.0])
        return {"kind": "float", "low": 0.0, "high": rng.choice([0.0, 1.0, 7.0]), "step": step}
    if kind == "int":
        low = rng.choice([0, 1, -7, 10**9, -(2**40)])
        return {"kind": "int", "low": low, "high": low + rng.choice([0, 1, 10, 10**6, 2**45])}
    if kind == "log int":
        low = rng.choice([1, 2, 100])
        return {"kind": "int", "low": low, "high": low + rng.choice([0, 9, 10**7]), "log": True}
    if kind == "int step":
        return {"kind": "int", "low": 0, "high": rng.choice([0, 7, 64, 10**6]), "step": 8}
    return {"kind": "categorical", "choices": list(rng.choice(CHOICES))}


def in_distribution(asked: dict[str, Any], value: Any) -> bool:
    """True if a value is legal for a `suggest_*` call."""
    if asked["kind"] == "categorical":
        return _agrees(asked["choices"], value)
    low, high, step = asked["low"], asked["high"], asked.get("step")
    kind: type = float if asked["kind"] == "float" else int
    if type(value) is not kind or not math.isfinite(value) or not low <= value <= high:
        return False
    if step is None:
        return True
    return abs((value - low) / step - round((value - low) / step)) < 1e-6
