"""From a text to a benchmark: names, modifiers, the data folder."""

from __future__ import annotations

import pytest

from rankwise.bench import benchmarks as registry
from rankwise.errors import BenchmarkDataError, UnknownNameError

EXPECTED = {
    "tst-svm",
    "tst-svm-hpob",
    "hpobench-xgb",
    "oboe",
    "textclf",
    "hpobench-mlp",
    "hpolib-fcnet",
    "nasbench201",
    "rbv2_rpart",
    "iaml_glmnet",
    "quadratics",
    "quadratics-adversarial",
}


def test_every_source_has_a_name_of_its_own_and_a_summary():
    names = registry.available()
    assert set(names) >= EXPECTED
    assert len(set(names)) == len(names)
    for name in names:
        source = registry.get(name)
        assert source.name == name and source.summary and ":" not in name
        assert not name.isdigit()  # those are HPO-B's


def test_names_are_listed_without_any_data(monkeypatch):
    monkeypatch.delenv(registry.DATA_VARIABLE, raising=False)
    assert registry.available()


def test_an_unknown_benchmark_lists_the_valid_ones():
    with pytest.raises(UnknownNameError, match=r"Did you mean 'quadratics'.*HPO-B"):
        registry.load("quadratic")


def test_an_unknown_modifier_lists_the_valid_ones():
    with pytest.raises(UnknownNameError, match="modifier of benchmark 'branin' 'v3'; valid: fold"):
        registry.load("branin:v3")


def test_modifiers_are_applied_from_left_to_right():
    benchmark = registry.load("sinusoids:fold:shuffled")
    assert benchmark.name == "sinusoids:fold:shuffled"
    assert benchmark.past_kind == "shuffled" and benchmark.test[0] == "train-0"


def test_a_benchmark_is_loaded_once():
    assert registry.load("branin") is registry.load("branin")


def test_digits_name_a_space_of_hpob():
    assert registry.get("5860").name == "5860"


def test_a_data_folder_that_is_not_there_is_named(tmp_path, monkeypatch):
    with pytest.raises(BenchmarkDataError, match=r"there is no data folder .*nowhere"):
        registry.load("oboe", tmp_path / "nowhere")
    monkeypatch.setenv(registry.DATA_VARIABLE, str(tmp_path / "elsewhere"))
    with pytest.raises(BenchmarkDataError, match=r"there is no data folder .*elsewhere"):
        registry.load("oboe")


def test_the_environment_names_the_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(registry.DATA_VARIABLE, str(tmp_path))
    assert registry.data_folder() == tmp_path
    other = tmp_path / "other"
    other.mkdir()
    assert registry.data_folder(other) == other


@pytest.mark.parametrize("name", ["oboe", "tst-svm-hpob", "5860", "rbv2_rpart"])
def test_without_a_data_folder_the_variable_is_named(name, monkeypatch):
    monkeypatch.delenv(registry.DATA_VARIABLE, raising=False)
    registry.load.cache_clear()
    with pytest.raises(BenchmarkDataError, match=f"'{name}' needs data files.*RANKWISE_DATA"):
        registry.load(name)
