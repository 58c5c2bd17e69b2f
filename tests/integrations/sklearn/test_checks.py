"""RankwiseSearchCV passes scikit-learn's own checks of estimators."""

from __future__ import annotations

import pytest
from sklearn.base import is_regressor
from sklearn.linear_model import Lasso, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from rankwise import RankwiseSearchCV

ARGUMENTS = {"n_trials": 2, "cv": 2, "random_state": 0, "error_score": "raise", "method": "random"}
SEARCHES = [
    RankwiseSearchCV(LogisticRegression(), {"C": (0.1, 10.0, "log")}, **ARGUMENTS),
    RankwiseSearchCV(make_pipeline(StandardScaler(), Ridge(random_state=0)), **ARGUMENTS),
    RankwiseSearchCV(Ridge(), {"alpha": [0.1, 1.0, 2.0]}, successive=True, **ARGUMENTS),
    RankwiseSearchCV([Ridge(), Lasso()], [{"alpha": (0.1, 1.0)}] * 2, **ARGUMENTS),
]


def not_expected(search):
    """What `RandomizedSearchCV` does not pass either."""
    if not is_regressor(search):
        return {}
    return {"check_supervised_y_2d": "no warning that y has two dimensions"}


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(SEARCHES, expected_failed_checks=not_expected)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
