"""Model files are checked: whatever is wrong with one is a `ModelFileError`, never a crash."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numpy as np
import pytest
from support.methods import HASTE, QUICK

from rankwise import Encoder, Optimizer, Task, TaskSet, methods
from rankwise.errors import ModelFileError
from rankwise.surrogates.model_files import read_model, write_model

ENCODER = Encoder({"x": (0.0, 1.0), "kind": ["a", "b"]})
KEPT = [
    name
    for name in methods.available()
    if methods.get(name).installed and "model" in methods.get(name).options
]


def past() -> TaskSet:
    X = ENCODER.sample(12, np.random.default_rng(0))
    facts = [{"rows": 10.0 + k, "columns": 3.0 - k} for k in range(3)]
    tasks = (
        Task.of(X, ((X - 0.3 * k) ** 2).sum(axis=1), context=facts[k], name=f"t{k}")
        for k in range(3)
    )
    return TaskSet(tuple(tasks), (), ENCODER.fingerprint)


def hostile(arrays, record):
    """Yield contents that no version of the library writes."""
    for name, array in arrays.items():
        others = {key: value for key, value in arrays.items() if key != name}
        yield f"without {name}", others, record
        yield f"{name} empty", {**others, name: array[:0] if array.ndim else np.empty(0)}, record
        if array.ndim:
            yield f"{name} short", {**others, name: array[:-1]}, record
            yield f"{name} long", {**others, name: np.concatenate([array, array])}, record
        yield f"{name} deeper", {**others, name: array[..., None]}, record
        if array.dtype.kind == "f":
            yield f"{name} nan", {**others, name: np.full_like(array, math.nan)}, record
            yield f"{name} huge", {**others, name: np.full_like(array, 1e38)}, record
        else:
            yield f"{name} negative", {**others, name: np.full_like(array, -7)}, record
            yield f"{name} large", {**others, name: np.full_like(array, 2**31 - 1)}, record
    for key in record:
        yield f"no {key}", arrays, {k: v for k, v in record.items() if k != key}
        for value in (None, -1, 10**12, "x", [], {}, [[]]):
            yield f"{key} {value!r}", arrays, {**record, key: value}
    yield "no arrays", {}, record


@pytest.mark.parametrize("method", KEPT)
def test_a_hostile_model_is_refused_or_works(method, tmp_path):
    if method in (
        "auto",
        "dre-data",
        "manual-gp",
        "manual-blr",
        "multi-gp",
        "multi-blr",
        "dist-blr",
    ):
        pytest.skip("the same files as another method")
    options = {**QUICK.get(method, {}), **HASTE.get(method, {})}
    path = tmp_path / "model.safetensors"
    learner = Optimizer(ENCODER, method=method, tasks=past(), seed=0, **options).strategy.learner
    learner.save(path, fingerprint=ENCODER.fingerprint)
    arrays, record = read_model(path, learner.file_kind, with_gaps=learner.arrays_with_gaps)
    raw = []
    for what, other, facts in hostile(arrays, record):
        write_model(path, learner.file_kind, other, facts)
        try:
            loaded = Optimizer(ENCODER, method=method, model=path, seed=0, **options)
        except ModelFileError:
            continue
        except Exception as error:
            raw.append(f"{what}: {type(error).__name__}: {error}")
            continue
        posterior = loaded.strategy.learner.fit(Task.of(np.empty((0, 3)), [])).predict(
            ENCODER.sample(3, np.random.default_rng(1))
        )
        if not np.isfinite(posterior.mean).all():
            raw.append(f"{what}: accepted")
    assert not raw, "\n".join(raw)


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00" * 8, b"\xff" * 64, b"\x02\x00\x00\x00\x00\x00\x00\x00{}", b"[" * 100_000],
)
def test_other_content_is_no_model(content, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(ModelFileError):
        read_model(path, "any")


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_model_that_is_cut_while_it_is_used_does_not_end_the_process(tmp_path):
    """A memory-mapped file would: SIGBUS at the first access behind its new end."""
    path = tmp_path / "model.safetensors"
    write_model(path, "test", {"numbers": np.arange(1_000_000.0)}, {})
    code = (
        "import sys; from rankwise.surrogates.model_files import read_model\n"
        "arrays, _ = read_model(sys.argv[1], 'test')\n"
        "open(sys.argv[1], 'r+b').truncate(0)\n"
        "print(int(arrays['numbers'].sum()))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False
    )
    assert out.returncode == 0 and out.stdout.strip() == str(sum(range(1_000_000)))


def test_the_folder_of_models_is_private(tmp_path):
    write_model(tmp_path / "models" / "a.safetensors", "test", {"x": np.zeros(1)}, {})
    assert (tmp_path / "models").stat().st_mode & 0o077 == 0
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    write_model(shared / "a.safetensors", "test", {"x": np.zeros(1)}, {})
    assert shared.stat().st_mode & 0o077 == 0o055  # the user's choice
