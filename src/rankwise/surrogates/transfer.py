"""What surrogates that learn from past tasks have in common."""

from __future__ import annotations

import copy
import inspect
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from typing_extensions import Self

from rankwise.errors import OptionError
from rankwise.surrogates.base import Surrogate
from rankwise.surrogates.files import check_fingerprint, read_model, write_model
from rankwise.types import Array


class TransferSurrogate(Surrogate):
    """A surrogate that learns past tasks once, for all studies to come, and can be saved.

    Its keyword arguments are kept as attributes of the same names; `seed` is one of them.
    """

    file_kind: ClassVar[str]
    """Written into its files; a file of another kind is not read."""

    seed: int

    @property
    @abstractmethod
    def meta_learned(self) -> bool:
        """Whether past tasks were learnt."""

    def with_seed(self, seed: int) -> Self:
        """The same surrogate, what was learnt included, with other random numbers."""
        twin = copy.copy(self)
        twin.seed = seed
        return twin

    @property
    def settings(self) -> dict[str, Any]:
        """The keyword arguments that make a surrogate like this one, as JSON can hold them."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    @classmethod
    def saved_settings(cls, record: Mapping[str, Any]) -> dict[str, Any]:
        """The settings in a file's record that this version knows."""
        known = inspect.signature(cls).parameters
        return {name: value for name, value in record["settings"].items() if name in known}

    @abstractmethod
    def parts(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """What was learnt: arrays by name, and a record that JSON can hold."""

    @abstractmethod
    def restore(self, arrays: Mapping[str, Array], record: Mapping[str, Any]) -> None:
        """Take over what `parts` gave."""

    def save(self, path: str | Path, *, fingerprint: str = "") -> None:
        """Write what was learnt to a file.

        Args:
            path: of the file, by custom with the ending ".safetensors".
            fingerprint: of the space (`Encoder.fingerprint`), checked by `load`.
        """
        if not self.meta_learned:
            raise OptionError("there is nothing to save: call meta_fit first")
        arrays, record = self.parts()
        record = {**record, "fingerprint": fingerprint, "settings": self.settings}
        tensors = {name: torch.as_tensor(np.asarray(array)) for name, array in arrays.items()}
        write_model(path, self.file_kind, tensors, record)

    @classmethod
    def load(cls, path: str | Path, *, fingerprint: str = "", **options: Any) -> Self:
        """The surrogate that `save` wrote.

        Args:
            path: of the file.
            fingerprint: of the space it is to be used for; it is not checked if this or the saved
                one is "".
            **options: instead of the saved ones, as far as they do not change what is learnt.

        Raises:
            ModelFileError: there is no such file, it is damaged, or it was made for another
                space, by another version or with other options.
        """
        tensors, record = read_model(path, cls.file_kind)
        check_fingerprint(path, record, fingerprint)
        surrogate = cls(**{**cls.saved_settings(record), **options})
        surrogate.restore({name: tensor.numpy() for name, tensor in tensors.items()}, record)
        return surrogate
