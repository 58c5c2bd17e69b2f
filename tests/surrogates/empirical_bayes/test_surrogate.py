"""The empirical-Bayes transfer GP against dense formulas, GPyTorch, and what it is meant to do."""

from __future__ import annotations

import math
import warnings

import numpy as np
import optuna
import pytest
from scipy.optimize import approx_fprime, minimize_scalar
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal

import rankwise
from rankwise import Encoder, Optimizer, RankwiseSampler, TaskSet, make_space, methods
from rankwise.errors import ModelFileError, OptionError
from rankwise.history.task import Task
from rankwise.run.model_cache import learnt_optimizer
from rankwise.surrogates.empirical_bayes import posterior as conditioned
from rankwise.surrogates.empirical_bayes import surrogate as eb
from rankwise.surrogates.empirical_bayes.model_grid import (
    FACTORS,
    KAPPA,
    Models,
    fit_models,
    learn_prior,
    residual_kernels,
    residual_slopes,
)
from rankwise.surrogates.empirical_bayes.past_functions import Source
from rankwise.surrogates.empirical_bayes.source_votes import pair_agreement
from rankwise.surrogates.empirical_bayes.surrogate import EmpiricalBayes
from rankwise.surrogates.model_files import write_model
from rankwise.surrogates.single_study.gp import GaussianProcess

SQUARE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
NOTHING = Task.of(np.empty((0, 2)), [])


@pytest.fixture(autouse=True)
def all_lead(monkeypatch):
    """Also models of a tiny share, so that all can be compared; one test looks at what is left."""
    monkeypatch.setattr(conditioned, "_MIN_SHARE", 0.0)


@pytest.fixture(autouse=True)
def no_fallback():
    """A surrogate that fails is replaced by a random proposal and a warning: not in tests."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="the surrogate failed")
        yield


def bowl(centre, n: int = 30, seed: int = 0, scale: float = 1.0, name: str = "") -> Task:
    """Losses that grow with the distance from a centre (2,)."""
    X = np.random.default_rng(seed).random((n, 2))
    return Task.of(X, scale * np.square(X - centre).sum(axis=1), name=name)


def bowls(count: int, n: int = 30, at: float = 0.3) -> list[Task]:
    """Past studies whose centres are near each other, each with another scale of losses."""
    centres = at + 0.05 * np.random.default_rng(0).normal(size=(count, 2))
    return [bowl(centres[k], n, seed=k, scale=10.0**k, name=f"study {k}") for k in range(count)]


def points(n: int = 6, seed: int = 70):
    return np.random.default_rng(seed).random((n, 2))


@pytest.fixture(scope="module")
def learnt() -> EmpiricalBayes:
    """All of its models lead, and none is preferred, so that all can be compared."""
    return EmpiricalBayes(caution=0.0, leading=1000).meta_fit(bowls(6))


def fitted(learnt: EmpiricalBayes, task: Task, **settings) -> EmpiricalBayes:
    twin = learnt.with_seed(0)
    for name, value in settings.items():
        setattr(twin, name, value)
    return twin.fit(task)


# ---------------------------------------------------------------------- a dense reference


class Dense:
    """One model, with matrices of everything: no factors, no whitening."""

    def __init__(self, learnt: EmpiricalBayes, models: Models, h: int) -> None:
        self.sources, self.scales = learnt.past.sources, learnt.past.lengthscales
        self.m, self.a, self.b = models.mean[h], models.source[h], models.residual[h]
        self.f, self.noise = FACTORS[models.factor[h]], models.noise[h]

    def mean(self, A):
        return self.m * np.mean([source(A) for source in self.sources], axis=0)

    def covariance(self, A, B):
        P = np.concatenate([A, B])
        votes = np.array([source(P) for source in self.sources])
        C = np.cov(votes, rowvar=False)[: len(A), len(A) :]
        r = math.sqrt(5) * cdist(A / (self.scales * self.f), B / (self.scales * self.f))
        return self.a**2 * C + self.b**2 * (1 + r + r**2 / 3) * np.exp(-r) + KAPPA

    def noisy(self, X):
        return self.covariance(X, X) + self.noise**2 * np.eye(len(X))

    def log_evidence(self, X, y):
        """Of losses y and one more of one standard deviation, as a function of v."""
        density, n = multivariate_normal(self.mean(X), self.noisy(X)), len(y)

        def of(v):
            pseudo = np.log(v) - 0.5 * v * v
            return density.logpdf(v * y) + 0.5 * n * np.log(2 * np.pi) + n * np.log(v) + pseudo

        return of

    def scale(self, X, y):
        """The v at which the evidence is largest, and what it is there."""
        evidence = self.log_evidence(X, y)
        found = minimize_scalar(lambda t: -evidence(np.exp(t)), bounds=(-7, 7), method="bounded")
        return float(np.exp(found.x)), -found.fun

    def posterior(self, X, y, v, Z):
        """Mean and covariance at Z of losses in units of y."""
        k, K = self.covariance(Z, X), self.noisy(X)
        mean = self.mean(Z) + k @ np.linalg.solve(K, v * y - self.mean(X))
        return mean / v, (self.covariance(Z, Z) - k @ np.linalg.solve(K, k.T)) / v**2


def standardized(task: Task):
    return (task.losses - task.losses.mean()) / task.losses.std(), task.losses.std()


def dense_parts(surrogate: EmpiricalBayes, task: Task, Z, extra=None):
    """Of every model its weight (H,), mean (H, m) and covariance (H, m, m) at Z (m, 2).

    Each model has also observed what it expects at the `extra` points.
    """
    (y, _), models = standardized(task), surrogate.models
    log_weights, parts = np.log(models.prior), []
    for h in range(len(models)):
        dense, X, seen = Dense(surrogate, models, h), task.X, y
        v, evidence = dense.scale(X, y)
        log_weights[h] += evidence
        if extra is not None:
            seen = np.concatenate([y, dense.posterior(X, y, v, extra)[0]])
            X = np.concatenate([X, extra])
        parts.append(dense.posterior(X, seen, v, Z))
    weights = np.exp(log_weights - log_weights.max())
    means, covariances = (np.array(part) for part in zip(*parts, strict=True))
    return weights / weights.sum(), means, covariances


def mixed(task: Task, weights, means, covariances):
    """Mean and covariance of a mixture, in units of the loss."""
    centre, unit = weights @ means, standardized(task)[1]
    away = means - centre
    covariance = np.einsum("h,hij->ij", weights, covariances) + (weights * away.T) @ away
    return centre * unit + task.losses.mean(), covariance * unit**2


@pytest.mark.parametrize("n", [1, 2, 9])
def test_evidence_of_every_model_is_that_of_a_normal_density(learnt, n):
    task, models = bowl(0.4, n, seed=20), Models.grid().with_opposites
    view = learnt.past.view
    y = np.random.default_rng(n).normal(size=n)
    kernels = residual_kernels(task.X, task.X, learnt.past.lengthscales)
    fit = fit_models(models, view(task.X).mean, view(task.X).spread, kernels, y)
    assert len(fit.log_evidence) == len(models) == 108 + 54
    assert models.prior.sum() == pytest.approx(1.0)
    for h in range(len(models)):
        expected = Dense(learnt, models, h).log_evidence(task.X, y)(fit.v[h])
        assert fit.log_evidence[h] == pytest.approx(expected, abs=1e-7)
        residual = fit.L[h] @ fit.target[h]
        assert residual == pytest.approx(fit.v[h] * y - Dense(learnt, models, h).mean(task.X))


@pytest.mark.parametrize("n", [1, 2, 9, 30])
def test_the_scale_is_where_the_evidence_is_largest(learnt, n):
    task, models, view = bowl(0.4, n, seed=21), Models.grid(), learnt.past.view
    y = standardized(task)[0] if n > 1 else np.array([0.7])
    kernels = residual_kernels(task.X, task.X, learnt.past.lengthscales)
    fit = fit_models(models, view(task.X).mean, view(task.X).spread, kernels, y)
    for h in range(0, len(models), 5):
        assert fit.v[h] == pytest.approx(Dense(learnt, models, h).scale(task.X, y)[0], rel=1e-4)


def test_slopes_of_the_residual_kernels():
    B, x, scales = points(4), points(1)[0], np.array([0.3, 1.2])
    numeric = approx_fprime(
        x, lambda x: residual_kernels(x[None], B, scales)[:, 0].ravel(), 1e-7
    ).reshape(len(FACTORS), 4, 2)
    assert residual_slopes(x, B, scales, range(3)) == pytest.approx(numeric, abs=1e-5)
    assert residual_kernels(B, B, scales, [2, 0])[0] == pytest.approx(
        residual_kernels(B, B, scales)[2]
    )


@pytest.mark.parametrize("n", [2, 10])
def test_the_posterior_is_the_mixture_of_dense_ones(learnt, n):
    task, Z = bowl(0.45, n, seed=22, scale=50.0), points()
    surrogate = fitted(learnt, task)
    weights, *parts = dense_parts(learnt, task, Z)
    mean, covariance = mixed(task, weights, *parts)
    posterior = surrogate.predict(Z, joint=True)
    assert surrogate.weights == pytest.approx(weights, abs=1e-6)
    assert posterior.mean == pytest.approx(mean, rel=1e-5)
    assert posterior.covariance == pytest.approx(covariance, abs=1e-5 * covariance.max())
    assert posterior.std == pytest.approx(np.sqrt(np.diag(covariance)), rel=1e-4)


def test_more_observations_than_models_are_chosen_on(learnt):
    task, Z = bowl(0.45, 140, seed=23), points()
    surrogate = fitted(learnt, task)
    weights, *parts = dense_parts(learnt, task, Z)
    mean, covariance = mixed(task, surrogate.weights, *parts)
    posterior = surrogate.predict(Z)
    assert posterior.mean == pytest.approx(mean, abs=1e-6)
    assert posterior.std == pytest.approx(np.sqrt(np.diag(covariance)), rel=1e-3)
    everything, _ = mixed(task, weights, *parts)  # models chosen on all 140
    assert np.abs(posterior.mean - everything).max() < 0.1 * posterior.std.min()
    assert np.isfinite(surrogate.improvement(Z)).all()


def gpytorch_model(dense, X, y):
    """The exact process of gpytorch with the mean and the covariance of a model."""
    import gpytorch
    import torch

    class PastMean(gpytorch.means.Mean):
        def __init__(self, dense):
            super().__init__()
            self.dense = dense

        def forward(self, X):
            return torch.as_tensor(self.dense.mean(X.numpy()))

    class PastKernel(gpytorch.kernels.Kernel):
        def __init__(self, dense):
            super().__init__()
            self.dense = dense

        def forward(self, A, B, diag=False, **others):
            K = torch.as_tensor(self.dense.covariance(A.numpy(), B.numpy()))
            return K.diagonal() if diag else K

    class Reference(gpytorch.models.ExactGP):
        def __init__(self, dense, X, y):
            likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
            likelihood.noise = dense.noise**2
            super().__init__(torch.as_tensor(X), torch.as_tensor(y), likelihood)
            self.mean_module, self.covar_module = PastMean(dense), PastKernel(dense)

        def forward(self, X):
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(X), self.covar_module(X)
            )

    return Reference(dense, X, y)


def test_one_model_is_that_of_gpytorch(learnt):
    gpytorch, torch = pytest.importorskip("gpytorch"), pytest.importorskip("torch")
    task, Z = bowl(0.45, 12, seed=24), points()
    y, unit = standardized(task)
    h = int(np.argmax(fitted(learnt, task).weights))
    surrogate = fitted(learnt, task, models=learnt.models.some(np.array([h])))
    dense, [v] = Dense(learnt, learnt.models, h), surrogate.given.fit.v
    assert dense.m == 1 and dense.a > 0  # or there is little to compare
    reference = gpytorch_model(dense, task.X, v * y)
    reference.train()
    density = reference.likelihood(reference(*reference.train_inputs))
    theirs = density.log_prob(v * torch.as_tensor(y)).item() + 6 * np.log(2 * np.pi)
    ours = surrogate.given.fit.log_evidence[0] - 13 * np.log(v) + 0.5 * v * v
    assert ours == pytest.approx(theirs, abs=1e-6)
    reference.eval()
    with torch.no_grad(), gpytorch.settings.fast_computations(False, False, False):
        theirs = reference(torch.as_tensor(Z))
    posterior = surrogate.predict(Z, joint=True)
    mean, factor = theirs.mean.numpy() / v * unit + task.losses.mean(), unit / v
    assert posterior.mean == pytest.approx(mean, abs=1e-6)
    covariance = theirs.covariance_matrix.numpy() * factor**2
    assert posterior.covariance == pytest.approx(covariance, abs=1e-6)


def test_before_the_first_observation_it_is_the_prior(learnt):
    surrogate, Z = fitted(learnt.compact(), NOTHING), points()
    prior = learnt.models.prior
    parts = [Dense(learnt, learnt.models, h) for h in range(len(prior))]
    means = np.array([part.mean(Z) for part in parts])
    away = means - prior @ means
    covariance = np.einsum("h,hij->ij", prior, [part.covariance(Z, Z) for part in parts])
    posterior = surrogate.predict(Z, joint=True)
    assert posterior.mean == pytest.approx(prior @ means)
    assert posterior.covariance == pytest.approx(covariance + (prior * away.T) @ away)
    assert surrogate.weights.tolist() == prior.tolist()


def test_the_first_question_may_be_about_nothing():
    fresh = EmpiricalBayes().meta_fit(bowls(3)).fit(NOTHING)
    assert np.isfinite(fresh.predict(points()).mean).all()


@pytest.mark.parametrize("n", [0, 1, 8])
def test_a_joint_covariance_is_one(learnt, n):
    surrogate = fitted(learnt.compact(), bowl(0.4, n, seed=25) if n else NOTHING)
    Z = np.concatenate([points(20), points(3)])  # some of them twice
    posterior = surrogate.predict(Z, joint=True)
    covariance = posterior.covariance
    assert covariance == pytest.approx(covariance.T, abs=1e-10)
    assert np.linalg.eigvalsh(covariance).min() > -1e-9 * covariance.max()
    assert np.diag(covariance) == pytest.approx(posterior.std**2, rel=1e-7)


# ---------------------------------------------------------------------- the prior of the models


def likelihood_of(prior, evidence):
    """What EM makes as large as it can: with a little of every model."""
    h = len(prior)
    return np.log(np.exp(evidence) @ prior).sum() + 0.5 / h * np.log(prior).sum()


def test_learning_the_prior_increases_the_likelihood():
    rng = np.random.default_rng(0)
    evidence = rng.normal(size=(30, 6))
    values = [
        likelihood_of(learn_prior(evidence, temper=1.0, floor=0.0, rounds=k), evidence)
        for k in (0, 1, 2, 5, 20, 100, 2000)
    ]
    assert (np.diff(values) > 0).all()
    best = learn_prior(evidence, temper=1.0, floor=0.0, rounds=2000)
    for _ in range(50):
        other = best * np.exp(0.1 * rng.normal(size=6))
        assert likelihood_of(other / other.sum(), evidence) < values[-1]


def test_the_prior_finds_what_made_the_data():
    rng = np.random.default_rng(1)
    one = rng.normal(size=(40, 5))
    one[:, 2] += 5
    assert learn_prior(one, temper=1.0, floor=0.0)[2] > 0.9
    two = rng.normal(size=(1000, 5))
    two[:700, 1] += 20
    two[700:, 4] += 20
    prior = learn_prior(two, temper=1.0, floor=0.0)
    assert prior[[1, 4]] == pytest.approx([0.7, 0.3], abs=0.01)
    assert learn_prior(1000 * two - 1e6, temper=1.0, floor=0.0)[1] == pytest.approx(0.7, abs=0.01)


def test_temper_and_floor_hold_the_prior_back():
    evidence = np.zeros((4, 5))
    evidence[:, 3] = 4.0
    bold = learn_prior(evidence, temper=1.0, floor=0.0)
    assert 0.2 < learn_prior(evidence, temper=0.1, floor=0.0)[3] < bold[3]
    assert learn_prior(evidence, temper=0.0, floor=0.0) == pytest.approx([0.2] * 5)
    floored = learn_prior(evidence, temper=1.0, floor=0.5)
    assert floored == pytest.approx(0.5 * bold + 0.1)
    assert floored.sum() == pytest.approx(1)


def test_related_studies_teach_to_use_the_past():
    surrogate = EmpiricalBayes().meta_fit(bowls(6))
    models = surrogate.models
    assert models.prior.sum() == pytest.approx(1)
    assert models.prior[models.mean == 1].sum() > 0.9
    assert surrogate.exam > 1 and len(models) < 108
    uses = set(zip(models.mean.tolist(), models.source.tolist(), strict=True))
    assert len(uses) == 6  # no use of the past is ruled out


# ---------------------------------------------------------------------- tasks, and which of them


def outcome(surrogate: EmpiricalBayes, task: Task | None = None):
    """Everything that a search would see of it."""
    surrogate = surrogate.with_seed(0).fit(bowl(0.4, 7, seed=26) if task is None else task)
    posterior, Z = surrogate.predict(points()), points()
    return np.concatenate([posterior.mean, posterior.std, surrogate.improvement(Z)])


def test_the_order_of_past_tasks_does_not_matter():
    tasks, order = bowls(6), np.random.default_rng(2).permutation(6)
    a = EmpiricalBayes().meta_fit(tasks)
    b = EmpiricalBayes().meta_fit([tasks[k] for k in order[:4]], [tasks[k] for k in order[4:]])
    assert a.exam == pytest.approx(b.exam)
    assert outcome(a) == pytest.approx(outcome(b), abs=1e-8)


def test_what_the_past_says_does_not_depend_on_its_order():
    tasks = bowls(6)
    a, b = (EmpiricalBayes().meta_fit(t).past for t in (tasks, tasks[::-1]))
    assert a.lengthscales.tolist() == b.lengthscales.tolist()
    a, b = a.view(points()), b.view(points())
    assert a.mean == pytest.approx(b.mean)
    assert a.spread @ a.spread.T == pytest.approx(b.spread @ b.spread.T)


def test_a_task_given_twice_counts_twice():
    tasks = bowls(4)
    surrogate = EmpiricalBayes().meta_fit([*tasks, tasks[0]])
    view = surrogate.past.view(points())
    votes = np.array([s(points()) for s in surrogate.past.sources])
    assert len(votes) == 5 and len({row.tobytes() for row in votes}) == 4
    assert view.mean == pytest.approx(votes.mean(axis=0))
    assert np.isfinite(outcome(surrogate)).all()


def test_one_task_given_three_times():
    assert np.isfinite(outcome(EmpiricalBayes().meta_fit([bowl(0.3)] * 3))).all()


def count_fits(monkeypatch) -> list[str]:
    """The names of the tasks that sources are fitted to from now on."""
    names, fit = [], Source.of.__func__

    def of(cls, task):
        names.append(task.name)
        return fit(cls, task)

    monkeypatch.setattr(Source, "of", classmethod(of))
    return names


def test_a_study_is_added_without_fitting_the_others_again(tmp_path, monkeypatch):
    tasks = bowls(6)
    EmpiricalBayes().meta_fit(tasks[:5]).save(tmp_path / "model")
    afresh = EmpiricalBayes().meta_fit(tasks)
    names = count_fits(monkeypatch)
    extended = EmpiricalBayes().meta_fit(tasks, previous=tmp_path / "model")
    assert names == ["study 5"]
    assert outcome(extended).tolist() == outcome(afresh).tolist()
    assert extended.exam == afresh.exam


def test_a_previous_model_that_cannot_be_read_is_no_help_and_no_harm(tmp_path, monkeypatch):
    (tmp_path / "damaged").write_bytes(b"nothing")
    names, expected = count_fits(monkeypatch), outcome(EmpiricalBayes().meta_fit(bowls(3)))
    for name in ("damaged", "missing"):
        del names[:]
        surrogate = EmpiricalBayes().meta_fit(bowls(3), previous=tmp_path / name)
        assert len(names) == 3 and outcome(surrogate).tolist() == expected.tolist()


USELESS = {
    "none": [],
    "constant": [Task.of(points(5), [2.0] * 5)] * 2,
    "failed": [Task.of(points(5), [math.nan] * 5)],
    "one trial": [Task.of(points(1), [2.0])],
}


@pytest.mark.parametrize("tasks", USELESS.values(), ids=USELESS)
def test_without_a_past_it_is_the_ordinary_gaussian_process(tasks):
    task, Z = bowl(0.4, 12), points()
    ours, plain = EmpiricalBayes().meta_fit(tasks).fit(task), GaussianProcess().fit(task)
    assert not ours.meta_learned and not ours.influence
    for a, b in ((ours, plain), (ours.believing(points(2)), plain.believing(points(2)))):
        a, b = a.predict(Z, joint=True), b.predict(Z, joint=True)
        assert a.mean.tolist() == b.mean.tolist() and a.std.tolist() == b.std.tolist()
        assert a.covariance.tolist() == b.covariance.tolist()
    assert ours.improvement(Z) is None and ours.slope(Z[0]) is None
    assert not ours.compact().meta_learned
    with pytest.raises(OptionError, match="nothing to save"):
        ours.save("anywhere")


def test_without_a_past_the_method_proposes_as_gp_does():
    encoder = Encoder(SQUARE)
    strategies = [methods.make("eb-gp", encoder, []), methods.make("gp", encoder)]
    assert strategies[0].design == strategies[1].design
    for n in (0, 6):
        task = bowl(0.4, n) if n else NOTHING
        a, b = (s.propose(task, np.empty((0, 2)), np.random.default_rng(1)) for s in strategies)
        assert a.tolist() == b.tolist()
    a, b = (go_on(Optimizer(SQUARE, method=m, seed=3), 7, 0.4) for m in ("eb-gp", "gp"))
    assert a.trials == b.trials


def go_on(optimizer: Optimizer, n: int, centre) -> Optimizer:
    for _ in range(n):
        [configuration] = optimizer.ask()
        x = np.array([configuration["x"], configuration["y"]])
        optimizer.tell(configuration, float(np.square(x - centre).sum()))
    return optimizer


def test_studies_that_do_not_predict_each_other_are_not_used():
    rng = np.random.default_rng(3)
    shuffled = [Task.of(t.X, rng.permutation(t.y)) for t in bowls(12)]
    with pytest.warns(UserWarning, match="12 past studies do not predict each other"):
        surrogate = EmpiricalBayes().meta_fit(shuffled)
    assert not surrogate.meta_learned and surrogate.exam < 1
    with pytest.warns(UserWarning, match="not used"):
        strategy = methods.make("eb-gp", Encoder(SQUARE), shuffled)
    assert type(strategy.make_surrogate(0)) is GaussianProcess and not strategy.informed


def test_what_does_not_fit_is_refused():
    with pytest.raises(OptionError, match=r"one width, not \[2, 3\]"):
        EmpiricalBayes().meta_fit([bowl(0.3), Task.of(np.ones((3, 3)), [1, 2, 3])])
    with pytest.raises(OptionError, match="2 columns and the target study has 3"):
        EmpiricalBayes().meta_fit(bowls(3)).fit(Task.of(np.ones((3, 3)), [1, 2, 3]))
    for wrong in ({"caution": 1.5}, {"caution": -0.1}, {"portfolio": -1.0}, {"leading": 0}):
        with pytest.raises(OptionError, match=next(iter(wrong))):
            EmpiricalBayes(**wrong)
    with pytest.raises(rankwise.errors.UnknownNameError, match="kind"):
        EmpiricalBayes(kind="tree")


# ---------------------------------------------------------------------- strange numbers

FEW = [(1, 2), (1, 3), (2, 2), (2, 3), (3, 3), (3, 30), (1, 30)]


@pytest.mark.parametrize(("sources", "trials"), FEW)
@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_a_short_past(sources, trials, n):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* do not predict each other")
        surrogate = EmpiricalBayes().meta_fit(bowls(sources, trials)).compact()
    assert surrogate.meta_learned == (trials > 2) or sources == 3  # two trials teach nothing
    check_finite(surrogate.fit(bowl(0.4, n, seed=27) if n else NOTHING))


def check_finite(surrogate: EmpiricalBayes) -> None:
    for one in (surrogate, surrogate.believing(points(2, seed=71))):
        posterior = one.predict(points(), joint=True)
        for numbers in (posterior.mean, posterior.std, posterior.covariance):
            assert np.isfinite(numbers).all()
        assert (posterior.std >= 0).all() and (posterior.std > 0).any()
        if one.meta_learned:
            assert np.isfinite(one.improvement(points())).all()
            value, gradient = one.slope(points()[0])
            assert np.isfinite(value) and np.isfinite(gradient).all()
            assert 0 <= one.influence <= 1 and one.weights.sum() == pytest.approx(1)


STRANGE = {
    "constant": [3.0] * 6,
    "tied": [0, 1, 1, 0, 0, 1],
    "failed": [math.nan] * 6,
    "some failed": [1, math.nan, 2, math.nan, 0.5, 1],
    "tiny": [1e-300, 2e-300, 3e-300, 1e-300, 2e-300, 5e-300],
    "large": [1e150, -1e150, 0, 1, 2, 3],
    "far": [1e9, 1e9 + 1, 1e9 + 2, 1e9, 1e9 + 1, 1e9 + 5],
    "outlier": [0.1, 0.2, 0.3, 1e12, 0.15, 0.12],
}


@pytest.mark.parametrize("losses", STRANGE.values(), ids=STRANGE)
def test_strange_losses_of_the_study(learnt, losses):
    check_finite(fitted(learnt, Task.of(points(6, seed=28), losses), caution=0.2, leading=12))


def test_huge_losses_of_the_study(learnt):
    surrogate = fitted(learnt, Task.of(points(6, seed=28), [1e300, -1e300, 0, 1, 2, 3]))
    posterior = surrogate.predict(points())
    assert np.isfinite(posterior.mean).all() and np.isfinite(posterior.std).all()
    assert np.isfinite(surrogate.improvement(points())).all()


ORDERED = [name for name in STRANGE if name not in ("constant", "failed")]


@pytest.mark.parametrize("name", ORDERED)
def test_strange_losses_of_the_past(name):
    strange = Task.of(points(6, seed=29), STRANGE[name])
    surrogate = EmpiricalBayes().meta_fit([strange, bowl(0.3)])
    assert len(surrogate.past) == 2
    check_finite(surrogate.fit(bowl(0.4, 4)))


def test_a_point_evaluated_again_and_again(learnt):
    X = np.repeat(points(2), 10, axis=0)
    check_finite(fitted(learnt, Task.of(X, np.random.default_rng(0).normal(size=20))))


# ---------------------------------------------------------------------- expected improvement


def test_improvement_is_that_of_draws_from_the_mixture(learnt):
    """A model is drawn, then the loss; what is improved on is the best that the model expects."""
    task, Z, rng = bowl(0.45, 8, seed=30), points(5), np.random.default_rng(0)
    surrogate = fitted(learnt, task, portfolio=0.0, caution=0.2)
    y, _ = standardized(task)
    gains = np.zeros(len(Z))
    plain = learnt.models.plain * surrogate.weights
    share = 0.8 * surrogate.weights + 0.2 * plain / plain.sum()
    for h, part in enumerate(share):
        dense = Dense(learnt, learnt.models, h)
        v, _ = dense.scale(task.X, y)
        best = dense.posterior(task.X, y, v, task.X)[0].min()
        mean, covariance = dense.posterior(task.X, y, v, Z)
        draws = rng.normal(size=(100_000, len(Z))) * np.sqrt(np.diag(covariance)) + mean
        gains += part * np.maximum(best - draws, 0).mean(axis=0)
    assert np.exp(surrogate.improvement(Z)) == pytest.approx(gains, rel=0.1)


def test_what_promises_nothing_has_a_logarithm_nevertheless(learnt):
    """Far from the data and certain to be bad: the improvement itself is zero to a float."""
    X = np.random.default_rng(0).random((60, 2))
    surrogate = fitted(learnt, Task.of(X, np.square(X - 0.3).sum(axis=1)), portfolio=0.0)
    worst = X[np.argsort(np.square(X - 0.3).sum(axis=1))[-3:]]
    utility = surrogate.improvement(worst)
    assert np.isfinite(utility).all() and utility.max() < -30
    assert len(set(utility)) == 3
    assert np.isfinite(surrogate.slope(worst[0])[0])


@pytest.mark.parametrize("portfolio", [0.0, 4.0])
@pytest.mark.parametrize("n", [0, 1, 15])
@pytest.mark.parametrize("believed", [0, 2])
def test_the_slope_is_the_gradient_of_the_improvement(learnt, n, portfolio, believed):
    task = bowl(0.6, n, seed=31) if n else NOTHING
    settings = {"portfolio": portfolio, "caution": 0.2, "leading": 12}
    surrogate = fitted(learnt.compact(), task, **settings).believing(points(believed, 32))
    for x in points(5):
        value, gradient = surrogate.slope(x)
        assert value == pytest.approx(surrogate.improvement(x[None])[0], abs=1e-9)
        numeric = approx_fprime(x, lambda x: surrogate.improvement(x[None])[0], 1e-6)
        assert gradient == pytest.approx(numeric, rel=1e-3, abs=1e-3)


def test_the_portfolio_adds_what_the_better_judges_promise(learnt):
    task, Z = bowl(0.6, 6, seed=33), 0.25 + 0.1 * points()
    without, with_it = (fitted(learnt, task, portfolio=p) for p in (0.0, 4.0))
    votes = np.array([source(Z) for source in learnt.past.sources])
    seen = np.array([source(task.X) for source in learnt.past.sources])
    pairs = [(i, j) for i in range(6) for j in range(i)]
    agree = [sum((s[i] - s[j]) * (task.y[i] - task.y[j]) > 0 for i, j in pairs) for s in seen]
    skill = np.maximum((np.array(agree) + 1) / (len(pairs) + 2) - 0.5, 0)
    unit = (with_it.given.share / with_it.given.fit.v).sum()
    promise = np.maximum(seen.min(axis=1)[:, None] - votes, 0).T @ skill / skill.sum()
    gained = np.exp(with_it.improvement(Z)) - np.exp(without.improvement(Z))
    assert gained == pytest.approx(4.0 * unit / 6 * promise, abs=1e-9)
    assert gained.max() > 1e-3


def test_pairs_that_are_ordered_alike():
    votes = np.array([[1.0, 3.0, 0.0], [2.0, 2.0, 0.0], [3.0, 1.0, 0.0]])
    agree, pairs = pair_agreement(votes, np.array([1.0, 2.0, 3.0]))
    assert agree.tolist() == [3, 0, 0] and pairs == 3
    agree, pairs = pair_agreement(votes, np.array([5.0, 5.0, 6.0]))  # a tie does not count
    assert agree.tolist() == [2, 0, 0] and pairs == 2
    assert pair_agreement(votes[:1], np.ones(1))[1] == 0


@pytest.mark.parametrize("kind", ["gp", "net"])
def test_the_past_studies_that_rank_the_observations_best_count_most(kind):
    past = [bowl(0.3, 30, seed=k, name=f"left-{k}") for k in range(4)]
    past += [bowl(0.8, 30, seed=k, name=f"right-{k}") for k in range(4, 8)]
    surrogate = EmpiricalBayes(kind=kind).meta_fit(past)
    surrogate.fit(bowl(0.8, 8, seed=40))
    shares = surrogate.sources
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    assert sum(shares.values()) == pytest.approx(surrogate.influence)
    assert all(name.startswith("right") for name in list(shares)[:4])
    before = surrogate.fit(Task.of(np.empty((0, 2)), [])).sources
    assert before == pytest.approx(dict.fromkeys((t.name for t in past), surrogate.influence / 8))
    assert EmpiricalBayes().fit(past[0]).sources is None


# ---------------------------------------------------------------------- pending points


@pytest.mark.parametrize("n", [2, 9])
def test_believing_is_observing_what_is_expected(learnt, n):
    task, extra, Z = bowl(0.45, n, seed=34), points(3, seed=35), points()
    before = fitted(learnt, task)
    after = before.believing(extra)
    mean, covariance = mixed(task, *dense_parts(learnt, task, Z, extra))
    posterior, known = after.predict(Z, joint=True), before.predict(Z)
    assert after.weights is before.weights
    assert posterior.mean == pytest.approx(known.mean, abs=1e-8)
    assert posterior.mean == pytest.approx(mean, rel=1e-5)
    assert posterior.covariance == pytest.approx(covariance, abs=1e-5 * covariance.max())
    assert (posterior.std < known.std).all()
    step = before.believing(extra[:1]).believing(extra[1:])
    assert step.predict(Z).std == pytest.approx(posterior.std, abs=1e-9)


def test_believing_nothing_changes_nothing(learnt):
    before = fitted(learnt, bowl(0.45, 5))
    after = before.believing(np.empty((0, 2)))
    assert after.predict(points()).std.tolist() == before.predict(points()).std.tolist()


def test_believing_before_the_first_observation(learnt):
    surrogate, extra = fitted(learnt.compact(), NOTHING), points(2, seed=36)
    after = surrogate.believing(extra)
    assert after.predict(points()).mean == pytest.approx(surrogate.predict(points()).mean)
    assert (after.predict(extra).std < 0.5 * surrogate.predict(extra).std).all()
    assert after.improvement(extra).max() < after.improvement(points()).max()


@pytest.mark.parametrize(("evaluated", "apart"), [(0, 0.01), (1, 0.01), (6, 0.001)])
def test_a_batch_has_different_points(optimizer, evaluated, apart):
    searching = go_on(optimizer.restarted(seed=1), evaluated, 0.35)
    X = searching.encoder.encode(searching.ask(4))
    gaps = [np.linalg.norm(X[i] - X[j]) for i in range(4) for j in range(i)]
    assert min(gaps) > apart


# ---------------------------------------------------------------------- searching


@pytest.fixture(scope="module")
def optimizer() -> Optimizer:
    """It has learnt ten studies with optima near (0.3, 0.3)."""
    return Optimizer(SQUARE, method="eb-gp", tasks=bowls(10), seed=0)


def losses_of(optimizer: Optimizer):
    return np.array([trial.value for trial in optimizer.trials])


def test_the_first_proposal_is_where_the_past_was_best(optimizer):
    for seed in range(3):
        [first] = optimizer.restarted(seed=seed).ask()
        assert abs(first["x"] - 0.3) < 0.1 and abs(first["y"] - 0.3) < 0.1


def test_a_related_past_saves_trials(optimizer):
    def needed(searching, centre):
        for count in range(1, 15):
            if losses_of(go_on(searching, 1, centre))[-1] < 2e-3:
                return count
        return 15

    ours, plain = [], []
    for seed in range(5):
        centre = 0.3 + 0.05 * np.random.default_rng(100 + seed).normal(size=2)
        ours.append(needed(optimizer.restarted(seed=seed), centre))
        plain.append(needed(Optimizer(SQUARE, method="gp", seed=seed), centre))
    assert np.median(ours) < np.median(plain)


@pytest.mark.parametrize("seed", range(3))
def test_a_search_leaves_a_past_that_is_wrong(optimizer, seed):
    """The optimum is where the past was bad."""
    wrong = go_on(optimizer.restarted(seed=seed), 15, 0.9)
    assert losses_of(wrong)[0] > 0.5 and losses_of(wrong).min() < 0.01
    surrogate = optimizer.strategy.learner.with_seed(0)
    assert surrogate.models.prior[surrogate.models.mean == 1].sum() > 0.9
    after = surrogate.fit(wrong.history).weights
    assert after[surrogate.given.models.mean == 1].sum() < 0.01


def reverse(task: Task) -> Task:
    return Task.of(task.X, -task.losses)


def test_opposite_models_count_only_if_they_are_clearly_more_probable(learnt):
    alike = bowl(0.32, 12, seed=37)
    related = learnt.with_seed(0).fit(alike)
    assert (related.given.models.mean >= 0).all()
    opposite = learnt.with_seed(0).fit(reverse(alike))
    down = opposite.given.models.mean < 0
    assert opposite.weights[down].sum() > 0.9 and opposite.weights.sum() == pytest.approx(1.0)
    assert opposite.given.lead.mean.min() == -1


@pytest.mark.parametrize("losses", [[1.0], [1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 1.0]])
def test_opposite_models_need_three_different_losses(learnt, losses):
    few = learnt.with_seed(0).fit(Task.of(points(len(losses)), losses))
    assert (few.given.models.mean >= 0).all() and len(few.weights) == len(few.given.models)


def test_trust_stays_with_a_past_that_is_right(optimizer):
    surrogate = optimizer.strategy.learner.with_seed(0).fit(bowl(0.32, 12, seed=37))
    assert surrogate.influence > 0.99
    assert surrogate.weights[surrogate.models.mean == 1].sum() > 0.99


def test_caution_keeps_models_without_the_past():
    past = EmpiricalBayes(caution=0.3).meta_fit(bowls(5))
    surrogate = past.fit(bowl(0.31, 10, seed=38))
    assert surrogate.weights[surrogate.models.plain].sum() < 0.01
    assert surrogate.given.share[surrogate.given.lead.plain].sum() > 0.25
    assert len(surrogate.given.lead) == past.leading == 8


@pytest.mark.parametrize("leading", [2, 3, 12, 1000])
@pytest.mark.parametrize("n", [0, 10])
def test_the_shares_of_the_leading_models_sum_to_one(learnt, leading, n):
    task = bowl(0.31, n, seed=39) if n else NOTHING
    surrogate = fitted(learnt.compact(), task, leading=leading)
    assert surrogate.given.share.sum() == pytest.approx(1) and (surrogate.given.share >= 0).all()
    assert (
        len(surrogate.given.share)
        == len(surrogate.given.lead)
        == min(leading, len(surrogate.models))
    )
    assert surrogate.given.share[~surrogate.given.lead.plain].sum() > 0.9


def test_models_of_a_tiny_share_are_left_out(learnt, monkeypatch):
    task, Z = bowl(0.31, 10, seed=39), points()
    whole = fitted(learnt, task, leading=12)
    monkeypatch.setattr(conditioned, "_MIN_SHARE", 0.01)
    part = fitted(learnt, task, leading=12)
    assert len(part.given.lead) < len(whole.given.lead)
    assert part.given.share.sum() == pytest.approx(1)
    assert part.predict(Z).mean == pytest.approx(whole.predict(Z).mean, rel=0.05, abs=0.01)


def test_at_least_two_models_lead():
    with pytest.raises(OptionError, match="leading must be 2 at least"):
        EmpiricalBayes(leading=1)


CONDITIONAL = make_space(
    {
        "kernel": ["rbf", "poly", "linear"],
        "C": (1e-3, 1e3, "log"),
        "gamma": (1e-4, 10.0, "log"),
        "degree": (2, 5),
    },
    when={"gamma": {"kernel": "rbf"}, "degree": {"kernel": "poly"}},
)


def tree_loss(c, shift: float = 0.0) -> float:
    """Best at "poly" of degree 4 and C = 10."""
    return (math.log10(c["C"]) - 1 - shift) ** 2 + abs(c.get("degree", 9) - 4)


def test_a_conditional_space():
    encoder, studies = Encoder(CONDITIONAL), {}
    for k in range(4):
        found = encoder.decode(encoder.sample(30, np.random.default_rng(k)))
        studies[f"study {k}"] = found, [tree_loss(c, 0.1 * k) for c in found]
    past = TaskSet.of(encoder, studies)
    result = rankwise.minimize(
        tree_loss, CONDITIONAL, method="eb-gp", tasks=past, trials=8, seed=0
    )
    first = result.trials[0].configuration
    assert first["kernel"] == "poly" and 0 < math.log10(first["C"]) < 2.5
    assert result.best_value < 0.1


def test_inside_optuna(caplog):
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = optuna.storages.InMemoryStorage()

    def objective(trial, shift=0.0):
        kind = trial.suggest_categorical("kind", ["a", "b"])
        x = trial.suggest_float("x", -10, 10)
        return (x - 4 - shift) ** 2 + (trial.suggest_int("y", 1, 9) if kind == "b" else 20)

    for k in range(4):
        sampler = optuna.samplers.RandomSampler(seed=k)
        study = optuna.create_study(storage=storage, study_name=f"past-{k}", sampler=sampler)
        study.optimize(lambda trial, k=k: objective(trial, 0.1 * k), n_trials=30)
    sampler = RankwiseSampler(storage, method="eb-gp", seed=0)
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=6)
    assert caplog.text == ""
    first = study.trials[0].params
    assert first["kind"] == "b" and abs(first["x"] - 4) < 2
    assert study.best_value < 3


# ---------------------------------------------------------------------- files


@pytest.fixture
def path(tmp_path, learnt):
    learnt.save(tmp_path / "model.safetensors", fingerprint="here")
    return tmp_path / "model.safetensors"


def test_a_saved_surrogate_comes_back(learnt, path):
    for fingerprint in ("", "here"):
        again = EmpiricalBayes.load(path, fingerprint=fingerprint)
        # Products of matrices are rounded differently where an array lies elsewhere in memory.
        np.testing.assert_allclose(outcome(again), outcome(learnt), rtol=1e-12)
    assert again.caution == 0 and again.leading == 1000
    assert sorted(s.name for s in again.past.sources) == [f"study {k}" for k in range(6)]
    other = EmpiricalBayes.load(path, caution=0.5, portfolio=0.0)
    assert (other.caution, other.portfolio, other.leading) == (0.5, 0.0, 1000)


def test_a_file_that_does_not_fit_is_refused(path, tmp_path):
    with pytest.raises(ModelFileError, match="another search space"):
        EmpiricalBayes.load(path, fingerprint="elsewhere")
    with pytest.raises(ModelFileError, match="there is no model file"):
        EmpiricalBayes.load(tmp_path / "missing")
    write_model(tmp_path / "other", "deep-ranking", {"a": np.ones(1)}, {})
    with pytest.raises(ModelFileError, match="holds a deep-ranking"):
        EmpiricalBayes.load(tmp_path / "other")
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    (tmp_path / "damaged").write_bytes(content)
    with pytest.raises(ModelFileError, match="damaged"):
        EmpiricalBayes.load(tmp_path / "damaged")
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(ModelFileError, match="not a model file"):
        EmpiricalBayes.load(path)


def test_a_model_from_a_file_proposes_what_the_tasks_would_have(optimizer, tmp_path):
    encoder = optimizer.encoder
    optimizer.strategy.learner.save(tmp_path / "model", fingerprint=encoder.fingerprint)
    read = Optimizer(SQUARE, method="eb-gp", model=tmp_path / "model", seed=2)
    assert go_on(read, 3, 0.4).trials == go_on(optimizer.restarted(seed=2), 3, 0.4).trials
    with pytest.raises(OptionError, match="not both"):
        Optimizer(SQUARE, method="eb-gp", model=tmp_path / "model", tasks=bowls(3))
    with pytest.raises(ModelFileError, match="another search space"):
        Optimizer({"x": (0.0, 1.0), "z": (0.0, 2.0)}, method="eb-gp", model=tmp_path / "model")


def test_a_past_is_learnt_once_and_then_extended(tmp_path, monkeypatch):
    encoder, tasks, names = Encoder(SQUARE), tuple(bowls(6)), count_fits(monkeypatch)

    def optimizer(count, **options):
        past = TaskSet(tasks[:count], (), encoder.fingerprint)
        return learnt_optimizer("eb-gp", encoder, past, tmp_path, **options)

    first = optimizer(4).ask(2)
    assert len(names) == 4 and len(list(tmp_path.glob("*.safetensors"))) == 1
    assert optimizer(4).ask(2) == first
    assert len(names) == 4
    more = optimizer(6).ask(2)
    assert sorted(names[4:]) == ["study 4", "study 5"]
    assert optimizer(6, caution=0.5).ask() and len(names) == 6  # another model, nothing to fit
    assert len(list(tmp_path.glob("*.safetensors"))) == 3
    afresh = Optimizer(
        encoder, method="eb-gp", tasks=TaskSet(tasks, (), encoder.fingerprint), seed=0
    )
    assert more == afresh.ask(2)
    monkeypatch.setattr(eb.EmpiricalBayes, "meta_fit", None)  # calling it would fail
    assert optimizer(6).ask(2) == more
