"""Result: the trials of a run and its best configuration."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise.acquisition.hypervolume import hypervolume, on_front, reference_point
from rankwise.errors import check_name
from rankwise.history.task import OK
from rankwise.history.trial import PRUNED, Trial
from rankwise.types import Array, Configuration, sign_of

if TYPE_CHECKING:
    import optuna
    import pandas as pd

COMPROMISE = "compromise"
"""Choice of the trial of the front that is nearest to the best values of all objectives."""
_MINIMIZE = "minimize"
_SHOWN = 10  # trials of the front that the text lists


@dataclass(frozen=True)
class Result:
    """The trials of a run, with values in the user's own direction.

    Attributes:
        trials: the finished trials, in the order of their proposals.
        direction: "minimize" or "maximize"; that of the first objective.
        method: name of the method.
        seed: seed of the run; the same seed gives the same trials.
        stopped: why the run ended: "trials", "seconds", "target", "exhausted" (a finite space
            has no new configuration), "interrupted" (Ctrl-C) or "callback"; "" during the run.
        seconds: total seconds of the run.
        study: the Optuna study that records the run.
        unsaved: numbers of the trials that could not be written to the storage.
        directions: directions of all objectives.
        metrics: names of all objectives; empty if they were not given.
    """

    trials: list[Trial]
    direction: str
    method: str
    seed: int
    stopped: str
    seconds: float
    study: optuna.Study = field(repr=False)
    unsaved: list[int] = field(default_factory=list)
    directions: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()

    @property
    def front(self) -> list[Trial]:
        """The Pareto front: the trials that no other trial dominates, by their first value.

        With one objective it is the best trial, and others with an equal value.
        """
        losses = self._losses
        front = [self.trials[k] for k in np.flatnonzero(on_front(losses))]
        return sorted(front, key=lambda trial: trial.value)

    @property
    def hypervolume(self) -> Array:
        """Hypervolume (n,) that the front dominates after each trial.

        It is the share of the box between the best values of all objectives and a reference point
        behind the worst ones, so that it is between 0 and 1. It compares trials of one run; two
        runs have different boxes.
        """
        losses = self._losses
        if np.isnan(losses).any(axis=1).all():
            return np.zeros(len(losses))
        reference, best = reference_point(losses), np.nanmin(losses, axis=0)
        scaled = (losses - best) / (reference - best)
        return np.array(
            [hypervolume(scaled[: n + 1], np.ones(scaled.shape[1])) for n in range(len(scaled))],
            dtype=float,
        )

    @property
    def names(self) -> list[str]:
        """Names of the objectives; "value 1", "value 2" and so on if none were given."""
        return list(self.metrics) or [f"value {k + 1}" for k in range(len(self.directions))]

    @property
    def several(self) -> bool:
        """True if there is more than one objective."""
        return len(self.directions) > 1

    @property
    def _losses(self) -> Array:
        """Losses (n, m); NaN for the trials without a value."""
        signs = [sign_of(direction) for direction in self.directions or (self.direction,)]
        rows = [
            (t.turned(signs).values or (signs[0] * t.value,) * len(signs))
            if t.status == OK
            else (math.nan,) * len(signs)
            for t in self.trials
        ]
        return np.array(rows, dtype=float).reshape(len(rows), len(signs))

    @property
    def best_trial(self) -> Trial | None:
        """The best trial, the earliest in a tie; None if no evaluation succeeded.

        With several objectives it is a compromise: the trial of the front that is nearest to the
        best values of all objectives, each scaled to the range of the front.
        """
        sign = sign_of(self.direction)
        if self.several:
            front = self.front
            if not front:
                return None
            values = np.array([trial.values for trial in front])
            values = values * [sign_of(direction) for direction in self.directions]
            width = np.ptp(values, axis=0)
            scaled = (values - values.min(axis=0)) / np.where(width > 0, width, 1.0)
            return front[int(np.argmin(np.square(scaled).sum(axis=1)))]
        succeeded = (t for t in self.trials if t.status == OK)
        return min(succeeded, key=lambda t: sign * t.value, default=None)

    def chosen(self, name: str | None = None) -> Trial | None:
        """The trial of the front with the best value of one objective.

        Args:
            name: name of the objective; None for the first, "compromise" for `best_trial`.

        Raises:
            UnknownNameError: there is no such objective; the message lists them.
        """
        names = self.names or [""]
        wanted = names[0] if name is None else name
        check_name("objective", wanted, [*names, COMPROMISE])
        if wanted == COMPROMISE or not self.several:
            return self.best_trial
        k = names.index(wanted)
        sign = sign_of(self.directions[k])
        return min(self.front, key=lambda trial: sign * trial.values[k], default=None)

    @property
    def best_configuration(self) -> Configuration | None:
        """The configuration of the best trial; None if no evaluation succeeded."""
        return self.best_trial.configuration if self.best_trial else None

    @property
    def best_value(self) -> float:
        """The value of the best trial; NaN if no evaluation succeeded."""
        return self.best_trial.value if self.best_trial else math.nan

    @cached_property
    def history(self) -> pd.DataFrame:
        """Data frame with a row per trial: number, status, value, best_value, params_* and others.

        An inactive hyperparameter has a missing value.
        """
        import pandas as pd

        frame = pd.DataFrame(
            {
                "number": [t.number for t in self.trials],
                "status": [t.status for t in self.trials],
                "value": [t.value for t in self.trials],
                "seconds": [t.cost for t in self.trials],
                "proposal_seconds": [t.proposal_seconds for t in self.trials],
                "error": [t.error for t in self.trials],
            }
        )
        running = (
            frame["value"].cummin() if self.direction == _MINIMIZE else frame["value"].cummax()
        )
        frame.insert(3, "best_value", running.ffill())
        if self.several:
            frame = frame.drop(columns="best_value")
            for k, name in enumerate(self.names):
                frame[f"values_{name}"] = [
                    t.values[k] if t.values else np.nan for t in self.trials
                ]
            frame["on_front"] = on_front(self._losses)
            frame["hypervolume"] = self.hypervolume
        names = dict.fromkeys(name for t in self.trials for name in t.configuration)
        for name in names:
            values = [t.configuration.get(name) for t in self.trials]
            whole = all(type(v) is int or v is None for v in values) and None in values
            # With a missing value, pandas would turn the other integers into floats.
            frame[f"params_{name}"] = pd.array(values, dtype="Int64") if whole else values
        return frame

    def top(self, n: int = 5) -> pd.DataFrame:
        """The n best trials of `history`, best first; of several objectives the first decides."""
        ascending = self.direction == _MINIMIZE
        succeeded = self.history[self.history["status"] == OK]
        return succeeded.sort_values("value", ascending=ascending, kind="stable").head(n)

    def plot(self, path: Any = None) -> Any:
        """Draw the progress of the run: each trial and the best so far.

        With several objectives: the trials with their front, and the hypervolume.

        Args:
            path: file to write: ".html" for an interactive page that works offline, or ".png",
                ".svg" or ".pdf" for a picture. None writes no file.

        Returns:
            A plotly figure for ".html", otherwise a matplotlib figure.

        Raises:
            MissingPackageError: the extra `plot` is not installed.
        """
        if self.several:
            from rankwise.run.front_plot import draw_front

            return draw_front(self, path)
        from rankwise.run.plots import draw_progress

        return draw_progress(self, path)

    def plot_past(self, path: Any = None) -> Any:
        """Draw the weights of past studies over the trials, for methods that report them.

        Args:
            path: file to write: ".png", ".svg" or ".pdf". None writes no file.

        Returns:
            A matplotlib figure.

        Raises:
            MissingPackageError: the extra `plot` is not installed.
            OptionError: no trial has recorded weights.
        """
        from rankwise.run.plots import draw_past

        return draw_past(self, path)

    def __str__(self) -> str:
        succeeded = sum(t.status == OK for t in self.trials)
        lines = [
            f"{len(self.trials)} trials by {self.method!r} in {self.seconds:.1f} s "
            f"(seed {self.seed}, stopped by {self.stopped or 'nothing yet'})"
        ]
        if self.best_trial is None:
            errors = [t.error for t in self.trials if t.error]
            lines.append(
                "no trial succeeded" + (f"; the last error: {errors[-1]}" if errors else "")
            )
        elif self.several:
            lines.append(f"{len(self.front)} trials on the Pareto front")
            for trial in self.front[:_SHOWN]:
                pairs = zip(self.names, trial.values, strict=True)
                values = ", ".join(f"{name} {value:.6g}" for name, value in pairs)
                lines.append(f"  trial {trial.number}: {values}")
        else:
            lines.append(f"best value {self.best_value:.6g} in trial {self.best_trial.number}")
            lines.append(f"best configuration {self.best_configuration}")
        stopped = sum(t.status == PRUNED for t in self.trials)
        if stopped:
            lines.append(f"{stopped} trials were stopped early")
        if succeeded + stopped < len(self.trials):
            missing = len(self.trials) - succeeded - stopped
            lines.append(f"{missing} trials without a value: see history")
        if self.unsaved:
            lines.append(f"not written to the storage: trials {self.unsaved}")
        return "\n".join(lines)
