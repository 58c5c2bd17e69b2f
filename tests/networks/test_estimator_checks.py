"""ConvNetClassifier passes scikit-learn's own checks of estimators."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from rankwise.networks import ConvNetClassifier, Dense

NETWORKS = [ConvNetClassifier((Dense(20, "tanh"),), random_state=0)]


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(NETWORKS)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
