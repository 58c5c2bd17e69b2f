"""Tune the cost and the kernel width of a support vector machine on iris.

Both live on logarithmic scales, so the space is numeric and `mbo` models it by Kriging.
Run: python examples/svm_iris.py
"""

from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

import rankwise

X, y = load_iris(return_X_y=True)
space = {"C": (2**-15, 2.0**15, "log"), "gamma": (2**-15, 2.0**15, "log")}


def error(configuration: dict) -> float:
    """Misclassification rate by three-fold cross-validation."""
    return 1 - cross_val_score(SVC(**configuration), X, y, cv=3).mean()


def main(trials: int = 25) -> rankwise.Result:
    """Run the search and print what it found."""
    result = rankwise.minimize(error, space, trials=trials, seed=1)
    print(result)
    return result


if __name__ == "__main__":
    main()
