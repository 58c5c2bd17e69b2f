"""Models on disk: safetensors with a JSON header, checked when they are read."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from rankwise.errors import ModelFileError

FORMAT = 1
_KEY = "rankwise"


def write_model(
    path: str | Path, kind: str, tensors: Mapping[str, torch.Tensor], record: Mapping[str, Any]
) -> None:
    """Write tensors and a JSON record to a file, all of it or nothing.

    Args:
        path: of the file; an existing one is replaced.
        kind: of the model; reading another kind is refused.
        tensors: by name.
        record: anything that JSON can hold.
    """
    path = Path(path)
    plain = {name: t.detach().clone().contiguous() for name, t in tensors.items()}
    header = {"format": FORMAT, "kind": kind, "digest": _digest(plain, record), "record": record}
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not `save_file`, whose files only their owner can read: an archive may be shared.
        unfinished.write_bytes(save(plain, metadata={_KEY: json.dumps(header)}))
        unfinished.replace(path)
    except (OSError, SafetensorError) as error:
        raise ModelFileError(f"cannot write the model to {path}: {error}") from error
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def read_model(path: str | Path, kind: str) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The tensors and the record of a file.

    Raises:
        ModelFileError: there is no such file, it is damaged, or it holds something else.
    """
    path = Path(path)
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get(_KEY, "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError as error:  # also of a file that must not be read
        if path.exists():
            raise ModelFileError(f"the model file {path} cannot be read: no permission") from error
        raise ModelFileError(f"there is no model file {path}") from error
    except (OSError, SafetensorError, ValueError) as error:
        raise ModelFileError(
            f"{path} is not a model file, or it is damaged ({error}); train and save it again"
        ) from error
    if not isinstance(header, dict) or "format" not in header:
        raise ModelFileError(f"{path} holds tensors, but it was not written by rankwise")
    if header["format"] != FORMAT:
        raise ModelFileError(
            f"{path} has format {header['format']} and this version of rankwise reads format "
            f"{FORMAT}; train and save the model again"
        )
    if header.get("kind") != kind:
        raise ModelFileError(f"{path} holds a {header.get('kind')}, not a {kind}")
    if header.get("digest") != _digest(tensors, header.get("record")):
        raise ModelFileError(f"{path} is damaged: its numbers are not those that were saved")
    record: dict[str, Any] = header["record"]
    return tensors, record


def check_fingerprint(path: str | Path, record: Mapping[str, Any], fingerprint: str) -> None:
    """That a model was learnt in a space; it is not checked if one of the two is unknown ("").

    Raises:
        ModelFileError: it is of another space.
    """
    if fingerprint and record["fingerprint"] not in ("", fingerprint):
        raise ModelFileError(
            f"{path} was learnt from studies of another search space; learn it again from "
            "studies of this one"
        )


def _digest(tensors: Mapping[str, torch.Tensor], record: Any) -> str:
    digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()
