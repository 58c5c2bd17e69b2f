"""The objective of tuning a network: train it, score it, hand down its weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rankwise.asking import suggest
from rankwise.errors import OptionError, RankwiseError
from rankwise.learners.convnet import ConvNetClassifier
from rankwise.space import Encoder

if TYPE_CHECKING:
    import optuna
    from ConfigSpace import ConfigurationSpace

Report = Callable[[int, float | None, ConvNetClassifier], Any]


class NetworkObjective:
    """Trains the network of a configuration of `convnet_space`: one minus its validation score.

    For `rankwise.minimize` it is the objective itself; for `study.optimize` of Optuna there is
    `trial_objective`, which reports every epoch, so that pruners (successive halving, Hyperband)
    end bad trainings.

    With `inherit` a network starts from the weights of the best one so far from which it can be
    grown, that has as many layers or fewer, of the same kinds in the same order. Losses then
    depend on what was trained before, and a run that is resumed begins without heirs. Weights are
    handed down within one process: not with `n_jobs` or `timeout`, where each evaluation has its
    own.

    Args:
        X: images (n, h, w) or (n, h, w, c), or rows (n, d) with `input_shape`.
        y: labels (n,).
        inherit: whether weights are handed down.
        **parameters: of `ConvNetClassifier`; what they say goes before the configuration.
            `validation` must be among them: a share of the rows, or `(X, y)`.

    Example:
        >>> import rankwise
        >>> from rankwise.learners import NetworkObjective, convnet_space
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> error = NetworkObjective(
        ...     X[:200], y[:200], input_shape=(8, 8), validation=0.3, epochs=2, random_state=0
        ... )
        >>> space = convnet_space((8, 8), max_layers=2)
        >>> found = rankwise.minimize(error, space, trials=4, seed=0, grow="layers")
        >>> len(found.trials)
        4
    """

    def __init__(self, X: Any, y: Any, *, inherit: bool = False, **parameters: Any) -> None:
        if parameters.get("validation") is None:
            raise OptionError("networks are compared on rows apart: say validation=0.2 or (X, y)")
        self.X, self.y, self.inherit, self.parameters = X, y, inherit, parameters
        self._forebears: dict[tuple[type, ...], ConvNetClassifier] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_forebears": {}}  # they may be many, and are no part of a job

    def __call__(self, configuration: Mapping[str, Any], on_epoch: Report | None = None) -> float:
        """The loss of a configuration; NaN if training was ended before the first epoch was over.

        Args:
            configuration: of `convnet_space`.
            on_epoch: called after every epoch, as `ConvNetClassifier` says, beside the one that
                may be among the parameters.

        Raises:
            GeometryError, TrainingDiverged, NetworkTooLarge: it cannot be trained.
        """
        others = dict(self.parameters)
        if on_epoch is not None:
            others["on_epoch"] = _both(others.get("on_epoch"), on_epoch)
        network = ConvNetClassifier.from_configuration(configuration, **others)
        network.fit(self.X, self.y, initial=self.forebear(network) if self.inherit else None)
        if network.best_score_ is None:
            return math.nan
        if self.inherit:
            self._remember(network)
        return 1.0 - network.best_score_

    def trial_objective(
        self, space: ConfigurationSpace | Mapping[str, Any] | Encoder
    ) -> Callable[[optuna.Trial], float]:
        """The objective of an Optuna study that minimizes, with pruning after every epoch.

        A network that cannot be trained is a pruned trial, with the reason as its user attribute
        "error": the study goes on.
        """
        encoder = space if isinstance(space, Encoder) else Encoder(space)

        def objective(trial: optuna.Trial) -> float:
            import optuna

            try:
                return self(suggest(trial, encoder), report_to(trial))
            except RankwiseError as error:
                trial.set_user_attr("error", f"{type(error).__name__}: {error}")
                raise optuna.TrialPruned(str(error)) from error

        return objective

    def forebear(self, network: ConvNetClassifier) -> ConvNetClassifier | None:
        """The best network so far from which another one can be grown."""
        kinds = _kinds(network)
        fitting = [
            old
            for old_kinds, old in self._forebears.items()
            if old_kinds == kinds[: len(old_kinds)]
        ]
        return max(fitting, key=_score, default=None)

    def _remember(self, network: ConvNetClassifier) -> None:
        known = self._forebears.get(_kinds(network))
        if known is None or _score(network) > _score(known):
            self._forebears[_kinds(network)] = network


def report_to(trial: optuna.Trial) -> Report:
    """What reports the loss of every epoch to an Optuna trial, and ends it if its pruner says so.

    What is reported is one minus the score.

    Raises:
        ValueError: the trial's study does not minimize. (No error of rankwise's own: it is about
            the study, not about one of its networks.)
    """
    study = getattr(trial, "study", None)
    if study is not None and study.direction.name != "MINIMIZE":
        raise ValueError('losses of networks are minimized: create_study(direction="minimize")')

    def report(epoch: int, score: float | None, network: ConvNetClassifier) -> None:
        import optuna

        assert score is not None
        trial.report(1.0 - score, epoch)
        if trial.should_prune():
            raise optuna.TrialPruned(f"after epoch {epoch}")

    return report


def _both(first: Report | None, second: Report) -> Report:
    """Two reports as one; training ends if either says so."""

    def report(epoch: int, score: float | None, network: ConvNetClassifier) -> bool:
        answers = [call(epoch, score, network) for call in (first, second) if call is not None]
        return any(answer is True for answer in answers)

    return report


def _kinds(network: ConvNetClassifier) -> tuple[type, ...]:
    return tuple(type(layer) for layer in network.layers)


def _score(network: ConvNetClassifier) -> float:
    return network.best_score_ if network.best_score_ is not None else float("-inf")
