"""Tune a PyTorch network through skorch.

skorch's estimators take parameters that they do not list: "module__units" is an argument of the
module and "optimizer__weight_decay" one of the optimizer. They are searched like any other.

    pip install skorch
    python examples/skorch_search.py
"""

import torch
from sklearn.datasets import load_wine
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from skorch import NeuralNetClassifier

from rankwise import RankwiseSearchCV


class Network(torch.nn.Module):
    """A layer of hidden units with dropout."""

    def __init__(self, units=8, dropout=0.0):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(13, units),
            torch.nn.ReLU(),
            torch.nn.Dropout(dropout),
            torch.nn.Linear(units, 3),
        )

    def forward(self, X):
        return self.layers(X)


def to_float32(X):
    return X.astype("float32")


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    network = NeuralNetClassifier(
        Network,
        criterion=torch.nn.CrossEntropyLoss,
        optimizer=torch.optim.AdamW,
        max_epochs=10,
        train_split=None,
        verbose=0,
    )
    # Networks take 32-bit numbers; the scaler gives 64-bit ones.
    pipeline = make_pipeline(StandardScaler(), FunctionTransformer(to_float32), network)
    net = "neuralnetclassifier__"
    search = RankwiseSearchCV(
        pipeline,
        {
            f"{net}module__units": (4, 64, "log"),
            f"{net}module__dropout": (0.0, 0.5),
            f"{net}optimizer__weight_decay": (1e-5, 1e-1, "log"),
            f"{net}lr": (1e-3, 1e-1, "log"),
        },
        n_trials=8,
        cv=StratifiedKFold(3, shuffle=True, random_state=0),
        random_state=0,
        verbose=2,
    )
    search.fit(*load_wine(return_X_y=True))
    print(f"best accuracy: {search.best_score_:.3f}")
    for name, value in search.best_params_.items():
        print(f"  {name.removeprefix(net)}: {value:.3g}")


if __name__ == "__main__":
    main()
