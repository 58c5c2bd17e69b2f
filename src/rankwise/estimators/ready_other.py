"""Ready-made spaces of kernels, linear models, neighbours, networks and naive Bayes.

The ranges assume standardized columns: put a scaler in front.
"""

from __future__ import annotations

from typing import Any

from rankwise.estimators.ready_space import CLASSIFICATION, REGRESSION, VALUE, ReadySpace
from rankwise.types import Configuration

_BALANCE = {"class_weight": [None, "balanced"]}


def _svm(params: Configuration) -> dict[str, Any]:
    if params["kernel"] == "linear":
        params["C"] = params.pop("linear_C")
    elif params["kernel"] == "poly":
        params["gamma"] = "scale"  # a different gamma would only rescale C
    return params


def _logistic(params: Configuration) -> dict[str, Any]:
    from sklearn.linear_model import LogisticRegression

    penalty = params.pop("penalty")
    solver = "lbfgs" if penalty == "l2" else "saga"
    if getattr(LogisticRegression(), "penalty", None) == "l2":  # before scikit-learn 1.8
        ratio = params.get("l1_ratio")  # None: only the elastic net may have one
        return {**params, "penalty": penalty, "l1_ratio": ratio, "solver": solver}
    ratio = params.get("l1_ratio", {"l2": 0.0, "l1": 1.0}.get(penalty))
    return {**params, "l1_ratio": ratio, "solver": solver}


def _mlp(params: Configuration) -> dict[str, Any]:
    sizes = (params.pop("hidden_units"),) * params.pop("hidden_layers")
    return {**params, "hidden_layer_sizes": sizes}


OTHERS = (
    ReadySpace(
        "svc",
        "Support vector machine with a kernel",
        {CLASSIFICATION: "sklearn.svm.SVC", REGRESSION: "sklearn.svm.SVR"},
        parameters={
            "kernel": ["rbf", "poly", "linear"],
            "C": (1e-2, 1e3, "log"),
            "linear_C": (1e-4, 10.0, "log"),  # a larger C makes the fit very slow
            "gamma": ["scale", VALUE],
            "gamma_value": (1e-5, 10.0, "log"),
            "degree": (2, 5),
            "coef0": (0.0, 1.0),
        },
        extra={CLASSIFICATION: _BALANCE, REGRESSION: {"epsilon": (1e-3, 1.0, "log")}},
        when={
            "C": {"kernel": ["rbf", "poly"]},
            "linear_C": {"kernel": "linear"},
            "gamma": {"kernel": "rbf"},
            "gamma_value": {"gamma": VALUE},
            "degree": {"kernel": "poly"},
            "coef0": {"kernel": "poly"},
        },
        defaults={"C": 1.0, "linear_C": 1.0, "degree": 3, "coef0": 0.0, "epsilon": 0.1},
        derive=_svm,
    ),
    ReadySpace(
        "linear-svc",
        "Linear support vector machine",
        {CLASSIFICATION: "sklearn.svm.LinearSVC", REGRESSION: "sklearn.svm.LinearSVR"},
        parameters={"C": (1e-4, 100.0, "log")},
        extra={
            CLASSIFICATION: {"loss": ["squared_hinge", "hinge"], **_BALANCE},
            REGRESSION: {
                "loss": ["epsilon_insensitive", "squared_epsilon_insensitive"],
                "epsilon": (1e-4, 1.0, "log"),
            },
        },
        defaults={"C": 1.0, "epsilon": 1e-4},
    ),
    ReadySpace(
        "logistic-regression",
        "Logistic regression with an L2, L1 or elastic-net penalty",
        {CLASSIFICATION: "sklearn.linear_model.LogisticRegression"},
        parameters={
            "C": (1e-4, 1e4, "log"),
            "penalty": ["l2", "l1", "elasticnet"],
            "l1_ratio": (0.01, 0.99),
            **_BALANCE,
        },
        when={"l1_ratio": {"penalty": "elasticnet"}},
        defaults={"C": 1.0},
        derive=_logistic,
        settings={"max_iter": 1000},
    ),
    ReadySpace(
        "sgd",
        "Linear model by stochastic gradient descent, for much data; keeps its loss",
        {
            CLASSIFICATION: "sklearn.linear_model.SGDClassifier",
            REGRESSION: "sklearn.linear_model.SGDRegressor",
        },
        parameters={
            "alpha": (1e-7, 0.1, "log"),
            "penalty": ["l2", "l1", "elasticnet"],
            "l1_ratio": (0.01, 0.99),
            "eta0": (1e-4, 0.1, "log"),
            "average": [False, True],
        },
        extra={
            CLASSIFICATION: {"learning_rate": ["optimal", "invscaling", "adaptive"], **_BALANCE},
            REGRESSION: {"learning_rate": ["invscaling", "adaptive"]},
        },
        when={
            "l1_ratio": {"penalty": "elasticnet"},
            "eta0": {"learning_rate": ["invscaling", "adaptive"]},
        },
        defaults={"alpha": 1e-4, "l1_ratio": 0.15, "eta0": 0.01},
    ),
    ReadySpace(
        "ridge",
        "Linear model with an L2 penalty",
        {
            CLASSIFICATION: "sklearn.linear_model.RidgeClassifier",
            REGRESSION: "sklearn.linear_model.Ridge",
        },
        parameters={"alpha": (1e-4, 1e4, "log")},
        extra={CLASSIFICATION: _BALANCE},
        defaults={"alpha": 1.0},
    ),
    ReadySpace(
        "lasso",
        "Linear model with an L1 penalty",
        {REGRESSION: "sklearn.linear_model.Lasso"},
        parameters={"alpha": (1e-5, 100.0, "log")},
        defaults={"alpha": 1.0},
    ),
    ReadySpace(
        "elastic-net",
        "Linear model with an L1 and an L2 penalty",
        {REGRESSION: "sklearn.linear_model.ElasticNet"},
        parameters={"alpha": (1e-5, 100.0, "log"), "l1_ratio": (0.01, 1.0)},
        defaults={"alpha": 1.0, "l1_ratio": 0.5},
    ),
    ReadySpace(
        "k-neighbors",
        "Nearest neighbours: how many, how they vote, and the distance",
        {
            CLASSIFICATION: "sklearn.neighbors.KNeighborsClassifier",
            REGRESSION: "sklearn.neighbors.KNeighborsRegressor",
        },
        parameters={
            "n_neighbors": (1, 30, "log"),
            "weights": ["uniform", "distance"],
            "p": [2, 1],
        },
        defaults={"n_neighbors": 5},
    ),
    ReadySpace(
        "mlp",
        "Neural network: layers, their width, speed and weight decay",
        {
            CLASSIFICATION: "sklearn.neural_network.MLPClassifier",
            REGRESSION: "sklearn.neural_network.MLPRegressor",
        },
        parameters={
            "hidden_layers": (1, 3),
            "hidden_units": (16, 256, "log"),
            "activation": ["relu", "tanh"],
            "alpha": (1e-6, 1.0, "log"),
            "learning_rate_init": (1e-4, 0.05, "log"),
        },
        defaults={
            "hidden_layers": 1,
            "hidden_units": 100,
            "alpha": 1e-4,
            "learning_rate_init": 1e-3,
        },
        derive=_mlp,
    ),
    ReadySpace(
        "gaussian-nb",
        "Naive Bayes for numbers: how much the variances are smoothed",
        {CLASSIFICATION: "sklearn.naive_bayes.GaussianNB"},
        parameters={"var_smoothing": (1e-11, 1.0, "log")},
        defaults={"var_smoothing": 1e-9},
    ),
    ReadySpace(
        "bernoulli-nb",
        "Naive Bayes for columns that are on or off",
        {CLASSIFICATION: "sklearn.naive_bayes.BernoulliNB"},
        parameters={"alpha": (1e-3, 100.0, "log"), "fit_prior": [True, False]},
        defaults={"alpha": 1.0},
    ),
    ReadySpace(
        "multinomial-nb",
        "Naive Bayes for counts",
        {CLASSIFICATION: "sklearn.naive_bayes.MultinomialNB"},
        parameters={"alpha": (1e-3, 100.0, "log"), "fit_prior": [True, False]},
        defaults={"alpha": 1.0},
    ),
)
