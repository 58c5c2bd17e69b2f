"""The empirical-Bayes transfer GP: past studies as the prior of a Gaussian process.

Offline, every past study becomes a function (`sources`); their mean and covariance are the prior
of the next study's losses, in as many versions as there are `models`, whose own prior is learnt
by predicting each past study from the others. Online there is nothing to train: the evidence of
the models is computed in closed form and the expected improvement averaged over the likely ones.

Models that do not use the past are among them. What they weigh says whether the past applies.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit
from typing_extensions import Self

from rankwise.errors import ModelFileError, OptionError, check_count, check_name
from rankwise.progress import training_bar
from rankwise.surrogates.base import Posterior
from rankwise.surrogates.conditioned import Conditioned
from rankwise.surrogates.gp import GaussianProcess
from rankwise.surrogates.lessons import learnt_models
from rankwise.surrogates.models import (
    MODEL_FIELDS,
    Models,
)
from rankwise.surrogates.sharednet import STEPS, NetPast, Study
from rankwise.surrogates.sources import (
    Lesson,
    Past,
    SourcePast,
    sources_of,
    task_digest,
    teaches,
)
from rankwise.surrogates.threads import one_thread
from rankwise.surrogates.transfer import TransferSurrogate
from rankwise.task import Task, check_one_width
from rankwise.types import Array

PASTS: dict[str, type[Past]] = {"gp": SourcePast, "net": NetPast}

_STUDENTS = 60  # past studies that the prior of the models is learnt from
_PASS = 0.2  # nats per part of a study that the others must explain for the past to be used


class EmpiricalBayes(TransferSurrogate):
    """A Gaussian process whose mean and covariance are those of past studies.

    Without past tasks it is an ordinary Gaussian process, and also if the past studies do not
    predict each other: who knows nothing of them can know nothing of the next one.

    Args:
        kind: "gp": one Gaussian process per past study; "net": one network for all of them.
        caution: share of the models' weight that those without the past have at least; more if the
            past studies hardly predict each other. 0: what the evidence says, no more.
        portfolio: weight of what is good by the past studies that rank the observations best; it
            falls with the number of observations.
        leading: models that are averaged over, the most probable ones.
        seed: of what is drawn while learning.
    """

    file_kind = "empirical-bayes"

    def __init__(
        self,
        *,
        kind: str = "gp",
        caution: float = 0.2,
        portfolio: float = 4.0,
        leading: int = 8,
        seed: int = 0,
    ) -> None:
        check_name("kind", kind, PASTS)
        if not 0 <= caution <= 1:
            raise OptionError(f"caution is a share, from 0 to 1, not {caution!r}")
        if not portfolio >= 0:
            raise OptionError(f"portfolio must not be negative, not {portfolio!r}")
        self.kind, self.caution, self.portfolio = kind, caution, portfolio
        self.leading = check_count("leading", leading)
        if leading < 2:
            raise OptionError("leading must be 2 at least: a model with the past and one without")
        self.seed = seed
        self.past: Past | None = None
        self.models = Models.grid()
        self.exam = math.inf
        self._plain = GaussianProcess()

    @property
    def meta_learned(self) -> bool:
        return self.past is not None

    def with_seed(self, seed: int) -> Self:
        """The same surrogate, what was learnt included; nothing in a study is drawn."""
        twin = copy.copy(self)
        twin._plain = GaussianProcess()
        return twin

    def compact(self) -> Self:
        """The same surrogate with a past that is fast where it was never asked before."""
        twin = copy.copy(self)
        twin.past = None if self.past is None else self.past.compact()
        return twin

    # ------------------------------------------------------------------ learning

    def meta_fit(
        self,
        tasks: Sequence[Task],
        validation: Sequence[Task] = (),
        *,
        previous: str | Path | None = None,
        progress: bool | None = None,
    ) -> Self:
        """Learn from past tasks; without any that has an order, nothing happens.

        Args:
            tasks: to learn from.
            validation: more of them: there is nothing to stop early here.
            previous: file of a model that knows some of the tasks; these are not fitted again.
            progress: show a bar; by default if standard error is a terminal.
        """
        everything = [*tasks, *validation]
        check_one_width(everything)
        useful = [task for task in everything if teaches(task) and task.X.shape[1]]
        useful.sort(key=task_digest)  # the order in which studies are given changes nothing
        if useful:
            known = _known(previous)
            learn = self._learn_sources if self.kind == "gp" else self._learn_network
            with one_thread():
                self.past, lessons = learn(useful, known, progress)
                self.models, self.exam = learnt_models(lessons, self.past.lengthscales, self.seed)
            if self.exam < _PASS:
                self.past = None
                warnings.warn(
                    f"{len(useful)} past studies do not predict each other (a gain of "
                    f"{self.exam:.2f} nats where {_PASS} are needed): they are not used",
                    UserWarning,
                    stacklevel=2,
                )
        return self

    def _learn_sources(
        self, tasks: Sequence[Task], known: Past | None, progress: bool | None
    ) -> tuple[Past, Iterable[Lesson]]:
        fitted = known.sources if isinstance(known, SourcePast) else ()
        with training_bar(progress, len(tasks)) as bar:
            past = SourcePast(sources_of(tasks, fitted, _ticks(bar)), remember=True)
        return past, past.lessons(_STUDENTS)

    def _learn_network(
        self, tasks: Sequence[Task], known: Past | None, progress: bool | None
    ) -> tuple[Past, Iterable[Lesson]]:
        studies = [Study.of(task) for task in tasks]
        before = known if isinstance(known, NetPast) else None
        with training_bar(progress, STEPS) as bar:
            past = NetPast.learn(studies, self.seed, before, _ticks(bar))
        return past, past.lessons_of(studies, self.seed, _STUDENTS)

    def fit(self, task: Task) -> Self:
        if self.past is None:
            self._plain.fit(task)
            return self
        if len(task) and task.X.shape[1] != len(self.past.lengthscales):
            raise OptionError(
                f"the past has configurations of {len(self.past.lengthscales)} columns and the "
                f"task has {task.X.shape[1]}"
            )
        self.given = Conditioned(
            self.past,
            self.models,
            task,
            caution=self.caution and max(self.caution, float(expit(-self.exam))),
            portfolio=self.portfolio,
            leading=self.leading,
        )
        return self

    def believing(self, X: Array) -> Self:
        """This surrogate as if the posterior mean had been observed at X (m, d)."""
        twin = copy.copy(self)
        if self.past is None:
            twin._plain = self._plain.believing(X)
        else:
            twin.given = self.given.believing(X)
        return twin

    # ------------------------------------------------------------------ predicting

    def predict(self, X: Array, *, joint: bool = False) -> Posterior:
        if self.past is None:
            return self._plain.predict(X, joint=joint)
        return self.given.predict(np.asarray(X, dtype=float), joint)

    def improvement(self, X: Array) -> Array | None:
        """Logarithm of the utility (n,) of X (n, d), see `Conditioned.improvement`."""
        return None if self.past is None else self.given.improvement(np.asarray(X, dtype=float))

    def slope(self, x: Array) -> tuple[float, Array] | None:
        return None if self.past is None else self.given.slope(np.asarray(x, dtype=float))

    @property
    def weights(self) -> Array:
        """Of the models, given the observations; they sum to one."""
        return self.given.weights

    @property
    def trust(self) -> float | None:  # type: ignore[override]
        """How probable it is, given the observations, that the past applies to this study.

        One minus the posterior probability of the models that use nothing of it.
        """
        if self.past is None:
            return None
        return float(self.weights[~self.models.plain].sum())

    @property
    def sources(self) -> dict[str, float] | None:  # type: ignore[override]
        """How much each past study counts, by name, the one that counts most first.

        In proportion to how much better than chance it orders the observations; all of them
        together count as much as the past is trusted.
        """
        if self.past is None or self.trust is None:
            return None
        found = dict.fromkeys(self.past.voters, 0.0)
        for name, share in zip(self.past.voters, self.given.ballot.share.tolist(), strict=True):
            found[name] += self.trust * share
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))

    # ------------------------------------------------------------------ files

    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        assert self.past is not None
        arrays, record = self.past.parts()
        for name in MODEL_FIELDS:
            arrays[f"models.{name}"] = getattr(self.models, name)
        exam = self.exam if math.isfinite(self.exam) else None  # JSON has no infinity
        return arrays, {**record, "exam": exam}

    def restore(self, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> None:
        if self.kind != record["settings"]["kind"]:
            raise ModelFileError(
                f"the file holds a past of kind {record['settings']['kind']!r}, not {self.kind!r}"
            )
        self.exam = math.inf if record["exam"] is None else record["exam"]
        self.past = PASTS[self.kind].from_parts(arrays, record)
        self.models = Models(*(arrays[f"models.{name}"] for name in MODEL_FIELDS))


def _known(previous: str | Path | None) -> Past | None:
    """The past of a model file; None if it cannot be read, as it can be learnt again."""
    if previous is None:
        return None
    try:
        return EmpiricalBayes.load(previous).past
    except ModelFileError:
        return None


def _ticks(bar: Callable[[int, float, float], None] | None) -> Callable[[int], None] | None:
    return None if bar is None else lambda k: bar(k, math.nan, math.nan)
