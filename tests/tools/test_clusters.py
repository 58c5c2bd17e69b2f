"""`rankwise bench run --backend` on real local clusters: the same results as without one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WORDS = "bench run --on quadratics --methods random,portfolio --seeds 1 --trials 3 --initial 2"


def bench(out: Path, *words: str) -> dict[str, bytes]:
    """Run a benchmark at the command line; return the content of its results by path."""
    command = [sys.executable, "-m", "rankwise.cli", *WORDS.split(), "--out", str(out), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = out / "cells"
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.glob("*/*/*.json"))}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return bench(tmp_path_factory.mktemp("here"))


def test_bench_on_a_ray_cluster(here, tmp_path, monkeypatch):
    ray = pytest.importorskip("ray")
    context = ray.init(
        num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1"
    )
    try:
        monkeypatch.setenv("RAY_ADDRESS", context.address_info["gcs_address"])
        assert bench(tmp_path, "--backend", "ray") == here and len(here) == 10
    finally:
        ray.shutdown()


def test_bench_on_a_dask_cluster(here, tmp_path):
    distributed = pytest.importorskip("distributed")
    local = {"host": "127.0.0.1", "dashboard_address": None, "local_directory": str(tmp_path)}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, **local) as cluster:
        address = cluster.scheduler_address.removeprefix("tcp://")
        assert bench(tmp_path / "out", "--backend", f"dask://{address}") == here
