"""Built-in studies for searches and samplers: what is matched, and what is said."""

from __future__ import annotations

import warnings

import numpy as np
import optuna
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from rankwise import RankwiseSampler, RankwiseSearchCV
from rankwise.archive import open_archive
from rankwise.builtin import records
from rankwise.builtin.metrics import recorded_metric
from rankwise.errors import ArchiveError, FallbackError, RunWarning, UnknownNameError
from rankwise.estimators import choice_of, space_from, space_of
from rankwise.estimators.built_in import builtin_past, canonical, sentence
from rankwise.estimators.builtin_source import studies_at
from rankwise.space.encoder import Encoder

X, Y = make_classification(60, 4, random_state=0)


def past_of(estimator, space=None, scoring="accuracy"):
    made = space_of(estimator) if space is None else space_from(estimator, space)
    encoder = Encoder(made.space)
    return builtin_past(estimator, made, encoder, scoring), encoder


def test_a_pipeline_has_the_past_of_its_estimator_and_needs_no_fitting():
    found, encoder = past_of(make_pipeline(StandardScaler(), SVC()))
    assert found.learners == ("svc",) and len(found.tasks) == 79 and not found.notes
    assert found.surrogate is not None and found.tasks[0].X.shape == (65, encoder.n_columns)
    assert encoder.decode(found.tasks[0].X[:1]) == [encoder.default]


def test_a_study_of_roc_auc_learns_from_records_of_roc_auc():
    found, _ = past_of(SVC(), scoring="roc_auc")
    known = records.read_records("svc", "classification")
    rows = known.rows(0)
    assert np.allclose(found.tasks[0].y, -known.scores["roc_auc"][rows], equal_nan=True)
    assert not np.allclose(found.tasks[0].y, -known.scores["accuracy"][rows])


def test_several_estimators_share_the_data_sets():
    parts = [LogisticRegression(), make_pipeline(StandardScaler(), SVC())]
    space = choice_of(parts)
    encoder = Encoder(space.space)
    found = builtin_past(parts[0], space, encoder, "roc_auc")
    assert len(found.tasks) == 79 and len(found.tasks[0]) == 130
    names = {c["estimator"] for c in encoder.decode(found.tasks[0].X)}
    assert names == {"logistic-regression", "svc"}


def test_names_of_the_users_own_space_are_matched_and_ranges_are_cut():
    space = {"C": (0.1, 10.0, "log"), "gamma": (1e-3, 1.0, "log"), "tol": (1e-4, 1e-2, "log")}
    found, encoder = past_of(SVC(), space)
    assert found.notes == ("not in the built-in past, learnt from this study alone: tol",)
    rows = np.concatenate([task.X for task in found.tasks])
    inside = encoder.decode(rows)
    assert all(0.1 <= c["C"] <= 10 and 1e-3 <= c["gamma"] <= 1 for c in inside)
    assert len({c["gamma"] for c in inside}) > 100 and len({c["tol"] for c in inside}) == 1


def test_nothing_is_used_where_nothing_is_known():
    assert past_of(SVC(), {"shrinking": [True, False]})[0] is None
    assert past_of(Ridge(), {"alpha": (1e-3, 1.0, "log")}, "r2")[0] is not None


def test_synonyms_are_those_of_the_learner():
    assert canonical("clf__eta", "xgboost") == canonical("learning_rate", "lightgbm")
    assert canonical("lambda_l2", "lightgbm") == canonical("reg_lambda", "xgboost")
    assert canonical("alpha", "ridge") == "alpha"


@pytest.mark.parametrize(
    ("scoring", "recorded", "expected"),
    [
        ("roc_auc_ovr", ("accuracy", "roc_auc"), ("roc_auc", True)),
        ("f1_macro", ("accuracy", "balanced_accuracy"), ("balanced_accuracy", False)),
        ("neg_log_loss", ("accuracy", "roc_auc"), ("roc_auc", False)),
        ("my_score", ("r2", "mae"), ("r2", False)),
        ("neg_mean_squared_error", ("r2", "rmse"), ("rmse", True)),
    ],
)
def test_metrics(scoring, recorded, expected):
    assert recorded_metric(scoring, recorded) == expected


# ---------------------------------------------------------------------- the search


def search(**options):
    return RankwiseSearchCV(SVC(), n_trials=3, cv=2, random_state=0, **options).fit(X, Y)


def test_a_search_uses_the_built_in_past_unless_told_otherwise(tmp_path):
    address = f"sqlite:///{tmp_path}/a.db"
    first = search(archive=address, scoring="f1")
    assert len(first.builtin_) == 79 and first.past_ == []
    assert first.past_text_.startswith("learning from 79 built-in studies of svc (2026-11)")
    assert "balanced_accuracy" in first.past_text_
    alone = search(archive=address, past=None)
    assert alone.builtin_ == alone.past_ == [] and alone.past_text_ == ""
    assert search(archive=address, past="builtin").past_ == []
    own = search(archive=address, past="own")
    assert own.builtin_ == [] and len(own.past_) == 3
    both = search(archive=address)
    assert len(both.past_) == 4 and "and 4 of your own" in both.past_text_


def test_a_damaged_file_is_a_warning(monkeypatch):
    def damaged(*_):
        raise records.ArchiveError("the built-in past is damaged")

    monkeypatch.setattr("rankwise.estimators.built_in.read_records", damaged)
    with pytest.warns(RunWarning, match="damaged; the search goes on without it"):
        found = search()
    assert found.builtin_ == []


def test_sentence():
    assert sentence(None, 0) == ""
    assert (
        sentence(None, 2) == "learning from 2 past studies of your own; past=None turns this off"
    )


# ---------------------------------------------------------------------- archives and samplers


def test_an_archive_of_built_in_studies():
    archive = open_archive("builtin:ridge:regression:mae", like="a*")
    assert archive.studies and archive.studies[0].direction == "minimize"
    assert archive.space.distributions["alpha"].log
    with pytest.raises(UnknownNameError, match="svc"):
        open_archive("builtin:svm")
    with pytest.raises(UnknownNameError, match="rmse"):
        RankwiseSampler("builtin:ridge:regression:mape")


def test_studies_take_the_form_that_is_asked_for():
    known = {
        "m__max_depth": optuna.distributions.CategoricalDistribution([2, 8]),
        "m__min_samples_leaf": optuna.distributions.FloatDistribution(1, 50, log=True),
    }
    study = studies_at("builtin:decision-tree:regression", known)[0]
    assert {p["m__max_depth"] for p in study.params} == {2, 8}
    assert isinstance(
        study.distributions["m__min_samples_leaf"], type(known["m__min_samples_leaf"])
    )
    assert "max_depth" not in study.distributions


def test_a_sampler_starts_from_built_in_studies_with_the_objectives_names(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked = []

    def objective(trial):
        asked.append(trial.suggest_float("model__alpha", 1e-3, 1e3, log=True))
        return abs(np.log10(asked[-1]) - 1) + 0 * trial.suggest_float("other", 0, 1)

    sampler = RankwiseSampler(["builtin:ridge:regression"], seed=0)
    study = optuna.create_study(sampler=sampler)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        study.optimize(objective, n_trials=3)
    assert "model__alpha" in sampler._past.names and 1e-2 < asked[0] < 1e3
    assert sampler.trust(study) is not None


@pytest.fixture
def ridge_is_damaged(monkeypatch):
    def read(learner, kind):
        if learner == "ridge":
            raise ArchiveError("the built-in past is damaged")
        return read_records(learner, kind)

    read_records = records.read_records
    monkeypatch.setattr("rankwise.estimators.builtin_source.read_records", read)


@pytest.mark.filterwarnings("ignore:the built-in past is damaged")
def test_a_damaged_file_does_not_cost_the_other_archives(tmp_path, ridge_is_damaged, caplog):
    def objective(trial):
        return abs(trial.suggest_float("alpha", 1e-3, 1e3, log=True) - 1)

    url, quiet = f"sqlite:///{tmp_path}/mine.db", optuna.samplers.RandomSampler(seed=0)
    for k in range(3):
        mine = optuna.create_study(storage=url, study_name=f"mine-{k}", sampler=quiet)
        mine.optimize(objective, n_trials=6)
    sources = ["builtin:ridge:regression", url]
    with pytest.warns(RunWarning, match="damaged; the other past studies are used"):
        archive = open_archive(sources)
    assert [s.name for s in archive.studies] == ["mine-0", "mine-1", "mine-2"]
    assert archive.left_out == {"builtin:ridge:regression": "the built-in past is damaged"}
    with pytest.raises(ArchiveError, match="damaged"):  # nothing else was asked for
        open_archive(sources[:1])

    sampler = RankwiseSampler(sources, seed=0)
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=1)
    assert "alpha" in sampler._past.names and "damaged; using the other past" in caplog.text
    strict = optuna.create_study(sampler=RankwiseSampler(sources, seed=0, strict=True))
    with pytest.raises(FallbackError, match="damaged"):
        strict.optimize(objective, n_trials=1)


def test_a_sampler_goes_on_without_a_damaged_file(monkeypatch, caplog):
    def damaged(*_):
        raise records.ArchiveError("the built-in past is damaged")

    monkeypatch.setattr("rankwise.estimators.builtin_source.read_records", damaged)
    sampler = RankwiseSampler("builtin:ridge:regression:mae", seed=0)
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda trial: trial.suggest_float("alpha", 1e-3, 1e3, log=True), n_trials=2)
    assert len(study.trials) == 2
    assert "the built-in past is damaged); proposing from this study alone" in caplog.text
