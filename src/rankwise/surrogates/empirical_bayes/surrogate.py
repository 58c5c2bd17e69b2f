"""Empirical-Bayes transfer GPs (`eb-gp`, `eb-net`, `dre-gp`): priors estimated from past studies.

`meta_fit` turns every source task into a function (`past_functions`, `shared_network`,
`shared_scorers`). The mean and the covariance of these functions form the prior of the target
task's losses. Several models use this prior to a different degree (`model_grid`). Their own prior
probabilities are learnt by predicting held-out source tasks from the others (`prior_learning`).

`fit` trains nothing. It computes the evidence of each model in closed form, and the expected
improvement is averaged over the most probable models (`posterior`). Some models use only the
length-scales of the source tasks. Their posterior probability is one minus `influence`.

docs/prior.md explains the method.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit
from typing_extensions import Self

from rankwise._core.progress_bar import steps_only, training_bar
from rankwise.errors import ModelFileError, OptionError, check_count, check_name
from rankwise.history.task import BUILTIN, Task, check_columns
from rankwise.surrogates.base import Posterior
from rankwise.surrogates.empirical_bayes.model_grid import MODEL_FIELDS, Models
from rankwise.surrogates.empirical_bayes.past_functions import (
    Lesson,
    Past,
    Source,
    SourcePast,
    effective_counts,
    sources_of,
)
from rankwise.surrogates.empirical_bayes.posterior import Conditioned
from rankwise.surrogates.empirical_bayes.prior_learning import learnt_models
from rankwise.surrogates.empirical_bayes.shared_network import STEPS, NetPast, Study
from rankwise.surrogates.empirical_bayes.shared_scorers import ScorerPast
from rankwise.surrogates.empirical_bayes.source_weights import Similarity, builtin_weight
from rankwise.surrogates.single_study.gp import GaussianProcess
from rankwise.surrogates.transfer_base import TransferSurrogate
from rankwise.surrogates.transfer_trust import NO_EVIDENCE, Evidence, compare_view
from rankwise.types import Array

PASTS: dict[str, type[Past]] = {"gp": SourcePast, "net": NetPast, "rank": ScorerPast}
"""Representation of the source tasks' functions for each value of the argument `kind`."""

_MAX_HELD_OUT = 60  # source tasks that are held out to learn the prior of the models
_PASS = 0.2  # smallest gain (see `learnt_models`) with which past studies are used, in nats
_FEW_TRIALS, _FEW_STUDIES = 10, 5  # fewer trials per study, or fewer studies, are called small


class EmpiricalBayes(TransferSurrogate):
    """A Gaussian process with a prior mean and covariance that are estimated from past studies.

    It is an ordinary Gaussian process (`GaussianProcess`) in two cases: no past studies are
    given, or they do not predict each other. In the second case they are not expected to predict
    the target study either.

    Args:
        kind: "gp" fits one Gaussian process per past study, "net" one network for all of them,
            "rank" one Deep Ranking Ensemble.
        caution: Smallest total weight of the models that do not use past studies, from 0 to 1. It
            is raised if past studies predict each other only a little better than chance. 0
            switches both off: then only the evidence sets the weights.
        portfolio: Weight of the portfolio term: a bonus for configurations that are good in the
            past studies that rank the target study's observations best. It is divided by the
            number of observations. 0 switches it off.
        leading: Maximum number of models that are averaged over; the most probable are taken.
        steps: Training steps of the network ("net"), or of the ensemble at most ("rank").
        seed: Seed of the random numbers in `meta_fit`.

    Attributes:
        past: The source tasks' functions; None if there are none or if they are not used.
        models: The models with their learnt prior.
        exam: How well past studies predict each other: the gain in log evidence, in nats, over
            models without past studies (see `learnt_models`). Infinite if it is not known.
        given: The models conditioned on the target task, set by `fit` if `past` is not None.
    """

    file_kind = "empirical-bayes"
    arrays_with_gaps = ("constant",)  # of `NetPast` and `ScorerPast`

    def __init__(
        self,
        *,
        kind: str = "gp",
        caution: float = 0.2,
        portfolio: float = 4.0,
        leading: int = 8,
        steps: int = STEPS,
        seed: int = 0,
    ) -> None:
        check_name("kind", kind, PASTS)
        if not 0 <= caution <= 1:
            raise OptionError(f"caution is a share, from 0 to 1, not {caution!r}")
        if not portfolio >= 0:
            raise OptionError(f"portfolio must not be negative, not {portfolio!r}")
        self.kind, self.caution, self.portfolio = kind, caution, portfolio
        self.leading = check_count("leading", leading)
        self.steps = check_count("steps", steps)
        if leading < 2:
            raise OptionError(
                "leading must be 2 at least: one model with and one without past studies"
            )
        self.seed = seed
        self.past: Past | None = None
        self.models = Models.grid()
        self.exam = math.inf
        self._previous: str | Path | EmpiricalBayes | None = None  # see `meta_fit`
        self._plain = GaussianProcess()

    @property
    def meta_learned(self) -> bool:
        return self.past is not None

    def with_seed(self, seed: int) -> Self:
        """Return a copy that shares what was learnt.

        The seed is ignored, because `fit` and `predict` use no random numbers.
        """
        twin = copy.copy(self)
        twin._plain = GaussianProcess()
        return twin

    def compact(self) -> Self:
        """Return a copy with approximate source functions that are fast at new configurations.

        See `Past.compact`.
        """
        twin = copy.copy(self)
        twin.past = None if self.past is None else self.past.compact()
        return twin

    # ------------------------------------------------------------------ learning

    def meta_fit(
        self,
        tasks: Sequence[Task],
        validation: Sequence[Task] = (),
        *,
        previous: str | Path | EmpiricalBayes | None = None,
        progress: bool | None = None,
    ) -> Self:
        """Learn the prior from source tasks.

        No-op if no source task has at least three trials with two different losses. If the
        source tasks do not predict each other, they are not used and a warning is issued.

        Args:
            tasks: Source tasks.
            validation: More source tasks; used like `tasks`, because there is no early stopping.
            previous: File that `save` wrote, or a surrogate. Functions of tasks in it are not
                fitted again, except with `kind="rank"`. A file that cannot be read is ignored.
            progress: Show a progress bar; by default if standard error is a terminal.
        """
        self._previous = previous
        return super().meta_fit(tasks, validation, progress=progress)

    def _learn(
        self, tasks: Sequence[Task], validation: Sequence[Task], progress: bool | None
    ) -> None:
        lessons: Iterable[Lesson]
        if self.kind == "rank":
            self.past, lessons = ScorerPast.learn(tasks, self.seed, progress, steps=self.steps)
        else:
            learn = self._learn_sources if self.kind == "gp" else self._learn_network
            self.past, lessons = learn(tasks, _known(self._previous), progress)
        self.models, self.exam = learnt_models(lessons, self.past.lengthscales, self.seed)
        if self.exam < _PASS:
            self.past = None
            warnings.warn(
                _not_used(len(tasks), sum(len(task) for task in tasks)),
                UserWarning,
                stacklevel=4,  # the caller of `meta_fit`
            )

    def _learn_sources(
        self, tasks: Sequence[Task], known: Past | None, progress: bool | None
    ) -> tuple[Past, Iterable[Lesson]]:
        """Fit one Gaussian process per task; return them and the held-out predictions."""
        fitted = known.sources if isinstance(known, SourcePast) else ()
        with training_bar(progress, len(tasks)) as bar:
            sources = sources_of(tasks, fitted, steps_only(bar))
        past = weighted_past(sources, effective_counts(tasks))
        return past, past.lessons(_MAX_HELD_OUT)

    def _learn_network(
        self, tasks: Sequence[Task], known: Past | None, progress: bool | None
    ) -> tuple[Past, Iterable[Lesson]]:
        """Train one network for all tasks; return it and the held-out predictions."""
        studies = [Study.of(task) for task in tasks]
        before = known if isinstance(known, NetPast) else None
        with training_bar(progress, self.steps) as bar:
            past = NetPast.learn(studies, self.seed, before, steps_only(bar), steps=self.steps)
        return past, past.lessons_of(studies, self.seed, _MAX_HELD_OUT, steps=self.steps)

    def fit(self, task: Task) -> Self:
        if self.past is None:
            self._plain.fit(task)
            return self
        check_columns(task, len(self.past.lengthscales))
        models, lengthscales = self.models, self.past.lengthscales
        if len(task) and self.past.new.any() and np.ptp(task.X[:, self.past.new], axis=0).any():
            # In the new columns there is no past: they have the length-scales of `gp`.
            model = self._plain.fit(task).model
            assert model is not None
            models = models.for_new_columns()
            lengthscales = np.where(self.past.new, model.lengthscales, lengthscales)
        self._near = self.past.near(task.context)
        self.given = Conditioned(
            self._near,
            models,
            task,
            lengthscales,
            caution=self.caution and max(self.caution, float(expit(-self.exam))),
            portfolio=self.portfolio,
            leading=self.leading,
        )
        return self

    def believing(self, X: Array) -> Self:
        """Return a copy that treats the posterior mean at pending X (m, d) as observed."""
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
        """Log utility (n,) of X (n, d), see `Conditioned.improvement`.

        None without past studies: then expected improvement follows from `predict`.
        """
        return None if self.past is None else self.given.improvement(np.asarray(X, dtype=float))

    def slope(self, x: Array) -> tuple[float, Array] | None:
        """Value of `improvement` at x (d,) and its gradient (d,); None without past studies."""
        return None if self.past is None else self.given.slope(np.asarray(x, dtype=float))

    @property
    def weights(self) -> Array:
        """Posterior probabilities of all models; they sum to one. Only with past studies."""
        return self.given.weights

    def evidence(self, task: Task) -> Evidence | None:
        if self.past is None:
            return None
        return compare_view(self.past.view(task.X), task.losses) if len(task) else NO_EVIDENCE

    @property
    def influence(self) -> float | None:
        """Weight of past studies in the predictions, from 0 to 1; None without past studies.

        It is one minus the posterior probability of the plain models, which use only the
        length-scales of the source tasks (eq. 7). It can be large although the study has the
        opposite order of past studies, because their covariance is used as well.
        """
        if self.past is None:
            return None
        return float(self.weights[~self.given.models.plain].sum())

    @property
    def sources(self) -> dict[str, float] | None:  # type: ignore[override]
        """Weight of each past study by name, largest first; None without past studies.

        The weight is proportional to how much better than chance the past study ranks the
        observations. The weights sum to `influence`, or to zero if no past study is better than
        chance.
        """
        if self.past is None or self.influence is None:
            return None
        voters = self._near.voters
        found = dict.fromkeys(voters, 0.0)
        for name, share in zip(voters, self.given.ballot.share.tolist(), strict=True):
            found[name] += self.influence * share
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
                f"the model was learnt with kind={record['settings']['kind']!r}, not {self.kind!r}"
            )
        self.exam = math.inf if record["exam"] is None else record["exam"]
        self.past = PASTS[self.kind].from_parts(arrays, record)
        self.models = Models(*(arrays[f"models.{name}"] for name in MODEL_FIELDS))


def _not_used(studies: int, trials: int) -> str:
    """The warning that past studies are not used, with what can be done."""
    if trials < _FEW_TRIALS * studies or studies < _FEW_STUDIES:
        return (
            f"The {studies} past studies ({trials} trials) are too small to tell whether they "
            "agree; they are not used. Add studies or trials."
        )
    return (
        f"The {studies} past studies do not predict each other; they are not used. Choose similar "
        'studies, for example with like="name-*".'
    )


def weighted_past(sources: Sequence[Source], counts: Array | None) -> SourcePast:
    """The functions of source tasks, with weights as `source_weights` describes them."""
    past = SourcePast(sources, counts, remember=True)
    similarity = Similarity.learn(past.sources, lambda: past.probed)
    share = builtin_weight(past.sources, similarity)
    builtin = [source.context.get(BUILTIN) == 1.0 for source in past.sources]
    weights = past.counts * np.where(builtin, share, 1.0)
    return SourcePast(sources, weights, remember=True, similarity=similarity)


def _known(previous: str | Path | EmpiricalBayes | None) -> Past | None:
    """Source functions in a model file; None without a file or if it cannot be read.

    An unreadable file is no error, because everything in it can be learnt again.
    """
    if previous is None or isinstance(previous, EmpiricalBayes):
        return None if previous is None else previous.past
    try:
        return EmpiricalBayes.load(previous).past
    except ModelFileError:
        return None
