"""Result: what a run found."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rankwise.optimizer import Trial
from rankwise.task import OK
from rankwise.types import Configuration

if TYPE_CHECKING:
    import optuna
    import pandas as pd

_MINIMIZE = "minimize"


@dataclass(frozen=True)
class Result:
    """The trials of a run, with values in the user's own direction.

    Attributes:
        trials: in the order in which they were proposed.
        direction: "minimize" or "maximize".
        method: that proposed them.
        seed: repeats the run when given again.
        stopped: why the run ended: "trials", "seconds", "target", "exhausted" (a finite space
            has no more), "interrupted" (Ctrl-C) or "callback"; "" while it runs.
        seconds: that the run took, all in all.
        study: the Optuna study that records the run.
        unsaved: numbers of the trials that could not be written to the storage.
    """

    trials: list[Trial]
    direction: str
    method: str
    seed: int
    stopped: str
    seconds: float
    study: optuna.Study = field(repr=False)
    unsaved: list[int] = field(default_factory=list)

    @property
    def best_trial(self) -> Trial | None:
        """The best trial, the earliest of several; None if no evaluation succeeded."""
        sign = 1.0 if self.direction == _MINIMIZE else -1.0
        succeeded = (t for t in self.trials if t.status == OK)
        return min(succeeded, key=lambda t: sign * t.value, default=None)

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
        """One row per trial: number, status, value, best so far, seconds, error, params_*.

        A hyperparameter that is inactive in a trial is missing there.
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
        names = dict.fromkeys(name for t in self.trials for name in t.configuration)
        for name in names:
            values = [t.configuration.get(name) for t in self.trials]
            whole = all(type(v) is int or v is None for v in values) and None in values
            # An integer that is missing somewhere would otherwise become a float everywhere.
            frame[f"params_{name}"] = pd.array(values, dtype="Int64") if whole else values
        return frame

    def top(self, n: int = 5) -> pd.DataFrame:
        """The n best trials of `history`, best first."""
        ascending = self.direction == _MINIMIZE
        succeeded = self.history[self.history["status"] == OK]
        return succeeded.sort_values("value", ascending=ascending, kind="stable").head(n)

    def plot(self, path: Any = None) -> Any:
        """Draw the progress of the run: each trial and the best so far.

        Args:
            path: where to write it: ".html" gives an interactive page that works offline, ".png",
                ".svg" or ".pdf" a picture. None writes nothing.

        Returns:
            A plotly figure for ".html", otherwise a matplotlib figure.
        """
        from rankwise.plots import draw_progress

        return draw_progress(self, path)

    def plot_past(self, path: Any = None) -> Any:
        """Draw which past studies counted, over the trials, as far as the method can say.

        Args:
            path: where to write it: ".png", ".svg" or ".pdf". None writes nothing.

        Returns:
            A matplotlib figure.

        Raises:
            OptionError: no trial has such a record.
        """
        from rankwise.plots import draw_past

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
        else:
            lines.append(f"best value {self.best_value:.6g} in trial {self.best_trial.number}")
            lines.append(f"best configuration {self.best_configuration}")
        if succeeded < len(self.trials):
            lines.append(f"{len(self.trials) - succeeded} trials without a value: see history")
        if self.unsaved:
            lines.append(f"not written to the storage: trials {self.unsaved}")
        return "\n".join(lines)
