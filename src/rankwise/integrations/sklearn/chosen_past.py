"""Which past a search learns from: the archive's studies, the built-in ones, or both."""

from __future__ import annotations

import logging
import warnings
from typing import TYPE_CHECKING

from rankwise.errors import ArchiveError, RunWarning
from rankwise.estimators import EstimatorSpace
from rankwise.estimators.built_in import BuiltinPast, builtin_past
from rankwise.run.loop import settle
from rankwise.space.encoder import Encoder
from rankwise.storage.study_log import StudyLog

if TYPE_CHECKING:
    from rankwise.integrations.sklearn.search_cv import RankwiseSearchCV

_logger = logging.getLogger(__name__)


def chosen_past(search: RankwiseSearchCV, log: StudyLog) -> str:
    """The search's `past`, "none" for None; a study of an earlier version goes on with "own"."""
    if log.noted("past") is None and log.noted("past tasks") is not None:
        return "own"
    chosen: str = settle(log, "past", search.past or "none")
    return chosen


def find_builtin(
    search: RankwiseSearchCV, scoring: str, space: EstimatorSpace, encoder: Encoder
) -> BuiltinPast | None:
    """The built-in studies for a metric of a search; a damaged file is a warning."""
    try:
        return builtin_past(search.estimator, space, encoder, scoring)
    except ArchiveError as error:
        warnings.warn(f"{error}; the search goes on without it", RunWarning, stacklevel=2)
        return None


def tell(search: RankwiseSearchCV, text: str) -> None:
    """Log what a search learns from, and print it if the search is verbose."""
    if text:
        _logger.info(text)
        if search.verbose:
            print(text)
