"""Runs that are interrupted, shared, or go wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.killing import run_and_kill

from rankwise import methods
from rankwise.bench import benchmarks as registry
from rankwise.bench import cells as cells_module
from rankwise.bench import collect, run
from rankwise.bench.cells import Cell, asked_cells, stored_cells
from rankwise.bench.runner import check_method, split_methods
from rankwise.errors import BenchmarkDataError, OptionError, UnknownNameError

LEARNER = "dre:members=2,width=8,layers=2,epochs=5,training.steps=300"
FAST = {"seeds": [0, 1], "trials": 6, "initial": 3}


def results(out: Path) -> dict[str, bytes]:
    """The content of all results, by path."""
    folder = out / "cells"
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.glob("*/*/*.json"))}


def command(out: Path, methods: str, *more: str, jobs: int = 2) -> list[str]:
    words = f"bench run --on quadratics --methods {methods} --seeds 0,1 --trials 6 --initial 3"
    rankwise = [sys.executable, "-m", "rankwise.cli.app"]
    return [*rankwise, *words.split(), "--jobs", str(jobs), "--out", str(out), *more]


def start(words: list[str]) -> subprocess.Popen:
    """A process in a group of its own, which can be killed with all its workers."""
    pipe = subprocess.DEVNULL
    return subprocess.Popen(words, stdout=pipe, stderr=pipe, start_new_session=True)


# ---------------------------------------------------------------------- what is written


def test_a_cell_has_a_result_and_times_of_its_own(tmp_path):
    made = run(["quadratics"], ["random", "tpe"], out=tmp_path, **FAST)
    assert len(made) == 5 * 2 * 2 and all(cell.is_done(tmp_path) for cell in made)
    cell = made[0]
    stored = json.loads(cell.path(tmp_path).read_text())
    assert Cell(**stored["cell"]) == cell
    assert len(stored["regrets"]) == 7 and len(stored["losses"]) == 9
    assert stored["regrets"] == sorted(stored["regrets"], reverse=True)
    times = json.loads(cell.seconds_path(tmp_path).read_text())
    assert len(times["seconds"]) == 6 and times["rankwise"]
    assert sorted(made, key=repr) == sorted(stored_cells(tmp_path), key=repr)
    assert asked_cells(tmp_path) == sorted(
        made, key=lambda c: (c.benchmark, ["random", "tpe"].index(c.method), c.seed)
    )


def test_what_has_a_result_is_not_computed_again(tmp_path, monkeypatch):
    run(["quadratics"], ["random"], out=tmp_path, **FAST)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("cells/*/*/*")}
    monkeypatch.setattr("rankwise.bench.runner.run_problem", None)  # calling it would fail
    run(["quadratics"], ["random"], out=tmp_path, **FAST)
    assert before == {p: p.stat().st_mtime_ns for p in tmp_path.rglob("cells/*/*/*")}


def test_the_environment_and_the_settings_are_recorded(tmp_path):
    run(["quadratics", "sinusoids:inverted"], ["random"], out=tmp_path, **FAST)
    [facts] = cells_module.asked(tmp_path)
    assert facts["cores"] == os.cpu_count() and facts["packages"]["numpy"] == np.__version__
    assert facts["settings"]["seeds"] == [0, 1] and facts["settings"]["trials"] == 6
    assert list(facts["settings"]["benchmarks"]) == ["quadratics", "sinusoids:inverted"]


def test_any_name_is_a_path_of_its_own(tmp_path):
    texts = ["a/b", "a:b", "a%3Ab", "ä", "x" * 400, "x" * 399 + "y", "..", "a b"]
    paths = {Cell("b", text, "m", 0, 5, 9).path(tmp_path) for text in texts}
    assert len(paths) == len(texts)
    for path in paths:
        assert path.parent == tmp_path / "cells" / "b" / "m" and len(path.name) < 255


# ---------------------------------------------------------------------- interruptions


STALLING = """
import sys
from pathlib import Path
from rankwise.bench import run, runner

def stalled(cell, out, data):
    from rankwise.bench import runner
    from support.killing import stall_at

    real = runner.run_problem
    runner.run_problem = lambda *what, **how: stall_at(
        sys.argv[1], int(sys.argv[2]), None, lambda _: real(*what, **how)
    )
    try:
        return runner._compute(cell, out, data)
    finally:
        runner.run_problem = real

if __name__ == "__main__":
    runner._compute = stalled
    run(["quadratics"], sys.argv[4].split(";"), seeds=[0, 1], trials=6, initial=3, jobs=2,
        out=Path(sys.argv[3]))
"""


def test_runs_killed_at_random_cells_end_like_an_undisturbed_one(tmp_path):
    """The cells that run when the process is killed hold their locks and never end."""
    calm, stormy = tmp_path / "calm", tmp_path / "stormy"
    wanted = ["random", LEARNER]
    run(["quadratics"], wanted, out=calm, **FAST)
    rng = np.random.default_rng(0)
    for k in range(2):
        log, call = tmp_path / f"log-{k}", int(rng.integers(2, 7))
        run_and_kill(STALLING, log, call, str(stormy), ";".join(wanted))
        assert results(stormy).items() <= results(calm).items()  # whole files only
    assert 0 < len(results(stormy)) < 20
    subprocess.run(command(stormy, ",".join(wanted)), check=True, capture_output=True)
    assert len(results(calm)) == 20 and results(stormy) == results(calm)


def test_half_a_file_is_never_taken_for_a_result(tmp_path):
    [*_, last] = run(["quadratics"], ["random"], out=tmp_path, **FAST)
    whole = last.path(tmp_path).read_bytes()
    last.path(tmp_path).with_name(f"{last.path(tmp_path).name}.unfinished").write_bytes(whole[:50])
    last.path(tmp_path).unlink()  # as if it had been killed before the renaming
    assert last.read(tmp_path).error == "not run"
    run(["quadratics"], ["random"], out=tmp_path, **FAST)
    assert last.path(tmp_path).read_bytes() == whole
    assert not list(tmp_path.rglob("*.unfinished"))
    last.path(tmp_path).write_bytes(whole[:50])  # a file system that lost its end
    assert last.read(tmp_path).error.startswith("unreadable")
    run(["quadratics"], ["random"], out=tmp_path, **FAST)
    assert last.path(tmp_path).read_bytes() == whole


COUNTING = """
import sys, time
from dataclasses import replace
from pathlib import Path
from rankwise.bench import benchmarks as registry, protocol, run, runner

log = Path(sys.argv[2])
real = runner.run_problem

def slow(problem, optimizer, **how):
    with log.open("a") as file:
        file.write(f"{problem.name} {how['seed']}\\n")
    time.sleep(0.15)
    return real(problem, optimizer, **how)

runner.run_problem = slow
run(["quadratics"], ["random"], seeds=range(6), trials=4, out=Path(sys.argv[1]))
"""


def test_two_runners_share_the_work(tmp_path):
    script, out, log = tmp_path / "count.py", tmp_path / "out", tmp_path / "log"
    script.write_text(COUNTING)
    words = [sys.executable, str(script), str(out), str(log)]
    both = [subprocess.Popen(words, stderr=subprocess.PIPE) for _ in range(2)]
    errors = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], errors
    computed = log.read_text().splitlines()
    assert len(computed) == 30 and len(set(computed)) == 30
    assert len(results(out)) == 30 and not [r for r in collect(out) if r.error]
    alone = tmp_path / "alone"
    run(["quadratics"], ["random"], seeds=range(6), trials=4, out=alone)
    assert results(alone) == results(out)


def test_a_model_is_trained_once_by_several_processes(tmp_path):
    words = command(tmp_path, LEARNER, jobs=1)
    both = [start(words) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    kept = {model: model.stat().st_mtime_ns for model in (tmp_path / "models").glob("*.safet*")}
    assert len(results(tmp_path)) == 10 and len(kept) == 2  # one for each seed
    run(["quadratics"], [LEARNER], seeds=[0, 1], trials=2, out=tmp_path)
    assert {model: model.stat().st_mtime_ns for model in kept} == kept  # by content
    run(["quadratics:inverted"], [LEARNER], seeds=[0], trials=1, out=tmp_path)
    run(["quadratics"], [f"{LEARNER},learning_seed=0"], seeds=[5], trials=1, out=tmp_path)
    assert len(list((tmp_path / "models").glob("*.safetensors"))) == 3


# ---------------------------------------------------------------------- what goes wrong


def test_a_method_that_fails_leaves_its_traceback_and_the_rest_goes_on(tmp_path, capsys):
    made = run(["quadratics"], ["rgpe:model=nowhere", "random"], out=tmp_path, **FAST)
    bad = [c for c in made if c.method.startswith("rgpe")]
    good = [c for c in made if c.method == "random"]
    assert len(bad) == len(good) == 10 and all(c.is_done(tmp_path) for c in good)
    error = bad[0].read(tmp_path).error
    assert "Traceback" in error and "a model that has learnt from them, not both" in error
    assert "failed: quadratics test-0 rgpe:model=nowhere seed 0" in capsys.readouterr().err
    assert sum(bool(r.error) for r in collect(tmp_path)) == 10


def test_a_full_disk_is_said_and_nothing_is_lost(tmp_path):
    made = run(["quadratics"], ["random"], out=tmp_path, **FAST)
    victim = made[4].path(tmp_path)
    kept = {path: data for path, data in results(tmp_path).items() if path not in str(victim)}
    victim.unlink()
    victim.with_name(f"{victim.name}.unfinished").symlink_to("/dev/full")
    with pytest.raises(BenchmarkDataError, match=r"cannot write .*No space left.*are kept"):
        run(["quadratics"], ["random"], out=tmp_path, **FAST)
    assert results(tmp_path) == kept and len(kept) == 9
    run(["quadratics"], ["random"], out=tmp_path, **FAST)
    assert len(results(tmp_path)) == 10


def test_missing_cells_are_collected_as_missing(tmp_path):
    made = run(["quadratics"], ["random"], out=tmp_path, **FAST)
    made[3].path(tmp_path).unlink()
    runs = collect(tmp_path)
    assert len(runs) == 10
    [missing] = [r for r in runs if r.error]
    assert missing.error == "not run" and missing.regrets is None
    assert (missing.task, missing.seed) == (made[3].task, made[3].seed)
    with pytest.raises(BenchmarkDataError, match="there are no results in"):
        collect(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"benchmarks": ["quadratic"]}, UnknownNameError, "unknown benchmark.*quadratics"),
        ({"benchmarks": ["quadratics:invert"]}, UnknownNameError, "modifier.*inverted"),
        ({"method_names": ["dree"]}, UnknownNameError, "unknown method 'dree'"),
        ({"method_names": ["dre:epoch=3"]}, UnknownNameError, "epochs"),
        ({"method_names": ["dre:epochs"]}, OptionError, "name=value"),
        ({"trials": 0}, OptionError, "trials"),
        ({"initial": 6}, OptionError, "0 to 5 initial points"),
        ({"backend": "slurm"}, OptionError, "dask://host:port or ray"),
        ({"data": Path("nowhere")}, BenchmarkDataError, "no data folder nowhere"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_runs(change, error, words, tmp_path):
    arguments = {"benchmarks": ["quadratics"], "method_names": ["random"], **FAST, **change}
    with pytest.raises(error, match=words):
        run(**arguments, out=tmp_path)
    assert not (tmp_path / "cells").exists()


def test_methods_and_their_options_are_read():
    assert split_methods("dre,forest:trees=5,acquisition=ei,random,dre") == [
        "dre",
        "forest:trees=5,acquisition=ei",
        "random",
    ]
    name, options = methods.split("dre:limit=null,loss=listnet,epochs=3,training.steps=7")
    assert name == "dre"
    assert options == {"limit": None, "loss": "listnet", "epochs": 3, "training": {"steps": 7}}
    for text in ("rgpe:guard=True", "rgpe:guard=true"):  # as in Python, or as in JSON
        assert methods.split(text) == ("rgpe", {"guard": True})
    with pytest.raises(OptionError, match="guard is True or False, not 'yes'"):
        check_method("rgpe:guard=yes")


def test_the_same_cells_run_on_a_dask_cluster(tmp_path):
    distributed = pytest.importorskip("distributed")
    local = {"host": "127.0.0.1", "dashboard_address": None, "local_directory": str(tmp_path)}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, **local) as cluster:
        address = cluster.scheduler_address.removeprefix("tcp://")
        assert address.startswith("127.0.0.1:")
        out = tmp_path / "cluster"
        run(["quadratics"], ["random", "portfolio"], out=out, backend=f"dask://{address}", **FAST)
    run(["quadratics"], ["random", "portfolio"], out=tmp_path / "here", **FAST)
    assert len(results(out)) == 20 and results(out) == results(tmp_path / "here")


def test_the_data_folder_may_come_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv(registry.DATA_VARIABLE, str(tmp_path))
    assert registry.data_folder() == tmp_path
    assert registry.data_folder(tmp_path.parent) == tmp_path.parent
