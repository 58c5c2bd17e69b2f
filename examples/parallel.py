"""Two proposals at a time, evaluated in parallel.

Each batch is proposed together: the second point is chosen as if the first had already come
back with the best loss so far (a constant liar), so that the two differ. Results repeat with
the seed, whatever the order in which the workers finish. Run: python examples/parallel.py
"""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import rankwise

space = {"C": (1e-3, 1e3, "log"), "gamma": (1e-5, 10.0, "log")}


def error(configuration: dict) -> float:
    """Misclassification rate by five-fold cross-validation."""
    X, y = load_breast_cancer(return_X_y=True)
    model = make_pipeline(StandardScaler(), SVC(**configuration))
    return 1 - cross_val_score(model, X, y, cv=5).mean()


def main(trials: int = 20) -> rankwise.Result:
    """Run the search on two cores and print what it found."""
    result = rankwise.minimize(error, space, trials=trials, n_jobs=2, liar="min", seed=1)
    print(result)
    return result


if __name__ == "__main__":
    main()
