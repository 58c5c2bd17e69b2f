"""Transfer trust: rank agreement between the predictions of past studies and the trials."""

from __future__ import annotations

import numpy as np
import pytest

from rankwise.surrogates.empirical_bayes.past_functions import View
from rankwise.surrogates.transfer_trust import (
    NO_EVIDENCE,
    RELATED,
    Evidence,
    between_sources,
    compare_view,
)


def view_of(rng, n, p=12, noise=0.4):
    """Functions of p related source tasks at n configurations, and a new related task."""
    shared = rng.normal(size=n)
    votes = shared[:, None] + noise * rng.normal(size=(n, p))
    return View.of(votes, np.ones(p)), shared + noise * rng.normal(size=n)


@pytest.mark.parametrize(
    ("kind", "low", "high"), [("related", 0.8, 1.0), ("noise", 0.0, 0.3), ("opposite", 0.0, 0.02)]
)
def test_trust_tells_related_studies_from_noise_and_opposite_ones(kind, low, high):
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        view, losses = view_of(rng, 15)
        losses = {"related": losses, "noise": rng.normal(size=15), "opposite": -losses}[kind]
        found.append(compare_view(view, losses).trust)
    assert low <= np.mean(found) <= high


def test_trust_depends_on_ranks_alone():
    view, losses = view_of(np.random.default_rng(0), 10)
    assert compare_view(view, losses) == compare_view(view, np.exp(5 * losses))


def test_equal_or_missing_trials_are_no_evidence():
    view, _ = view_of(np.random.default_rng(0), 6)
    assert compare_view(view, np.ones(6)) == Evidence(6, 0.0, RELATED)
    assert NO_EVIDENCE.trust == RELATED and "too few" in str(NO_EVIDENCE)


def test_trials_that_past_studies_cannot_order_are_weak_evidence():
    """The same low correlation says less where past studies do not predict each other either."""
    rng = np.random.default_rng(3)
    clear, _ = view_of(rng, 12, noise=0.1)
    vague, _ = view_of(rng, 12, noise=5.0)
    assert between_sources(clear).mean() > 0.85 > 0.6 > between_sources(vague).mean()
    losses = rng.normal(size=12)
    losses -= clear.mean * (losses @ clear.mean) / (clear.mean @ clear.mean)
    vague = View(clear.mean, vague.spread, vague.votes, vague.counts)
    assert compare_view(clear, losses).trust < compare_view(vague, losses).trust


def test_the_evidence_is_a_sentence_and_survives_json():
    found = Evidence(14, -0.6, 0.03)
    assert str(found) == "past studies ordered the 14 trials with rank correlation -0.60"
    assert Evidence.from_dict(found.to_dict()) == found
