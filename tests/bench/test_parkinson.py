"""The command for Parkinsons Telemonitoring, on a made-up file of the same shape."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from support import ROOT

pytest.importorskip("torch")
sys.path.append(str(ROOT / "benchmarks"))
import distbo_more

VOICE = [f"voice {k}" for k in range(15)]  # the file has names such as Jitter(%)
NAMES = ["subject#", "age", "sex", "test_time", "motor_UPDRS", "total_UPDRS", *VOICE, "PPE"]


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(0)
    lines = [",".join(NAMES)]
    for patient in range(1, 5):
        voice = rng.normal(size=(40, 17))
        score = 30 + 5 * voice[:, 1] + patient
        lines += [
            ",".join(map(str, [patient, 60, 1, *v[:1], s / 2, s, *v[1:]]))
            for v, s in zip(voice, score, strict=True)
        ]
    file = tmp_path / "parkinsons_updrs.data"
    file.write_text("\n".join(lines))
    return file


def test_each_patient_is_a_task(path):
    data = distbo_more.read_parkinson(path)
    assert list(data) == [f"patient {p}" for p in range(1, 5)]
    X, y = data["patient 3"]
    assert X.shape == (40, 17) and y.shape == (40,)
    np.testing.assert_allclose(y, 30 + 5 * X[:, 1] + 3)


def test_another_file_is_refused(tmp_path):
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="UCI"):
        distbo_more.read_parkinson(other)


def test_the_other_patients_are_the_past(path):
    problem = distbo_more.parkinson(1, path, evaluations=3)
    assert [task.name for task in problem.past] == ["patient 1", "patient 3", "patient 4"]
    assert {len(task) for task in problem.past} == {3}
    assert problem.context.rows is not None and problem.context.size == 24  # 60 % of 40
    assert problem.optimum < -0.5  # R^2 of a linear function
    found = distbo_more.run(problem, "dist-gp", 0, trials=2)
    assert len(found["losses"]) == 2
