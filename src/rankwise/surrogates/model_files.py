"""Model files: safetensors with a JSON header that is checked when a file is read.

Files are written and read as NumPy arrays, so that a model that needs no PyTorch loads without it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from rankwise._core.atomic_write import atomic_write, private_folder
from rankwise.errors import ModelFileError

AnyArray = npt.NDArray[Any]

FORMAT = 1
_KEY = "rankwise"


def write_model(
    path: str | Path, kind: str, arrays: Mapping[str, AnyArray], record: Mapping[str, Any]
) -> None:
    """Write arrays and a JSON record to a file atomically.

    Args:
        path: file to write; an existing one is replaced.
        kind: kind of model; `read_model` refuses another kind.
        arrays: arrays by name.
        record: JSON data.

    Raises:
        ModelFileError: the file cannot be written.
    """
    path = Path(path)
    # Not `ascontiguousarray`, which gives a number one dimension.
    plain = {name: np.array(array, order="C") for name, array in arrays.items()}
    header = {"format": FORMAT, "kind": kind, "digest": _digest(plain, record), "record": record}
    try:
        private_folder(path.parent)
        # Not `save_file`, whose files only their owner can read: the folder decides on that.
        content = save(plain, metadata={_KEY: json.dumps(header)})
        with atomic_write(path) as unfinished:
            unfinished.write_bytes(content)
    except (OSError, SafetensorError) as error:
        raise ModelFileError(f"cannot write the model to {path}: {error}") from error


def read_model(
    path: str | Path, kind: str, *, with_gaps: Collection[str] = ()
) -> tuple[dict[str, AnyArray], dict[str, Any]]:
    """Read the arrays and the record of a file.

    Args:
        path: file to read.
        kind: expected kind of model.
        with_gaps: names of the arrays in which NaN means "no value"; it is refused in all others.

    Raises:
        ModelFileError: the file does not exist, is damaged, or contains something else.
    """
    path = Path(path)
    try:
        # A copy: a memory-mapped file that is cut while it is used ends the process (SIGBUS).
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise ModelFileError(f"there is no model file {path}") from error
    except PermissionError as error:
        raise ModelFileError(f"the model file {path} cannot be read: no permission") from error
    except OSError as error:
        raise ModelFileError(
            f"{path} is not a model file, or it is damaged ({error}); train and save it again"
        ) from error
    with damaged_if_it_raises(path):
        arrays = {name: np.array(array) for name, array in load(content).items()}
        header = json.loads(_metadata(content).get(_KEY, "null"))
    if not isinstance(header, dict) or "format" not in header:
        raise ModelFileError(f"{path} holds tensors, but it was not written by rankwise")
    if header["format"] != FORMAT:
        raise ModelFileError(
            f"{path} has format {header['format']} and this version of rankwise reads format "
            f"{FORMAT}; train and save the model again"
        )
    if header.get("kind") != kind:
        raise ModelFileError(f"{path} holds a {header.get('kind')}, not a {kind}")
    if header.get("digest") != _digest(arrays, header.get("record")):
        raise ModelFileError(f"{path} is damaged: its numbers are not those that were saved")
    for name, array in arrays.items():
        if array.dtype.kind != "f":
            continue
        bad = np.isinf(array) if name in with_gaps else ~np.isfinite(array)
        if bad.any():
            raise ModelFileError(f"{path} is damaged: not all numbers of {name!r} are finite")
    record = header["record"]
    if not isinstance(record, dict):
        raise ModelFileError(f"{path} is damaged: it has no record")
    return arrays, record


@contextmanager
def damaged_if_it_raises(path: str | Path) -> Iterator[None]:
    """Turn any error of the block into a `ModelFileError`: the content of the file is wrong.

    A file may lack an array, have one of another shape, or hold a record of another form.
    """
    try:
        yield
    except ModelFileError:
        raise
    except Exception as error:
        raise ModelFileError(
            f"{path} is not a model file, or it is damaged ({type(error).__name__}: {error}); "
            "train and save it again"
        ) from error


def _metadata(content: bytes) -> dict[str, str]:
    """The metadata in the header of a safetensors file."""
    size = int.from_bytes(content[:8], "little")
    found = json.loads(content[8 : 8 + size]).get("__metadata__", {})
    return {str(key): str(value) for key, value in found.items()}


def check_fingerprint(path: str | Path, record: Mapping[str, Any], fingerprint: str) -> None:
    """Check that a model was learnt in a search space.

    Nothing is checked if the fingerprint of the model or of the space is unknown ("").

    Raises:
        ModelFileError: the model belongs to another search space.
    """
    if fingerprint and record.get("fingerprint") not in ("", fingerprint):
        raise ModelFileError(
            f"{path} was learnt from studies of another search space; learn it again from "
            "studies of this one"
        )


def _digest(arrays: Mapping[str, AnyArray], record: Any) -> str:
    digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        # Types have torch's names, as in files of version 0.1.
        digest.update(f"{name} torch.{array.dtype.name} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
