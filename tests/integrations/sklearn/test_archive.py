"""RankwiseSearchCV with an archive: what is recorded, resumed and learnt from."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import joblib
import numpy as np
import optuna
import pytest
from sklearn.base import clone
from support import TESTS
from support.estimators import BOWL, Bowl, bowl_data

from rankwise import Encoder, RankwiseSearchCV, make_space, minimize
from rankwise.archive import open_archive, read_context
from rankwise.archive.past_tasks import past_tasks
from rankwise.errors import RunWarning, StorageError, StudyMismatchError
from rankwise.integrations.sklearn.search_study import began, note_search
from rankwise.storage.study_log import StudyLog

CENTRES = [(0.70, 0.22), (0.74, 0.18), (0.68, 0.17), (0.73, 0.24)]


def search_of(archive=None, **arguments):
    arguments = {"n_trials": 8, "random_state": 0, "cv": 2, **arguments}
    return RankwiseSearchCV(Bowl(), BOWL, archive=archive, **arguments)


def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/searches.db"


@pytest.fixture(scope="module")
def database(tmp_path_factory) -> Path:
    """Searches on data sets whose best configurations are near to each other."""
    folder = tmp_path_factory.mktemp("past")
    for k, centre in enumerate(CENTRES):
        search = search_of(url(folder), name=f"past-{k}", random_state=k, method="random")
        search.fit(bowl_data(*centre))
    return folder / "searches.db"


@pytest.fixture
def archive(database, tmp_path) -> str:
    """A copy of them for one test."""
    shutil.copy(database, tmp_path)
    return url(tmp_path)


def params_of(search) -> list:
    return search.cv_results_["params"]


# ---------------------------------------------------------------------- what is recorded


def test_a_search_is_a_study(tmp_path):
    search = search_of(url(tmp_path), n_trials=3).fit(bowl_data())
    [name] = optuna.get_all_study_names(url(tmp_path))
    assert name == search.study_name_ and name.startswith("bowl-")
    study = optuna.load_study(study_name=name, storage=url(tmp_path))
    assert study.direction.name == "MAXIMIZE"
    assert study.best_value == search.best_score_
    facts = study.user_attrs["rankwise:search"]
    assert facts["estimator"] == "Bowl()" and facts["scoring"] == "score"
    assert (facts["n_splits"], facts["n_rows"], facts["n_columns"]) == (2, 12, 2)
    assert facts["classes"] is None and facts["space"] == ""
    assert read_context(study)["rows"] == 12
    for k, trial in enumerate(study.trials):
        attributes, results = trial.user_attrs, search.cv_results_
        assert trial.params == params_of(search)[k]
        assert attributes["rankwise:folds"] == [
            results["split0_test_score"][k],
            results["split1_test_score"][k],
        ]
        assert attributes["rankwise:fit_seconds"] == pytest.approx(results["mean_fit_time"][k])
        assert attributes["rankwise:seconds"] > 0
        assert "rankwise:proposal_seconds" in attributes
    assert "rankwise:scores" not in study.trials[0].user_attrs


def test_without_context_nothing_is_computed():
    search = search_of(context=None, n_trials=2).fit(bowl_data())
    assert "rankwise:context" not in search.result_.study.user_attrs


def test_the_past_knows_its_data_sets(archive):
    encoder = Encoder(make_space(BOWL))
    log = StudyLog(encoder, storage=archive, name="mine", direction="maximize")
    note_search(log, {})
    tasks = past_tasks(log.study._storage, encoder, before=began(log)).tasks
    assert [task.context["rows"] for task in tasks] == [12.0] * 4
    assert [task.name for task in tasks] == [f"past-{k}" for k in range(4)]
    assert all(len(task) == 8 and task.y.max() > task.y.min() >= 0 for task in tasks)


def test_every_search_is_a_study_of_its_own(tmp_path):
    names = [search_of(url(tmp_path), n_trials=1).fit(bowl_data()).study_name_ for _ in range(3)]
    assert len(set(names)) == 3
    assert len(open_archive(url(tmp_path)).studies) == 3


def test_an_archive_in_memory_is_shared_by_clones():
    archive = optuna.storages.InMemoryStorage()
    search_of(archive, name="first").fit(bowl_data())
    second = clone(search_of(archive)).fit(bowl_data(0.31, 0.62))
    assert second.past_ == ["first"]
    assert len(archive.get_all_studies()) == 2


# ---------------------------------------------------------------------- the past


def test_a_search_with_a_past_starts_better(archive):
    data = bowl_data(0.72, 0.20)
    informed = search_of(archive, n_trials=3).fit(data)
    alone = search_of(n_trials=3).fit(data)
    assert informed.past_ == [f"past-{k}" for k in range(4)] and alone.past_ == []
    first, best = (s.cv_results_["mean_test_score"] for s in (informed, alone))
    assert first[0] > best.max()
    assert informed.trust_ > 0.5 and alone.trust_ is None


def test_options_reach_the_method(archive):
    """With the guard the third of the first trials is drawn at random, so it differs."""
    data, found = bowl_data(0.72, 0.20), []
    for options in (None, {"guard": True}, {"guard": True}):
        search = search_of(archive, n_trials=3, method="rgpe", options=options, name="new")
        found.append(params_of(search.fit(data)))
        optuna.delete_study(study_name="new", storage=archive)
    assert found[0][:2] == found[1][:2] and found[0][2] != found[1][2]
    assert found[1] == found[2]


def test_other_options_for_a_study_that_goes_on_are_told(archive):
    first = {"n_trials": 2, "method": "rgpe", "name": "new", "options": {"guard": True}}
    search_of(archive, **first).fit(bowl_data())
    with pytest.warns(RunWarning, match=r"was begun with options \{'guard': 'True'\}"):
        search_of(archive, **{**first, "n_trials": 3, "options": None}).fit(bowl_data())


def test_what_the_method_believed_is_recorded(archive):
    search = search_of(archive, n_trials=4).fit(bowl_data(0.72, 0.20))
    for number, trial in enumerate(search.result_.study.trials):
        attributes = trial.user_attrs
        assert 0 <= attributes["rankwise:trust"] <= 1
        sources = attributes["rankwise:sources"]
        assert set(sources) <= {f"past-{k}" for k in range(4)}
        assert sum(sources.values()) <= 1 + 1e-9
        if number:
            expected = attributes["rankwise:expected"]
            assert expected["std"] > 0
    # The direction is that of the scores: what is expected of a good one is near 0, from below.
    assert abs(expected["mean"] - trial.value) < 0.2


def test_only_studies_of_the_same_space_are_past(archive):
    other = RankwiseSearchCV(Bowl(), {"x": (0.0, 2.0), "z": (0.0, 1.0)}, archive=archive)
    other.set_params(n_trials=3, cv=2, name="wider").fit(bowl_data())
    minimize(lambda c: c["x"], BOWL, trials=4, storage=archive, name="plain", seed=0)
    search = search_of(archive, n_trials=2, name="mine").fit(bowl_data())
    assert search.past_ == ["past-0", "past-1", "past-2", "past-3", "plain"]


def test_a_method_without_transfer_does_without_the_past(archive):
    searches = [search_of(a, method="gp").fit(bowl_data()) for a in (archive, None)]
    assert params_of(searches[0]) == params_of(searches[1])


def test_what_was_learnt_is_kept_beside_the_archive(archive, tmp_path):
    first = search_of(archive, n_trials=1, name="a").fit(bowl_data(0.72, 0.2))
    models = list(tmp_path.glob("searches.db.rankwise/*.safetensors"))
    assert len(models) == 1
    before = models[0].stat().st_mtime_ns
    optuna.delete_study(study_name="a", storage=archive)
    again = search_of(archive, n_trials=1, name="b").fit(bowl_data(0.72, 0.2))
    assert params_of(again) == params_of(first)
    assert models[0].stat().st_mtime_ns == before


def test_a_folder_that_cannot_be_made_is_no_obstacle(archive, tmp_path):
    (tmp_path / "searches.db.rankwise").write_text("a file in the way")
    with pytest.warns(RunWarning, match="cannot be saved"):
        search = search_of(archive, n_trials=2).fit(bowl_data(0.72, 0.2))
    assert len(search.past_) == 4 and search.trust_ is not None


# ---------------------------------------------------------------------- going on


class StopAt:
    """A scorer that raises when it is called for the n-th time."""

    def __init__(self, n: int, error: type[BaseException]) -> None:
        self.left, self.error = n, error
        self.__name__ = "score"

    def __call__(self, estimator, X, y=None):
        self.left -= 1
        if self.left == 0:
            raise self.error("stop")
        return estimator.score(X)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_search_that_was_stopped_goes_on(tmp_path, error, n_jobs):
    arguments = {"n_jobs": n_jobs, "error_score": "raise", "method": "gp"}
    recorded = {"archive": url(tmp_path), "name": "mine", **arguments}
    with joblib.parallel_config(backend="threading"):
        whole = search_of(scoring=StopAt(0, error), **arguments).fit(bowl_data())
        with pytest.raises(error):
            search_of(scoring=StopAt(9, error), **recorded).fit(bowl_data())
        study = optuna.load_study(study_name="mine", storage=url(tmp_path))
        done = [t for t in study.trials if t.state.name == "COMPLETE"]
        assert len(done) == 4
        counter = StopAt(0, error)
        resumed = search_of(scoring=counter, **recorded).fit(bowl_data())
    assert -counter.left == 2 * (8 - 4)  # two folds of the trials that were not there
    assert params_of(resumed) == params_of(whole)
    for key in ("mean_test_score", "rank_test_score", "split1_test_score"):
        assert list(resumed.cv_results_[key]) == list(whole.cv_results_[key])
    assert resumed.best_index_ == whole.best_index_
    assert resumed.cv_results_["mean_fit_time"].min() > 0
    assert len(optuna.load_study(study_name="mine", storage=url(tmp_path)).trials) == 8


def test_going_on_needs_no_argument_but_the_name(tmp_path):
    whole = search_of(random_state=7).fit(bowl_data())
    enough = {"callbacks": lambda trial, result: len(result.trials) == 5}
    search_of(url(tmp_path), random_state=7, name="mine", **enough).fit(bowl_data())
    resumed = search_of(url(tmp_path), random_state=None, name="mine").fit(bowl_data())
    assert params_of(resumed) == params_of(whole)


def test_a_search_that_is_complete_is_only_fitted_again(tmp_path):
    first = search_of(url(tmp_path), name="mine").fit(bowl_data())
    again = search_of(url(tmp_path), name="mine").fit(bowl_data())
    assert params_of(again) == params_of(first)
    assert list(again.cv_results_["mean_fit_time"]) == list(first.cv_results_["mean_fit_time"])
    assert again.best_estimator_.mean_ is not None
    assert len(again.result_.study.trials) == 8
    assert again.result_.trials == first.result_.trials


def test_several_metrics_are_resumed(tmp_path):
    def both(estimator, X, y=None):
        if estimator.x > 0.7:
            raise ValueError("no score")
        return {"a": estimator.score(X), "b": estimator.x}

    arguments = {"scoring": both, "refit": "b", "name": "mine", "method": "random"}
    with pytest.warns(UserWarning, match="non-finite"):
        whole = search_of(**arguments, n_trials=10).fit(bowl_data())
    assert np.isnan(whole.cv_results_["mean_test_a"][:8]).any()
    with pytest.warns(UserWarning, match="no score"):
        search_of(url(tmp_path), **arguments).fit(bowl_data())
    with pytest.warns(UserWarning, match="non-finite"):
        resumed = search_of(url(tmp_path), **arguments, n_trials=10).fit(bowl_data())
    np.testing.assert_array_equal(
        resumed.cv_results_["mean_test_a"], whole.cv_results_["mean_test_a"]
    )
    assert resumed.best_score_ == whole.best_score_


def test_the_past_of_a_search_is_that_of_its_beginning(archive):
    data = bowl_data(0.72, 0.2)
    whole = search_of(archive, name="whole", n_trials=5).fit(data)
    optuna.delete_study(study_name="whole", storage=archive)
    search_of(archive, name="mine", n_trials=3).fit(data)
    search_of(archive, name="later", n_trials=6, random_state=9).fit(bowl_data(0.1, 0.9))
    resumed = search_of(archive, name="mine", n_trials=5).fit(data)
    assert resumed.past_ == whole.past_
    assert params_of(resumed) == params_of(whole)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": bowl_data(0.5, 0.5)}, "data"),
        ({"data": bowl_data(n=14)}, "n_rows 12, not 14"),
        ({"cv": 3}, "n_splits 2, not 3"),
        ({"scoring": lambda e, X, y: 0.0}, "scoring"),
        ({"successive": True}, "successive"),
    ],
)
def test_a_study_of_something_else_is_not_continued(tmp_path, change, message):
    search_of(url(tmp_path), n_trials=2, name="mine").fit(bowl_data())
    data = change.pop("data", bowl_data())
    with pytest.raises(StudyMismatchError, match=message):
        search_of(url(tmp_path), name="mine", **change).fit(data)


def test_a_study_that_no_search_made_is_not_continued(tmp_path):
    minimize(lambda c: c["x"], BOWL, trials=9, storage=url(tmp_path), name="mine", seed=0)
    with pytest.raises(StudyMismatchError, match="direction"):
        search_of(url(tmp_path), name="mine").fit(bowl_data())
    direction = {"direction": "maximize", "name": "other"}
    minimize(lambda c: c["x"], BOWL, trials=9, storage=url(tmp_path), seed=0, **direction)
    with pytest.raises(StudyMismatchError, match="no search made"):
        search_of(url(tmp_path), name="other").fit(bowl_data())


# ---------------------------------------------------------------------- storages


class Counting(Bowl):
    fits = 0

    def fit(self, X, y=None):
        Counting.fits += 1
        return super().fit(X, y)


@pytest.mark.parametrize(
    "archive",
    ["sqlite:////no/such/folder/a.db", "postgresql://me:secret@localhost:1/none", "a.db"],
)
def test_an_archive_out_of_reach_is_found_before_anything_is_fitted(archive):
    search = RankwiseSearchCV(Counting(), BOWL, archive=archive, n_trials=2)
    with pytest.raises(StorageError) as caught:
        search.fit(bowl_data())
    assert "secret" not in str(caught.value) and "\n" not in str(caught.value)
    assert Counting.fits == 0


def test_an_archive_that_cannot_be_written(archive, tmp_path):
    read_only = f"sqlite:///file:{tmp_path}/searches.db?mode=ro&uri=true"
    search = RankwiseSearchCV(Counting(), BOWL, archive=read_only, n_trials=2)
    with pytest.raises(StorageError, match="cannot open"):
        search.fit(bowl_data())
    assert Counting.fits == 0


def test_a_storage_that_fails_in_the_middle_does_not_end_the_search(tmp_path, monkeypatch):
    add_trial = optuna.Study.add_trial

    def gone(study, trial):
        if not isinstance(study._storage, optuna.storages.InMemoryStorage):
            raise OSError("the server is gone")
        add_trial(study, trial)

    def cut(trial, result):
        if trial.number == 2:
            monkeypatch.setattr(optuna.Study, "add_trial", gone)

    search = search_of(url(tmp_path), callbacks=cut, method="random")
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        search.fit(bowl_data())
    assert len(params_of(search)) == 8
    assert search.result_.unsaved == [3, 4, 5, 6, 7]
    assert len(search.result_.study.trials) == 8
    monkeypatch.undo()
    assert params_of(search) == params_of(search_of(method="random").fit(bowl_data()))


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from support.estimators import BOWL, Bowl, bowl_data
from rankwise import RankwiseSearchCV
for k in range(3):
    search = RankwiseSearchCV(Bowl(), BOWL, n_trials=4, archive=sys.argv[1], cv=2)
    search.set_params(random_state=k, method="random").fit(bowl_data())
"""


def test_searches_at_once_share_an_archive(tmp_path):
    code = SCRIPT.format(tests=str(TESTS))
    processes = [
        subprocess.Popen([sys.executable, "-c", code, url(tmp_path)], stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    errors = [process.communicate(timeout=600)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    studies = open_archive(url(tmp_path)).studies
    assert [len(study) for study in studies] == [4] * 6
    assert len(search_of(url(tmp_path), n_trials=1).fit(bowl_data()).past_) == 6


def test_searches_that_begin_at_once_make_one_database(tmp_path):
    barrier = threading.Barrier(3)

    def begin(k: int) -> str:
        barrier.wait()
        search = search_of(url(tmp_path), n_trials=2, random_state=k, method="random")
        return search.fit(bowl_data()).study_name_

    with ThreadPoolExecutor(3) as pool:
        names = list(pool.map(begin, range(3)))
    assert sorted(optuna.get_all_study_names(url(tmp_path))) == sorted(names)
