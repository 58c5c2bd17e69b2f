"""Tune a support vector machine and its kernel: gamma and degree exist only for some kernels.

The space is hierarchical: the distances of `mbo`'s Gaussian process respect which hyperparameters
are active. Run: python examples/svm_kernels.py
"""

from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

import rankwise

X, y = load_iris(return_X_y=True)
space = rankwise.make_space(
    {
        "kernel": ["rbf", "poly", "linear"],
        "C": (2**-5, 2.0**10, "log"),
        "gamma": (2**-10, 2.0**5, "log"),
        "degree": (1, 4),
    },
    when={"gamma": {"kernel": "rbf"}, "degree": {"kernel": "poly"}},
)


def error(configuration: dict) -> float:
    """Misclassification rate by three-fold cross-validation."""
    return 1 - cross_val_score(SVC(**configuration), X, y, cv=3).mean()


def main(trials: int = 30) -> rankwise.Result:
    """Run the search and print its five best trials."""
    result = rankwise.minimize(error, space, trials=trials, seed=1)
    print(result)
    print(result.top(5).filter(regex="value$|params"))
    return result


if __name__ == "__main__":
    main()
