"""Configure a whole pipeline: a feature filter, then a support vector machine or naive Bayes.

The filter (by ANOVA or by variance) keeps 50 to 100 percent of the features; which learner follows
is a choice, and the hyperparameters of the learner that was not chosen are inactive.
Run: python examples/pipeline.py
"""

import numpy as np
from sklearn.datasets import load_wine
from sklearn.feature_selection import SelectPercentile, VarianceThreshold, f_classif
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import rankwise

space = rankwise.make_space(
    {
        "filter": ["anova", "variance"],
        "keep": (50, 100),
        "learner": ["svm", "bayes"],
        "C": (1e-3, 1e3, "log"),
        "kernel": ["rbf", "linear"],
        "gamma": (1e-5, 10.0, "log"),
        "smoothing": (1e-10, 1.0, "log"),
    },
    when={
        "C": {"learner": "svm"},
        "kernel": {"learner": "svm"},
        "gamma": {"kernel": "rbf"},
        "smoothing": {"learner": "bayes"},
    },
)


def variance(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Score of each feature: its variance in units of its squared mean."""
    return X.var(axis=0) / (X.mean(axis=0) ** 2 + 1e-12)


def build(configuration: dict) -> Pipeline:
    """The pipeline that a configuration describes."""
    score = f_classif if configuration["filter"] == "anova" else variance
    if configuration["learner"] == "bayes":
        learner = GaussianNB(var_smoothing=configuration["smoothing"])
    else:
        learner = SVC(
            C=configuration["C"],
            kernel=configuration["kernel"],
            gamma=configuration.get("gamma", "scale"),
        )
    return make_pipeline(
        VarianceThreshold(),  # constant features have no score
        SelectPercentile(score, percentile=configuration["keep"]),
        StandardScaler(),
        learner,
    )


def main(trials: int = 40) -> rankwise.Result:
    """Tune the pipeline on the wine data and print what was found."""
    X, y = load_wine(return_X_y=True)

    def accuracy(configuration: dict) -> float:
        return cross_val_score(build(configuration), X, y, cv=5).mean()

    result = rankwise.minimize(accuracy, space, trials=trials, direction="maximize", seed=1)
    print(result)
    return result


if __name__ == "__main__":
    main()
