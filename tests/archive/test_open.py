"""What `open_archive` takes, joins and leaves out."""

from __future__ import annotations

import optuna
import pytest

from archive.past import past
from rankwise import RankwiseSampler
from rankwise.archive import Archive, open_archive
from rankwise.errors import ArchiveError, OptionError


@pytest.mark.parametrize("like", [3, None, ["a", 3]])
def test_patterns_are_texts(like):
    with pytest.raises(OptionError, match="like= is a pattern"):
        open_archive(optuna.storages.InMemoryStorage(), like=like)
    with pytest.raises(OptionError, match="like= is a pattern"):
        RankwiseSampler(optuna.storages.InMemoryStorage(), like=like)


@pytest.mark.parametrize("source", [None, 3, [], {"a": 1}])
def test_something_else_is_no_archive(source):
    with pytest.raises(ArchiveError, match="an archive is an Optuna storage or its URL"):
        open_archive(source)


def test_several_sources_are_one_archive(tmp_path):
    paths = []
    for name in ("one", "two"):
        paths.append(f"sqlite:///{tmp_path / name}.db")
        study = optuna.create_study(study_name=name, storage=paths[-1])
        study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)
    both = open_archive(paths)
    assert [study.name for study in both.studies] == ["one", "two"]
    assert both.origin.startswith("several://") and both.origin.count("|") == 1
    assert [s.name for s in open_archive(paths, exclude=["one"]).studies] == ["two"]
    assert [s.name for s in open_archive(paths, like=["o*", "three"]).studies] == ["one"]


def test_an_archive_is_filtered_again():
    X = {"x": optuna.distributions.FloatDistribution(0, 1)}
    Y = {"y": optuna.distributions.FloatDistribution(0, 1)}
    archive = Archive([past("a", X, [{"x": 0.1}] * 2), past("b", Y, [{"y": 0.2}] * 2)])
    assert open_archive(archive) is archive
    assert [study.name for study in open_archive(archive, parameters=["y"]).studies] == ["b"]
    assert open_archive([archive, archive]).origin == ""  # a part of it is only in memory
