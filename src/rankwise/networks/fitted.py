"""What a trained network tells, and its file: safetensors with a JSON record."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted
from typing_extensions import Self

from rankwise.errors import ModelFileError, OptionError
from rankwise.networks import assemble
from rankwise.networks.images import Scale
from rankwise.networks.layers import Conv, Dense, Layer
from rankwise.surrogates.model_files import damaged_if_it_raises, read_model, write_model

if TYPE_CHECKING:
    from torch import nn

    from rankwise.networks.callbacks import Progress

_KIND = "network classifier"  # kind of file
_WEIGHTS = "weights/"  # prefix of the names of weights in a file


class FittedNetwork:
    """Base class of `ConvNetClassifier`: record of the training, `save` and `load`."""

    @property
    def history_(self) -> list[dict[str, Any]]:
        """One dict per epoch: epoch, train_loss, validation_loss, validation_score, seconds."""
        return self._known.history

    @property
    def epochs_(self) -> int:
        """Number of epochs that were trained."""
        return self._known.epochs

    @property
    def best_epoch_(self) -> int:
        """Number of the epoch with the best validation score; the last one without validation."""
        return self._known.best_epoch

    @property
    def best_score_(self) -> float | None:
        """Validation score of the best epoch; None without validation."""
        return self._known.best_score

    @property
    def _known(self) -> Progress:
        if "_progress" not in vars(self):
            raise AttributeError("the network has not been trained; call fit first")
        progress: Progress = vars(self)["_progress"]
        return progress

    # ------------------------------------------------------------------ files

    def save(self: Any, path: str | Path) -> None:
        """Write the trained network to a file, without pickle.

        Options that are functions, classes or data are not written: after `load` they have their
        defaults. The state of the optimizer is not written either.

        Args:
            path: file to write, usually with the suffix .safetensors.

        Raises:
            ModelFileError: the file cannot be written.
            OptionError: the labels are neither numbers nor text.
        """
        check_is_fitted(self, "net_")
        if self.classes_.dtype.kind not in "iufbU" and not all(
            isinstance(label, str) for label in self.classes_
        ):
            raise OptionError("only a network whose labels are numbers or text can be saved")
        arrays = {
            _WEIGHTS + name: tensor.detach().cpu().numpy()
            for name, tensor in self.module_.state_dict().items()
        }
        arrays |= {"scale/mean": self._scale.mean, "scale/deviation": self._scale.deviation}
        options = {k: v for k, v in self.get_params(deep=False).items() if _is_plain(v)}
        names = getattr(self, "feature_names_in_", None)
        record = {
            "options": options,
            "layers": None if self.module is not None else [_described(x) for x in self.layers],
            "classes": self.classes_.tolist(),
            "dtype": self.classes_.dtype.kind == "O" or self.classes_.dtype.str,
            "input_shape": list(self.input_shape_),
            "row_shape": list(self._row_shape),
            "columns": None if names is None else list(names),
            "history": self.history_,
            "best": [self.best_epoch_, self.best_score_],
            "seed": self._seed,
        }
        write_model(path, _KIND, arrays, record)

    @classmethod
    def load(
        cls, path: str | Path, *, module: nn.Module | Callable[..., nn.Module] | None = None
    ) -> Self:
        """Read a network that `save` wrote.

        The network predicts, and can be `initial` of `fit`; `partial_fit` cannot continue its
        training.

        Args:
            path: file of the network.
            module: your own network, if the saved one had the option `module`.

        Raises:
            ModelFileError: the file does not exist, is damaged, or contains something else.
            OptionError: `module` is missing, or the network was made of `layers`.
        """
        arrays, record = read_model(path, _KIND)
        with damaged_if_it_raises(path):
            layers = record["layers"]
        if (layers is None) == (module is None):
            raise OptionError(
                "give load the same module as the saved network had"
                if module is None
                else "the saved network was made of layers: load it without module"
            )
        with damaged_if_it_raises(path):
            options = {**record["options"], "module": module}
            if layers is not None:
                options["layers"] = tuple(_layer(each) for each in layers)
            network: Any = cls(**options)
            _restore(network, arrays, record)
        return network  # type: ignore[no-any-return]


def _restore(network: Any, arrays: Mapping[str, Any], record: Mapping[str, Any]) -> None:
    """Set the attributes of a trained network from the content of its file."""
    import torch

    from rankwise.networks.callbacks import Progress

    own = record["dtype"]
    network.classes_ = np.array(record["classes"], dtype=object if own is True else np.dtype(own))
    network.input_shape_ = tuple(record["input_shape"])
    network._row_shape = tuple(record["row_shape"])
    network.n_features_in_ = network._row_shape[0]
    if record["columns"] is not None:
        network.feature_names_in_ = np.array(record["columns"], dtype=object)
    network._scale = Scale(arrays["scale/mean"], arrays["scale/deviation"])
    network._seed, network._last, network.morphism_ = record["seed"], None, None
    network._progress = Progress(record["history"], *record["best"])
    built = assemble.make_module(network)
    weights = {
        name.removeprefix(_WEIGHTS): torch.from_numpy(array)
        for name, array in arrays.items()
        if name.startswith(_WEIGHTS)
    }
    built.load_state_dict(weights)
    network.net_ = assemble.make_net(network, built)
    network.module_ = network.net_.module_
    network.n_parameters_ = sum(p.numel() for p in built.parameters() if p.requires_grad)


def _is_plain(value: Any) -> bool:
    """True if a value has a JSON form that gives the same value when it is read."""
    try:
        return bool(json.loads(json.dumps(value)) == value) and value is not None
    except (TypeError, ValueError):
        return False


def _described(layer: Layer) -> dict[str, Any]:
    return {"kind": type(layer).__name__, **asdict(layer)}


def _layer(described: Mapping[str, Any]) -> Layer:
    """Make a layer from its description; lists become tuples."""
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in described.items()}
    kind = options.pop("kind")
    if kind not in _LAYERS:
        raise ModelFileError(f"there is no layer of kind {kind!r}")
    return _LAYERS[kind](**options)


_LAYERS: dict[str, Callable[..., Layer]] = {"Dense": Dense, "Conv": Conv}
