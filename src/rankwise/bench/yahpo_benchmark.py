"""Surrogate benchmarks of YAHPO Gym: networks in ONNX files that predict evaluations.

The folder `yahpo/<name>` of the data folder has `config_space.json`, `encoding.json` (the number
of each choice) and `model.onnx`. The task and the fidelities are inputs of the network, but not
hyperparameters of the space. Fidelities have their largest value.

A source task has `PAST` random configurations. Regrets are relative to the best and the worst of
`SAMPLE` random configurations, the same for every task. A better configuration has regret 0.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from rankwise._core.data_errors import missing_package, wrong
from rankwise.bench.base import Benchmark, OpenProblem
from rankwise.bench.benchmarks import Source
from rankwise.bench.data_files import need_data, need_folder, read_json
from rankwise.errors import BenchmarkDataError, SpaceError
from rankwise.history.task import Task
from rankwise.space.encoder import Encoder
from rankwise.space.shorthand import make_space
from rankwise.types import Array, Configuration

PAST = 100  # number of random configurations of a source task
SAMPLE = 20_000  # number of random configurations that determine the best and the worst loss
HELD = 10  # number of validation tasks, and of test tasks, unless `leave_one_out`

_MISSING = "#na#"  # code of an inactive choice
_BATCH = 5_000  # rows per call; the networks need some kilobytes of memory per row


@dataclass(frozen=True)
class _Scenario:
    """Inputs and outputs of a surrogate network, which its files do not describe.

    Attributes:
        summary: one-line description.
        categorical: categorical inputs, in the order of the network.
        numerical: numeric inputs, in the order of the network.
        fidelities: inputs that are fidelities.
        outputs: number of metrics.
        metric: column of the metric that is optimized.
        maximize: True if the metric is maximized; then the loss is one minus the metric.
        leave_one_out: True if every task is a target task, with all others as source tasks.
    """

    summary: str
    categorical: tuple[str, ...]
    numerical: tuple[str, ...]
    fidelities: tuple[str, ...]
    outputs: int
    metric: int
    maximize: bool
    leave_one_out: bool = False


_TASK = "task_id"
SCENARIOS = {
    "rbv2_rpart": _Scenario(
        "surrogate of decision trees (rpart) on 117 data sets, error",
        categorical=(_TASK, "num.impute.selected.cpo"),
        numerical=("cp", "maxdepth", "minbucket", "minsplit", "trainsize", "repl"),
        fidelities=("trainsize", "repl"),
        outputs=9,
        metric=0,  # accuracy
        maximize=True,
    ),
    "iaml_glmnet": _Scenario(
        "surrogate of elastic nets (glmnet) on 4 data sets, error",
        categorical=(_TASK,),
        numerical=("alpha", "s", "trainsize"),
        fidelities=("trainsize",),
        outputs=12,
        metric=0,  # mean misclassification error, one minus accuracy
        maximize=False,
        leave_one_out=True,
    ),
}

# ---------------------------------------------------------------------- the files


@dataclass(frozen=True)
class Files:
    """Content of the JSON files of a scenario.

    Attributes:
        encoder: encoder of the space, without task and fidelities.
        tasks: names of the tasks.
        fixed: values of the fidelities.
        numbers: for each categorical input, the network's number of each choice.
    """

    encoder: Encoder
    tasks: tuple[str, ...]
    fixed: Mapping[str, float]
    numbers: Mapping[str, Mapping[str, int]]


@lru_cache(maxsize=len(SCENARIOS))
def read_files(folder: Path) -> Files:
    """Read and check the JSON files of a scenario; the folder has the scenario's name.

    Raises:
        BenchmarkDataError: a file is missing or cannot be read, or its content is wrong.
    """
    scenario = SCENARIOS[folder.name]
    path = folder / "config_space.json"
    content, numbers = read_json(path), read_json(folder / "encoding.json")
    try:
        known = {entry["name"]: entry for entry in content["hyperparameters"]}
        tasks = tuple(sorted(map(str, known[_TASK]["choices"]), key=int))
        fixed = {name: float(known[name]["upper"]) for name in scenario.fidelities}
        tuned = [*scenario.categorical, *scenario.numerical]
        tuned = [name for name in tuned if name not in (_TASK, *fixed)]
        encoder = Encoder(
            make_space(
                {name: _shorthand(known[name]) for name in tuned},
                when=_conditions(path, content["conditions"]),
            )
        )
        choices = {name: known[name]["choices"] for name in scenario.categorical}
    except BenchmarkDataError:
        raise
    except (KeyError, TypeError, ValueError, SpaceError) as error:
        raise wrong(path, f"it has a wrong layout ({error!r})") from error
    for name, values in choices.items():
        mine = numbers.get(name)
        for value in (_MISSING, *map(str, values)):
            if not isinstance(mine, dict) or not isinstance(mine.get(value), int):
                raise wrong(folder / "encoding.json", f"{name!r} has no number for {value!r}")
    return Files(encoder, tasks, fixed, numbers)


def _shorthand(entry: Mapping[str, Any]) -> Any:
    if entry["type"] == "categorical":
        return list(entry["choices"])
    number: type[int] | type[float] = int if entry["type"] == "uniform_int" else float
    low, high = number(entry["lower"]), number(entry["upper"])
    return (low, high, "log") if entry["log"] else (low, high)


def _conditions(path: Path, entries: list[Mapping[str, Any]]) -> dict[str, dict[str, list[Any]]]:
    """Convert conditions for `make_space`; a child is active if all its conditions hold."""
    when: dict[str, dict[str, list[Any]]] = {}
    for entry in entries:
        if entry["type"] not in ("EQ", "IN"):
            raise wrong(path, f"a condition of type {entry['type']!r} is not supported")
        values = [entry["value"]] if entry["type"] == "EQ" else list(entry["values"])
        when.setdefault(entry["child"], {})[entry["parent"]] = values
    return when


@lru_cache(maxsize=len(SCENARIOS))
def _session(path: Path) -> Any:
    """Load the network of a file; each process loads it, because it cannot be pickled.

    Raises:
        BenchmarkDataError: onnxruntime is not installed, or the file is damaged.
    """
    try:
        import onnxruntime
    except ImportError:
        raise missing_package(path.parent.name, "onnxruntime") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has many exceptions without a common base class
        raise wrong(path, f"ONNX Runtime cannot open it ({error})") from error


# ---------------------------------------------------------------------- the tasks


@dataclass(frozen=True)
class Surrogate:
    """Loss function of one task.

    Attributes:
        folder: folder of the scenario's files.
        task: name of the task.
    """

    folder: Path
    task: str

    def __call__(self, configuration: Configuration) -> float:
        return float(self.at(read_files(self.folder).encoder.codes([configuration]))[0])

    def at(self, codes: Array) -> Array:
        """Compute losses (n,) of configurations as codes (n, p)."""
        scenario, path = SCENARIOS[self.folder.name], self.folder / "model.onnx"
        losses = np.empty(len(codes))
        for start in range(0, len(codes), _BATCH):
            part = slice(start, start + _BATCH)
            (values,) = _session(path).run(None, self._inputs(codes[part]))
            if values.shape != (len(codes[part]), scenario.outputs):
                raise wrong(path, f"it returns {values.shape[1:]}, not {scenario.outputs} metrics")
            losses[part] = values[:, scenario.metric]
        return 1.0 - losses if scenario.maximize else losses

    def _inputs(self, codes: Array) -> dict[str, np.ndarray]:
        """Make the input arrays of the network; an inactive number is 0."""
        scenario, files = SCENARIOS[self.folder.name], read_files(self.folder)
        columns = dict(zip(files.encoder.names, codes.T, strict=True))
        columns |= {name: np.full(len(codes), value) for name, value in files.fixed.items()}
        choices = [
            self._numbers(name, columns.get(name), len(codes)) for name in scenario.categorical
        ]
        numbers = [np.nan_to_num(columns[name]) for name in scenario.numerical]
        return {
            "x_cat": np.stack(choices, axis=1).astype(np.int32),
            "x_cont": np.stack(numbers, axis=1).astype(np.float32),
        }

    def _numbers(self, name: str, codes: Array | None, n: int) -> np.ndarray:
        """Convert codes (n,) of a categorical input to the network's numbers (n,).

        Args:
            name: name of the input.
            codes: codes (n,) of the choices; None for the task.
            n: number of rows.
        """
        files = read_files(self.folder)
        if codes is None:
            return np.full(n, files.numbers[name][self.task])
        parameter = files.encoder.parameters[files.encoder.names.index(name)]
        choices = [str(parameter.value(k)) for k in range(int(parameter.size))]
        known = np.array([files.numbers[name][choice] for choice in (*choices, _MISSING)])
        numbers: np.ndarray = known[np.where(np.isnan(codes), len(choices), codes).astype(int)]
        return numbers


@dataclass(frozen=True)
class _Problems:
    folder: Path

    def __call__(self, name: str) -> OpenProblem:
        encoder, loss = read_files(self.folder).encoder, Surrogate(self.folder, name)
        losses = loss.at(encoder.sample_codes(SAMPLE, np.random.default_rng(0)))
        return OpenProblem(name, float(losses.min()), float(losses.max()), encoder, loss)


@dataclass(frozen=True)
class _Histories:
    folder: Path

    def __call__(self, name: str) -> Task:
        encoder = read_files(self.folder).encoder
        codes = encoder.sample_codes(PAST, np.random.default_rng(zlib.crc32(name.encode())))
        losses = Surrogate(self.folder, name).at(codes)
        return Task.of(encoder.encode_codes(codes), losses, name=name)


# ---------------------------------------------------------------------- the benchmarks


@dataclass(frozen=True)
class _Load:
    name: str

    def __call__(self, data: Path | None) -> Benchmark:
        folder = need_folder(self.name, need_data(self.name, data) / "yahpo" / self.name)
        files = read_files(folder)
        _session(folder / "model.onnx")  # raises now if the file is damaged
        order = np.random.default_rng(0).permutation(len(files.tasks))
        alone = SCENARIOS[self.name].leave_one_out
        cuts = [0, 0] if alone else [len(order) - 2 * HELD, len(order) - HELD]
        train, validation, test = (
            tuple(files.tasks[k] for k in sorted(part)) for part in np.split(order, cuts)
        )
        return Benchmark(
            self.name,
            files.encoder,
            train,
            validation,
            test,
            _Problems(folder),
            _Histories(folder),
            leave_one_out=alone,
        )


SOURCES: tuple[Source, ...] = tuple(
    Source(name, scenario.summary, _Load(name)) for name, scenario in SCENARIOS.items()
)
