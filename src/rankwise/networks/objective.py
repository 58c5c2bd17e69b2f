"""Objective for tuning a network: train the network of a configuration and score it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rankwise.errors import OptionError, RankwiseError
from rankwise.networks.classifier import ConvNetClassifier
from rankwise.space.encoder import Encoder
from rankwise.storage.suggest_space import suggest

if TYPE_CHECKING:
    import optuna
    from ConfigSpace import ConfigurationSpace

Report = Callable[[int, float | None, ConvNetClassifier], Any]


class NetworkObjective:
    """Objective that trains the network of a configuration of `convnet_space`.

    The loss is one minus the validation score. Pass the object itself to `rankwise.minimize`. For
    Optuna's `study.optimize`, use `trial_objective`. Both report every epoch, so that pruners
    (`RankwisePruner`, successive halving, Hyperband) can stop bad trainings.

    With `inherit`, a network starts from the weights of the best earlier network from which it
    can be grown: one with the same or a smaller number of layers, of the same kinds in the same
    order. Losses then depend on the earlier trainings. A resumed run starts without earlier
    networks. Weights are passed on within one process only, so `inherit` has no effect with
    `n_jobs` or `timeout`, which evaluate in other processes.

    Args:
        X: images (n, h, w) or (n, h, w, c), or rows (n, d) with `input_shape`.
        y: labels (n,).
        inherit: start each network from an earlier, smaller network.
        **parameters: parameters of `ConvNetClassifier`, which override the configuration.
            `validation` is required: a share of the rows, or `(X, y)`.

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
            raise OptionError("validation rows are required: pass validation=0.2 or (X, y)")
        self.X, self.y, self.inherit, self.parameters = X, y, inherit, parameters
        self._forebears: dict[tuple[type, ...], ConvNetClassifier] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_forebears": {}}  # too large to send to other processes

    def __call__(
        self,
        configuration: Mapping[str, Any],
        on_epoch: Report | None = None,
        report: Callable[[float, int], Any] | None = None,
    ) -> float:
        """Compute the loss of a configuration; NaN if training ended during the first epoch.

        Args:
            configuration: configuration of `convnet_space`.
            on_epoch: additional callback after every epoch, see `ConvNetClassifier`.
            report: told the loss and the number of every epoch; `rankwise.minimize` gives it, and
                its pruner may stop the training.

        Raises:
            GeometryError, TrainingDiverged, NetworkTooLarge: the network cannot be trained.
        """
        others = dict(self.parameters)
        for extra in (on_epoch, None if report is None else _losses_to(report)):
            if extra is not None:
                others["on_epoch"] = _both(others.get("on_epoch"), extra)
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
        """Make an objective for an Optuna study that minimizes, with pruning after every epoch.

        If a network cannot be trained, its trial is pruned and the user attribute "error" has the
        reason. The study continues.

        Args:
            space: space that `convnet_space` returned, or its encoder.
        """
        encoder = space if isinstance(space, Encoder) else Encoder(space)

        def objective(trial: optuna.Trial) -> float:
            import optuna

            report = report_to(trial)
            try:
                return self(suggest(trial, encoder), report)
            except RankwiseError as error:
                trial.set_user_attr("error", f"{type(error).__name__}: {error}")
                raise optuna.TrialPruned(str(error)) from error

        return objective

    def forebear(self, network: ConvNetClassifier) -> ConvNetClassifier | None:
        """Return the best earlier network from which `network` can be grown, or None."""
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
    """Make a callback that reports the loss of every epoch to an Optuna trial and may prune it.

    The reported loss is one minus the score.

    Raises:
        ValueError: the trial's study does not minimize. It is no `RankwiseError`, because
            `trial_objective` catches those as failures of one network.
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


def _losses_to(report: Callable[[float, int], Any]) -> Report:
    """Make a callback that reports the loss of every epoch."""

    def on_epoch(epoch: int, score: float | None, network: ConvNetClassifier) -> None:
        assert score is not None
        report(1.0 - score, epoch)

    return on_epoch


def _both(first: Report | None, second: Report) -> Report:
    """Combine two callbacks; training ends if one of them returns True."""

    def report(epoch: int, score: float | None, network: ConvNetClassifier) -> bool:
        answers = [call(epoch, score, network) for call in (first, second) if call is not None]
        return any(answer is True for answer in answers)

    return report


def _kinds(network: ConvNetClassifier) -> tuple[type, ...]:
    return tuple(type(layer) for layer in network.layers)


def _score(network: ConvNetClassifier) -> float:
    return network.best_score_ if network.best_score_ is not None else float("-inf")
