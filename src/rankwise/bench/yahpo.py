"""Surrogates of YAHPO Gym: networks in ONNX files that predict what an evaluation would give.

The folder `yahpo/<name>` of the data folder holds `config_space.json`, `encoding.json` (the number
of each choice) and `model.onnx`. The task and the fidelities are inputs of the network, not
hyperparameters of the space: fidelities have their largest value, everything is learnt and
evaluated on the whole data.

The past of a task is `PAST` random configurations. Regrets are relative to the best and the worst
of `SAMPLE` random configurations, the same for every task: what is better counts as regret 0.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from rankwise.bench.base import Benchmark, OpenProblem
from rankwise.bench.files import missing_package, need_data, need_folder, read_json, wrong
from rankwise.bench.registry import Source
from rankwise.errors import BenchmarkDataError, SpaceError
from rankwise.shorthand import make_space
from rankwise.space import Encoder
from rankwise.task import Task
from rankwise.types import Array, Configuration

PAST = 100
SAMPLE = 20_000
HELD = 10  # tasks for validation and for test each, where not every task is both past and target

_MISSING = "#na#"  # how the encoding calls a choice that is inactive
_BATCH = 5_000  # rows at a time: the networks need some kilobytes for each


@dataclass(frozen=True)
class _Scenario:
    """What a network takes and gives; its files do not say.

    Attributes:
        summary: what it is, in a line.
        categorical: the inputs that are choices, in the order of the network.
        numerical: the inputs that are numbers.
        fidelities: the inputs that are not tuned.
        outputs: number of metrics.
        metric: column of the one that is optimised.
        maximize: whether its loss is one minus it.
        leave_one_out: every task is optimised, with all others as its past.
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
    """What the JSON files of a scenario say.

    Attributes:
        encoder: of the space, without task and fidelities.
        tasks: their names.
        fixed: values of the fidelities.
        numbers: for every categorical input the numbers of its choices.
    """

    encoder: Encoder
    tasks: tuple[str, ...]
    fixed: Mapping[str, float]
    numbers: Mapping[str, Mapping[str, int]]


@lru_cache(maxsize=len(SCENARIOS))
def read_files(folder: Path) -> Files:
    """What the JSON files of a folder say, checked; the folder's name is the scenario's."""
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
        raise wrong(path, f"it has another layout ({error!r})") from error
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
    """Conditions as `make_space` takes them; several parents of a child must all agree."""
    when: dict[str, dict[str, list[Any]]] = {}
    for entry in entries:
        if entry["type"] not in ("EQ", "IN"):
            raise wrong(path, f"a condition of type {entry['type']!r} is not supported")
        values = [entry["value"]] if entry["type"] == "EQ" else list(entry["values"])
        when.setdefault(entry["child"], {})[entry["parent"]] = values
    return when


@lru_cache(maxsize=len(SCENARIOS))
def _session(path: Path) -> Any:
    """The network of a file; one per process, since it cannot be sent to another."""
    try:
        import onnxruntime
    except ImportError:
        raise missing_package(path.parent.name, "onnxruntime") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    except Exception as error:  # many classes of its own, without a common base
        raise wrong(path, f"ONNX Runtime cannot open it ({error})") from error


# ---------------------------------------------------------------------- the tasks


@dataclass(frozen=True)
class Surrogate:
    """The loss of one task.

    Attributes:
        folder: of the scenario's files.
        task: its name.
    """

    folder: Path
    task: str

    def __call__(self, configuration: Configuration) -> float:
        return float(self.at(read_files(self.folder).encoder.codes([configuration]))[0])

    def at(self, codes: Array) -> Array:
        """Losses (n,) of codes (n, p)."""
        scenario, path = SCENARIOS[self.folder.name], self.folder / "model.onnx"
        losses = np.empty(len(codes))
        for start in range(0, len(codes), _BATCH):
            part = slice(start, start + _BATCH)
            (values,) = _session(path).run(None, self._inputs(codes[part]))
            if values.shape != (len(codes[part]), scenario.outputs):
                raise wrong(path, f"it gives {values.shape[1:]}, not {scenario.outputs} metrics")
            losses[part] = values[:, scenario.metric]
        return 1.0 - losses if scenario.maximize else losses

    def _inputs(self, codes: Array) -> dict[str, np.ndarray]:
        """What the network takes; an inactive number is 0."""
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
        """The network's numbers (n,) of choices that are codes (n,), or of the task."""
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
        _session(folder / "model.onnx")  # what is wrong with it is to be said now
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
