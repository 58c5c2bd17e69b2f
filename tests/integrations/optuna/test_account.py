"""What the sampler says: which past studies were used, what trials are based on, fall-backs."""

from __future__ import annotations

import logging
import pickle
import warnings

import numpy as np
import optuna
import pytest

from rankwise import RankwiseSampler
from rankwise.archive.used_past import UsedPast
from rankwise.errors import ArchiveError, FallbackError
from rankwise.integrations.optuna.account import Account
from rankwise.report import write_report
from rankwise.strategies.model_based import ModelStrategy

LINE = (
    "Learnt from 6 past studies (120 trials); 2 left out (1 multi-objective, 1 without finished "
    "trials)."
)


@pytest.fixture(autouse=True)
def quiet():
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield


def loss(trial, shift=0.0):
    x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
    return (x - 0.3 - shift) ** 2 + (y - 0.6) ** 2


@pytest.fixture(scope="module")
def url():
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    address = optuna.storages.InMemoryStorage()
    for k in range(6):
        sampler = optuna.samplers.RandomSampler(seed=k)
        study = optuna.create_study(storage=address, study_name=f"past-{k}", sampler=sampler)
        study.optimize(lambda trial, k=k: loss(trial, 0.02 * k), n_trials=20)
    optuna.create_study(storage=address, study_name="two", directions=["minimize", "minimize"])
    optuna.create_study(storage=address, study_name="empty")
    return address


def run(url, objective, name, trials=14, **options):
    sampler = RankwiseSampler(url, like=["past-*", "two", "empty"], seed=0, **options)
    study = optuna.create_study(storage=url, study_name=name, sampler=sampler, load_if_exists=True)
    study.optimize(objective, n_trials=trials)
    return study, sampler


def test_one_line_per_study_says_what_was_used(url, monkeypatch):
    said = []
    optuna.logging.set_verbosity(optuna.logging.INFO)  # the default
    logger = logging.getLogger("optuna.rankwise")
    monkeypatch.setattr(logger, "handle", lambda record: said.append(record.getMessage()))
    study, sampler = run(url, loss, "line", trials=4)
    assert said == [f"{LINE} sampler.past(study) lists them."]
    assert str(sampler.past_) == LINE and sampler.past(study) == sampler.past_
    assert sampler.past_.studies == {f"past-{k}": 20 for k in range(6)}
    assert set(sampler.past_.left_out) == {"two", "empty"}
    assert RankwiseSampler(url, like=["past-*", "two", "empty"]).past(study) == sampler.past_
    assert UsedPast.from_dict(study.user_attrs["rankwise:past"]) == sampler.past_
    assert pickle.loads(pickle.dumps(sampler)).past_ == sampler.past_


def test_each_trial_says_what_it_is_based_on_and_the_report_shows_it(url, tmp_path):
    study, sampler = run(url, loss, "trials")
    first, *later = (t.user_attrs for t in study.trials)
    assert first["rankwise:origin"] == "past studies" and "rankwise:expected" not in first
    for facts in later:
        assert facts["rankwise:origin"] in {"past studies and this study", "check of past studies"}
        assert facts["rankwise:expected"]["std"] > 0 and 0 <= facts["rankwise:trust"] <= 1
        assert 0 < sum(facts["rankwise:sources"].values()) <= facts["rankwise:influence"] + 1e-9
    # After the last trial, also for another process.
    stored = study.user_attrs["rankwise:evidence"]
    assert stored == sampler.evidence(study).to_dict() and stored["trials"] == 14
    assert sampler.trust(study) == stored["trust"] > 0.8
    page = write_report(study, tmp_path / "report.html").read_text("utf-8")
    for text in (LINE, "based on", str(sampler.evidence(study))[1:], "Transfer trust"):
        assert text in page
    assert "left out" in page and "objectives (minimize, minimize); one is wanted" in page


@pytest.mark.parametrize("kind", ["noise", "opposite"])
def test_trust_falls_if_past_studies_mislead(url, kind):
    trusts = []
    for seed in range(3):
        rng = np.random.default_rng(seed)

        def misled(trial, rng=rng):
            value = loss(trial)
            return -value if kind == "opposite" else rng.normal()

        study, sampler = run(url, misled, f"{kind}-{seed}", trials=15)
        trusts.append(sampler.trust(study))
    assert np.mean(trusts) < (0.1 if kind == "opposite" else 0.4)


def test_enqueued_trials_say_so(url):
    sampler = RankwiseSampler(None, seed=0)
    study = optuna.create_study(sampler=sampler)
    study.enqueue_trial({"x": 0.5})
    study.optimize(loss, n_trials=8)
    assert study.trials[0].user_attrs["rankwise:origin"] == "enqueued"
    assert {t.user_attrs["rankwise:origin"] for t in study.trials[1:]} <= {
        "random",
        "initial design",
        "this study",
    }
    assert sampler.past_ is None and sampler.past(study) is None


def test_fall_backs_are_counted_and_repeated_rarely(caplog):
    account = Account(strict=False)
    with caplog.at_level(logging.WARNING):
        for _ in range(120):
            account.fall_back("sampled at random", "no model")
    assert [r.getMessage() for r in caplog.records] == [
        "no model; sampled at random",
        "no model; sampled at random (10 times so far)",
        "no model; sampled at random (100 times so far)",
    ]
    assert account.fallbacks == {"sampled at random": 120}


def broken(self, history, pending, seen, rng):
    raise ArithmeticError("singular")


def test_a_failing_model_is_a_fall_back_and_an_error_if_strict(url, monkeypatch, caplog):
    monkeypatch.setattr(ModelStrategy, "_search", broken)
    with caplog.at_level(logging.WARNING):
        study, _ = run(url, loss, "broken", trials=12)
    assert {t.user_attrs["rankwise:origin"] for t in study.trials} == {"random"}
    said = [r.getMessage() for r in caplog.records if "singular" in r.getMessage()]
    assert len(said) == 2 and "10 times" in said[1]
    with pytest.raises(FallbackError, match="singular"):
        run(url, loss, "strict", trials=2, strict=True)


def test_strict_needs_past_studies(tmp_path):
    empty = optuna.storages.InMemoryStorage()
    for archive, error in ((empty, ArchiveError), (str(tmp_path / "no.csv"), FallbackError)):
        sampler = RankwiseSampler(archive, seed=0, strict=True)
        study = optuna.create_study(sampler=sampler)
        for _ in range(2):  # also if the study catches errors, and again when it is tried again
            with pytest.raises(error, match=r"past stud"):
                study.optimize(loss, n_trials=1, catch=(Exception,))
        assert {t.state for t in study.trials} == {optuna.trial.TrialState.FAIL}


def test_used_past_is_read_without_trusting_it():
    for bad in (None, 3, {}, {"studies": 1, "left_out": {}}, {"studies": {"a": "b"}}):
        assert UsedPast.from_dict(bad) is None
    assert str(UsedPast()) == "No past studies were found: proposals use this study alone."
    assert str(UsedPast({}, {"b": "odd"})).startswith("No past study can be used: proposals use ")
    assert str(UsedPast({"a": 1})) == "Learnt from 1 past study (1 trial)."
    small = "The 5 past studies are not used: they are too small"
    assert str(UsedPast({}, {"b": "odd"}, small)) == f"{small}; 1 left out (1 for other reasons)."
