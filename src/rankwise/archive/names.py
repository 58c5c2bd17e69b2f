"""Names and known values of parameters: past studies under the names of the target study."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from rankwise.archive.merge_distributions import choice_key, kind_of
from rankwise.archive.past_study import PastStudy
from rankwise.errors import OptionError, is_number

_SYNONYMS = (
    {"eta", "learning_rate", "lr", "learning-rate", "step_size"},
    {"reg_lambda", "lambda", "lambda_l2", "l2", "l2_leaf_reg"},
    {"reg_alpha", "alpha", "lambda_l1", "l1"},
    {"n_estimators", "num_boost_round", "num_trees", "iterations", "num_iterations"},
    {"colsample_bytree", "feature_fraction", "max_features"},
    {"subsample", "bagging_fraction"},
    {"min_child_weight", "min_data_in_leaf", "min_samples_leaf"},
    {"max_depth", "depth"},
    {"weight_decay", "wd"},
    {"batch_size", "bs"},
)
_ALIKE = 0.75  # smallest similarity of two names, from 0 to 1
_OVERLAP = 0.25  # smallest overlap of two ranges or sets of choices, from 0 to 1


def named_values(what: str, given: Mapping[str, Any] | str | Path | None) -> dict[str, Any]:
    """A mapping, or the content of a JSON file that has one.

    Args:
        what: name of the argument, for the message.
        given: the mapping, or the path of the file; None is empty.

    Raises:
        OptionError: it is something else.
    """
    content: Any = given or {}
    if isinstance(content, str | Path):
        try:
            content = json.loads(Path(content).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise OptionError(f"{what}: {given} cannot be read as JSON ({error})") from None
    if not isinstance(content, Mapping) or not all(isinstance(name, str) for name in content):
        raise OptionError(
            f"{what} is a dict from names of parameters, or a JSON file with one, not {given!r}"
        )
    if what == "rename" and not all(isinstance(name, str) for name in content.values()):
        raise OptionError('rename is a dict from old to new names: {"eta": "learning_rate"}')
    return dict(content)


def under_names(
    study: PastStudy, rename: Mapping[str, str], known: Mapping[str, Any]
) -> PastStudy:
    """A study with other names of parameters, and with known values of those that it lacks.

    Args:
        study: a past study.
        rename: new names by old name; ignored if the study has a parameter of the new name.
        known: values of parameters that were constant in the study and are not recorded.
    """
    new = {
        old: name
        for old, name in rename.items()
        if old in study.distributions and name not in study.distributions
    }
    named = {new.get(name, name): d for name, d in study.distributions.items()}
    constant = {name: value for name, value in known.items() if name not in named}
    if not new and not constant:
        return study
    distributions = {**named, **{name: _constant(value) for name, value in constant.items()}}
    params = [
        {**{new.get(name, name): v for name, v in trial.items()}, **constant}
        for trial in study.params
    ]
    return replace(study, params=params, distributions=distributions)


def _constant(value: Any) -> BaseDistribution:
    if is_number(value, int):
        return IntDistribution(value, value)
    if is_number(value):
        return FloatDistribution(float(value), float(value))
    return CategoricalDistribution([value])


def likely_renames(
    studies: Sequence[PastStudy],
    distributions: Mapping[str, BaseDistribution],
    wanted: Mapping[str, BaseDistribution],
) -> dict[str, str]:
    """Pairs of parameters that are probably one parameter under two names: old to new.

    No study has both, their names are synonyms or similar, and their ranges overlap. The new name
    is the one that the target study has, or else the one that more studies have.

    Args:
        studies: the past studies.
        distributions: merged distributions of all parameters.
        wanted: distributions of the target study.
    """
    count = {name: sum(name in s.distributions for s in studies) for name in distributions}
    every = len(studies)
    found: dict[str, str] = {}
    names = sorted(distributions, key=lambda name: (name not in wanted, -count[name], name))
    for k, new in enumerate(names):
        if count[new] == every or new in found:
            continue
        for old in names[k + 1 :]:
            together = any({old, new} <= s.distributions.keys() for s in studies)
            if old in found or old in wanted or not count[old] or together:
                continue
            if _alike(old, new) and _overlap(distributions[old], distributions[new]) >= _OVERLAP:
                found[old] = new
    return found


def _alike(a: str, b: str) -> bool:
    if any({a, b} <= names for names in _SYNONYMS):
        return True
    one, two = (n.lower().replace("_", "").replace("-", "") for n in (a, b))
    return SequenceMatcher(None, one, two).ratio() >= _ALIKE


def _overlap(a: BaseDistribution, b: BaseDistribution) -> float:
    """Share of the smaller range, or of the smaller set of choices, that both have."""
    if isinstance(a, CategoricalDistribution) and isinstance(b, CategoricalDistribution):
        one, two = ({choice_key(c) for c in d.choices} for d in (a, b))
        return len(one & two) / min(len(one), len(two))
    if "categorical" in (kind_of(a), kind_of(b)):
        return 0.0
    assert isinstance(a, FloatDistribution | IntDistribution)
    assert isinstance(b, FloatDistribution | IntDistribution)
    low, high = max(a.low, b.low), min(a.high, b.high)
    if low > high:
        return 0.0
    narrow = min(a.high - a.low, b.high - b.low)
    return (high - low) / narrow if narrow > 0 else 1.0
