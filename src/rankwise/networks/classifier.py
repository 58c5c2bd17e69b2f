"""ConvNetClassifier: fully connected and convolutional networks as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from typing_extensions import Self

from rankwise._core.lazy import load_module
from rankwise.errors import GeometryError, OptionError, TrainingDiverged, check_count, is_number
from rankwise.networks import assemble as parts
from rankwise.networks.fitted import FittedNetwork
from rankwise.networks.images import (
    Floats,
    Metric,
    Scale,
    channels_first,
    epoch_score,
    kept_apart,
    shape_of,
)
from rankwise.networks.layers import Dense, Layer
from rankwise.types import Array, Counts

if TYPE_CHECKING:
    from torch import Tensor, nn

    from rankwise.networks.training import Rows


class ConvNetClassifier(ClassifierMixin, FittedNetwork, BaseEstimator):  # type: ignore[misc]
    """A network of fully connected and convolutional layers; needs `rankwise[neural]`.

    The data are images (n, h, w) or (n, h, w, c), or rows (n, d). Rows with `input_shape` are
    images, too; without it, they need fully connected layers. `fit` raises `GeometryError` (before
    training), `TrainingDiverged` or `NetworkTooLarge` if the network cannot be built, diverges or
    does not fit into memory. `rankwise.minimize` records such a trial as failed and continues.

    Args:
        layers: hidden layers, `Dense` and `Conv`; no `Conv` after a `Dense`.
        input_shape: (h, w) or (h, w, c) of images that come as rows.
        dropout: dropout rate of layers that do not set their own.
        input_dropout: dropout rate of the inputs.
        batch_norm: batch normalization of layers that do not set their own.
        output: activation of the output layer: "softmax" (trained with cross entropy) or "sigmoid"
            (one yes-or-no question per class, whose answers are scaled to sum to 1).
        learning_rate: learning rate of the optimizer.
        schedule: learning rate over the `epochs`: "constant", "cosine", "linear", "step" (a tenth
            after half of the epochs, a hundredth after three quarters), or a function that maps
            (epoch, epochs), counted from 1, to a factor.
        momentum: momentum of the optimizer, where it has one ("sgd", "rmsprop").
        weight_decay: weight decay of the optimizer.
        optimizer: "sgd", "adam", "adamw", "rmsprop", or a class of torch.optim.
        batch_size: rows per step.
        epochs: maximum number of passes over the training rows.
        initializer: initializer of the weights: "xavier", "kaiming", "normal", "orthogonal", a
            function that fills a tensor, or None for torch's default.
        validation: share of the rows to hold out, or `(X, y)`, or None.
        patience: stop after this many epochs without a better validation score.
        restore_best: end with the weights of the epoch with the best validation score.
        metric: validation score, larger is better: the name of a scikit-learn scorer, or a
            function `metric(y_true, y_predicted)`.
        on_epoch: called as `on_epoch(epoch, score, self)` after each epoch, epochs counted from 1;
            returning True ends the training, and an exception propagates through `fit`.
        on_batch: called as `on_batch(epoch, batch, loss, self)` after each step; return
            value and exceptions work as for `on_epoch`.
        standardize: scale channels (images) or columns (rows) to mean 0 and standard deviation 1.
        module: your own network instead of `layers`: an `nn.Module` (a copy of it is trained)
            or a function of (input_shape, n_classes) that makes one. It takes images
            (n, c, h, w) or rows (n, d) and returns logits (n, k).
        device: torch device; "auto" takes a GPU if there is one.
        threads: number of torch threads; None keeps the current number.
        random_state: seed of weights, batches, dropout and the held-out rows.

    Attributes:
        classes_: labels (k,).
        module_: the trained `nn.Module`.
        net_: the skorch net that holds the module.
        n_parameters_: number of trained weights.
        input_shape_: shape of one input, (h, w, c) or (d,).
        morphism_: how far the function of `initial` was preserved; None without `initial`.
    """

    def __init__(
        self,
        layers: Sequence[Layer] = (Dense(),),
        *,
        input_shape: Sequence[int] | None = None,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
        batch_norm: bool = False,
        output: str = "softmax",
        learning_rate: float = 0.05,
        schedule: str | Callable[[int, int], float] = "constant",
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        optimizer: str | type = "sgd",
        batch_size: int = 64,
        epochs: int = 20,
        initializer: str | Callable[[Tensor], object] | None = None,
        validation: float | tuple[Any, Any] | None = None,
        patience: int | None = None,
        restore_best: bool = True,
        metric: str | Metric = "accuracy",
        on_epoch: Callable[[int, float | None, ConvNetClassifier], Any] | None = None,
        on_batch: Callable[[int, int, float, ConvNetClassifier], Any] | None = None,
        standardize: bool = True,
        module: nn.Module | Callable[..., nn.Module] | None = None,
        device: str = "cpu",
        threads: int | None = 1,
        random_state: Any = None,
    ) -> None:
        self.layers = layers
        self.input_shape = input_shape
        self.dropout = dropout
        self.input_dropout = input_dropout
        self.batch_norm = batch_norm
        self.output = output
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.optimizer = optimizer
        self.batch_size = batch_size
        self.epochs = epochs
        self.initializer = initializer
        self.validation = validation
        self.patience = patience
        self.restore_best = restore_best
        self.metric = metric
        self.on_epoch = on_epoch
        self.on_batch = on_batch
        self.standardize = standardize
        self.module = module
        self.device = device
        self.threads = threads
        self.random_state = random_state

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any], **others: Any) -> Self:
        """Make the classifier of a configuration of `convnet_space`.

        Args:
            configuration: configuration of `convnet_space`.
            **others: parameters of the classifier; they override the configuration.
        """
        from rankwise.networks.space import network_of

        return cls(**{**network_of(configuration), **others})

    # ------------------------------------------------------------------ training

    def fit(self, X: Any, y: Any, *, initial: ConvNetClassifier | None = None) -> Self:
        """Train a new network.

        Args:
            X: images (n, h, w) or (n, h, w, c), or rows (n, d).
            y: labels (n,).
            initial: trained network with fewer or smaller layers. Its function is the start of
                the training, as far as possible; `morphism_` lists what could not be preserved.
                See `rankwise.networks.morphism`.

        Raises:
            GeometryError: the layers do not fit the images; nothing was trained.
            TrainingDiverged: the loss became infinite or NaN.
            NetworkTooLarge: there is not enough memory.
        """
        self._begin(X, y, None, initial)
        return self._train(X, y, self.epochs)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, *, epochs: int = 1) -> Self:
        """Train for more epochs, with the same result as one longer training.

        The optimizer, the random state and the history continue. With the same rows, the same
        rows are held out for validation. The first call starts a new network. A network from a
        file cannot continue: use it as `initial` of `fit`.

        Args:
            X: images or rows, as in `fit`.
            y: labels (n,).
            classes: all labels, if the rows of the first call do not have all of them.
            epochs: number of epochs to add.
        """
        if not hasattr(self, "net_"):
            self._begin(X, y, classes, None)
        parts.check_continues(self)
        return self._train(X, y, check_count("epochs", epochs))

    def _begin(self, X: Any, y: Any, classes: Any, initial: ConvNetClassifier | None) -> None:
        """Check the options and make a new, untrained network."""
        training = import_training()
        from rankwise.networks.callbacks import Progress

        parts.check_options(self)
        self.__dict__.pop("net_", None)  # an error below must not leave an old network behind
        X, y = validate_data(self, X, y, **_NUMBERS)
        check_classification_targets(y)
        self._row_shape = X.shape[1:]
        self.input_shape_ = shape_of(X, self.input_shape)
        self.classes_ = np.unique(y if classes is None else classes)
        self._seed = _seed(self.random_state)
        rows = channels_first(X, self.input_shape_)
        self._scale = Scale.of(rows[self._split(self._indices(y))[0]])
        self._progress = Progress()
        self._last: dict[str, Tensor] | None = None
        with training.reproducible(self.device, self.threads, self._seed) as randomness:
            module = parts.make_module(self)
            self.morphism_ = None if initial is None else parts.start_from(initial, self, module)
            self.net_ = parts.make_net(self, module)
            self._random = randomness.state()
        self.module_ = self.net_.module_
        self.n_parameters_ = sum(p.numel() for p in self.module_.parameters() if p.requires_grad)

    def _train(self, X: Any, y: Any, epochs: int) -> Self:
        training = import_training()
        from rankwise.networks.callbacks import Watcher

        X, y = validate_data(self, X, y, reset=False, **_NUMBERS)
        train, validation = self._rows(X, self._indices(y))
        watcher = Watcher(
            self._progress,
            None if validation is None else self._score(validation),
            self.patience,
            self._told,
            self._stepped if self.on_batch is not None else None,
            parts.factor_of(self),
        )
        if self._last is not None:
            self.module_.load_state_dict(self._last)
        with training.reproducible(self.device, self.threads, self._random) as randomness:
            self.net_.run(train, validation, epochs, watcher)
            self._random = randomness.state()
        self._last = self._finish() if self.restore_best else None
        return self

    def _finish(self) -> dict[str, Tensor] | None:
        """Restore the weights of the best epoch.

        Returns:
            The weights of the last epoch, from which `partial_fit` continues; None if there was
            no validation.
        """
        from rankwise.networks.callbacks import copied

        progress = self._progress
        if progress.best_state is None:
            return None
        # Also if the last epoch was the best: a later epoch may have been stopped half-way.
        last = copied(self.module_)
        self.module_.load_state_dict(progress.best_state)
        return last

    def _told(self, epoch: int, score: float | None) -> Any:
        return None if self.on_epoch is None else self.on_epoch(epoch, score, self)

    def _stepped(self, epoch: int, batch: int, loss: float) -> Any:
        return None if self.on_batch is None else self.on_batch(epoch, batch, loss, self)

    # ------------------------------------------------------------------ results

    def predict_proba(self, X: Any) -> Array:
        """Predict the probabilities (n, k) of the classes, in the order of `classes_`.

        Raises:
            TrainingDiverged: the network's outputs are not finite.
        """
        check_is_fitted(self, "net_")
        training = import_training()
        X = validate_data(self, X, reset=False, **_NUMBERS)
        with training.threads(self.threads):
            logits = self.net_.forward(training.Rows(self._tensor(X)))
            probabilities: Array = training.probabilities(logits, self.output).numpy()
        if not np.isfinite(probabilities).all():
            raise TrainingDiverged("the outputs of the network are not finite")
        return probabilities

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predict the most likely labels (n,)."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[likeliest])

    # ------------------------------------------------------------------ parts

    def _indices(self, y: npt.NDArray[Any]) -> Counts:
        """Convert labels (n,) to indices of classes (n,).

        Raises:
            OptionError: a label is not in `classes_`.
        """
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise OptionError(f"label {unknown[0]!r} is not one of {list(self.classes_)}")
        return np.searchsorted(self.classes_, y)

    def _split(self, y: Counts) -> tuple[Counts, Counts]:
        """Indices of the training rows, and of the validation rows if a share is held out."""
        everything = np.arange(len(y))
        if not is_number(self.validation):
            return everything, everything[:0]
        kept = kept_apart(y, float(self.validation), self._seed)  # type: ignore[arg-type]
        return np.setdiff1d(everything, kept), kept

    def _rows(self, X: Floats, y: Counts) -> tuple[Rows, Rows | None]:
        """Return the training rows, and the validation rows or None."""
        import torch

        training = import_training()
        tensor, labels = self._tensor(X), torch.as_tensor(y)
        if self.validation is None:
            return training.Rows(tensor, labels), None
        if is_number(self.validation):
            rest, kept = map(torch.as_tensor, self._split(y))
            return training.Rows(tensor[rest], labels[rest]), training.Rows(
                tensor[kept], labels[kept]
            )
        given_X, given_y = validate_data(self, *self.validation, reset=False, **_NUMBERS)  # type: ignore[misc]
        given = training.Rows(self._tensor(given_X), torch.as_tensor(self._indices(given_y)))
        return training.Rows(tensor, labels), given

    def _tensor(self, X: Floats) -> Tensor:
        """Convert X to images (n, c, h, w) or rows (n, d), standardized if `standardize`.

        Raises:
            GeometryError: the rows have another shape than in `fit`.
        """
        import torch

        if X.shape[1:] != self._row_shape:
            raise GeometryError(
                f"the network was trained on rows of shape {self._row_shape}, not {X.shape[1:]}"
            )
        X = channels_first(X, self.input_shape_)
        return torch.from_numpy(self._scale(X) if self.standardize else X)

    def _score(self, validation: Rows) -> Callable[[Tensor], float]:
        score = epoch_score(self.metric, self.classes_, validation.y.numpy())
        probabilities = import_training().probabilities
        return lambda logits: score(probabilities(logits, self.output).cpu().numpy())


_NUMBERS: dict[str, Any] = {"dtype": np.float32, "allow_nd": True}


def import_training() -> Any:
    """Import `rankwise.networks.training`, which needs PyTorch and skorch.

    Raises:
        MissingPackageError: one of them is not installed.
    """
    return load_module("rankwise.networks.training", "ConvNetClassifier")


def _seed(random_state: Any) -> int:
    """Convert the scikit-learn argument `random_state` to a seed.

    None gives a random seed and does not change NumPy's global random state.
    """
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    if is_number(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
