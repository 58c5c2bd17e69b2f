"""distBO: one model of all tasks, told what their data are like."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch
from torch.distributions import MultivariateNormal

from rankwise import Context, Encoder, Optimizer, Task, methods, minimize
from rankwise.errors import OptionError, RunWarning
from rankwise.history.task import TaskSet
from rankwise.surrogates import DistributionalTransfer, NetworkRegression
from rankwise.surrogates.distbo.models import JointBLR, ProductGP, matern32

ENCODER = Encoder({"theta": (-8.0, 8.0)})
DIST = ["dist-gp", "dist-blr", "manual-gp", "manual-blr", "multi-gp"]
QUICK = {"steps": 60, "retrain": 5}


def loss(X, mean):
    return -np.exp(-0.5 * (16.0 * X[:, 0] - 8.0 - mean) ** 2)


def toy(rows=True, numbers=True, seed=0):
    """Two tasks like the target, whose mean is 0, and three unlike it."""
    rng = np.random.default_rng(seed)
    tasks = []
    for mean in (0.1, -0.2, 4.0, 4.5, 5.0):
        data = rng.normal(mean, 1.0, size=(200, 1))
        X = np.linspace(0.02, 0.98, 25)[:, None]
        context = Context.of(data, standardize=False) if numbers else {}
        if numbers and not rows:
            context = context.without_rows()
        tasks.append(Task.of(X, loss(X, data.mean()), name=f"task {mean}", context=context))
    target = Context.of(rng.normal(0.0, 1.0, size=(200, 1)), standardize=False)
    return TaskSet(tuple(tasks)), target


def small(T=3, N=12, d=2, q=2, seed=0):
    rng = np.random.default_rng(seed)
    X, psi = torch.as_tensor(rng.random((N, d))), torch.as_tensor(rng.normal(size=(T, q)))
    return X, torch.as_tensor(rng.normal(size=N)), torch.arange(N) % T, psi


# ---------------------------------------------------------------------- the models


def test_the_evidence_of_the_process_and_its_gradient():
    X, y, task, psi = small()
    model = ProductGP(2, psi, own_noise=True)
    psi.requires_grad_()
    ours = model.unlikeliness(X, y, task, psi)
    ours.backward()
    gradients = [p.grad.clone() for p in (*model.parameters(), psi)]
    for parameter in (*model.parameters(), psi):
        parameter.grad = None
    K = model.covariance(X, task, psi)
    theirs = -MultivariateNormal(model.mean.expand(len(y)), K).log_prob(y) / len(y)
    theirs.backward()
    assert float(ours.detach()) == pytest.approx(float(theirs.detach()), abs=1e-10)
    for ours, parameter in zip(gradients, (*model.parameters(), psi), strict=True):
        assert torch.allclose(ours, parameter.grad, atol=1e-8)


def test_the_covariance_is_a_product_of_two_kernels():
    X, _, task, psi = small()
    model = ProductGP(2, psi, own_noise=False)
    with torch.no_grad():
        K = model.covariance(X, task, psi)
        for i, j in ((0, 1), (2, 7), (3, 9)):
            kernel = matern32(X[i : i + 1], X[j : j + 1], model.log_scales)
            tasks = matern32(psi[task[i]][None], psi[task[j]][None], model.log_task_scales)
            assert float(K[i, j]) == pytest.approx(float(kernel * tasks), abs=1e-9)
    r = math.sqrt(3.0) * 0.7
    unit = matern32(torch.zeros(1, 1).double(), torch.full((1, 1), 0.7).double(), torch.zeros(1))
    assert float(unit) == pytest.approx((1 + r) * math.exp(-r))


def test_the_process_predicts_as_the_normal_distribution_says():
    X, y, task, psi = small()
    model = ProductGP(2, psi, own_noise=False)
    Z = torch.as_tensor(np.random.default_rng(1).random((4, 2)))
    with torch.no_grad():
        model.condition(X, y, task, psi)
        mean, variance, covariance = model.predict(Z, psi[1], joint=True)
        both = torch.cat([X, Z])
        where = torch.cat([task, torch.ones(4, dtype=torch.long)])
        K = model.covariance(both, where, psi)
        K = K - torch.diag(model._noise(where)) * (torch.arange(16) >= 12)
        n = len(y)
        solved = torch.linalg.solve(K[:n, :n], torch.column_stack([y - model.mean, K[:n, n:]]))
        expected = model.mean + K[n:, :n] @ solved[:, 0]
        spread = K[n:, n:] - K[n:, :n] @ solved[:, 1:]
    assert mean == pytest.approx(expected.numpy(), abs=1e-6)
    assert covariance == pytest.approx(spread.numpy(), abs=1e-6)
    assert variance == pytest.approx(np.diag(spread.numpy()), abs=1e-6)


def test_the_regression_is_a_process_with_the_kernel_of_its_features():
    X, y, task, psi = small()
    torch.manual_seed(0)
    model = JointBLR(2, psi, width=5)
    Z = torch.as_tensor(np.random.default_rng(1).random((4, 2)))
    with torch.no_grad():
        phi = model.features(X, psi[task])
        alpha, beta = model.log_alpha.exp(), model.log_beta.exp()
        K = phi @ phi.T / alpha + torch.eye(len(y)) / beta
        dense = MultivariateNormal(torch.zeros(len(y)).double(), K)
        assert float(model.unlikeliness(X, y, task, psi)) == pytest.approx(
            -float(dense.log_prob(y)) / len(y)
        )
        model.condition(X, y, task, psi)
        mean, variance, covariance = model.predict(Z, psi[2], joint=True)
        other = model.features(Z, psi[2].expand(4, -1))
        cross = other @ phi.T / alpha
        assert mean == pytest.approx((cross @ torch.linalg.solve(K, y)).numpy(), abs=1e-8)
        spread = other @ other.T / alpha - cross @ torch.linalg.solve(K, cross.T)
    assert covariance == pytest.approx(spread.numpy(), abs=1e-8)
    assert variance == pytest.approx(np.diag(spread.numpy()), abs=1e-8)


def test_a_regression_of_a_study_alone_fits_it():
    X = np.linspace(0, 1, 12)[:, None]
    y = np.sin(5 * X[:, 0]) + 40.0
    found = NetworkRegression(seed=1).fit(Task.of(X, y)).predict(X)
    assert np.abs(found.mean - y).max() < 0.2
    for n in (0, 1, 2):
        belief = NetworkRegression(steps=5).fit(Task.of(X[:n], y[:n])).predict(X)
        assert np.isfinite(belief.mean).all() and (belief.std >= 0).all()


# ---------------------------------------------------------------------- the past


@pytest.mark.parametrize("kind", ["gp", "blr"])
def test_data_that_are_alike_are_held_to_be_similar(kind):
    past, target = toy()
    learnt = DistributionalTransfer(kind=kind, steps=200).meta_fit(past.tasks)
    assert np.mean(learnt.losses[-10:]) < np.mean(learnt.losses[:10])
    learnt.fit(Task.of(np.empty((0, 1)), [], context=target))
    assert set(list(learnt.sources)[:2]) == {"task 0.1", "task -0.2"}
    assert all(0.0 <= value <= 1.0 for value in learnt.similarities.values())
    assert sum(learnt.sources.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("method", ["dist-gp", "dist-blr", "manual-gp"])
def test_the_first_proposal_needs_no_evaluation(method):
    past, target = toy()
    optimizer = Optimizer(ENCODER, method=method, tasks=past, context=target, seed=0, steps=200)
    [first] = optimizer.ask()
    assert abs(first["theta"]) < 1.0
    assert next(iter(optimizer.similar_tasks())) in ("task 0.1", "task -0.2")


@pytest.mark.parametrize("kind", ["gp", "blr"])
def test_learnt_and_hand_made_features_describe_a_task_together(kind, tmp_path):
    past, target = toy()
    surrogate = DistributionalTransfer(kind=kind, handmade=True, steps=60)
    surrogate.meta_fit(past.tasks, progress=False)
    kept, manual = surrogate._past, DistributionalTransfer(kind=kind, description="manual")
    names = kept.features
    assert "hand_rows" not in names[:0] and len(names)
    learnt = DistributionalTransfer(kind=kind, steps=60).meta_fit(past.tasks, progress=False)
    assert kept.fixed.shape[1] == learnt._past.fixed.shape[1] + len(names)
    manual.meta_fit(past.tasks, progress=False)
    np.testing.assert_allclose(kept.fixed[:, -len(names) :], manual._past.fixed)
    nothing = Task.of(np.empty((0, 1)), [], context=target)
    X = np.linspace(0, 1, 9)[:, None]
    expected = surrogate.fit(nothing).predict(X).mean
    surrogate.save(tmp_path / "model")
    found = DistributionalTransfer.load(tmp_path / "model")
    np.testing.assert_allclose(found.fit(nothing).predict(X).mean, expected)
    assert (learnt.fit(nothing).predict(X).mean != expected).any()


def test_hand_made_features_must_be_there():
    past, _ = toy()
    bare = [Task.of(t.X, t.losses, context=Context({}, rows=t.context.rows)) for t in past.tasks]
    with pytest.raises(OptionError, match="handmade"):
        DistributionalTransfer(handmade=True, steps=5).meta_fit(bare, progress=False)


def test_the_first_proposal_of_a_regression_is_one_of_the_pasts_best():
    past, target = toy()
    optimizer = Optimizer(ENCODER, method="dist-blr", tasks=past, context=target, seed=0, **QUICK)
    rows = ENCODER.encode(optimizer.ask(2))
    best = [t.X[np.argmin(t.losses)] for t in past.tasks]
    assert all(np.abs(np.array(best) - row).max(axis=1).min() < 1e-9 for row in rows)
    pool = np.linspace(0, 1, 50)[:, None]
    row = optimizer.strategy.choose(
        Task.of(np.empty((0, 1)), [], context=target), pool, np.random.default_rng(0)
    )
    assert np.abs(np.array(best) - pool[row]).min() < 0.02


@pytest.mark.parametrize("method", DIST)
def test_every_method_goes_on_from_its_evaluations(method):
    past, target = toy()
    optimizer = Optimizer(ENCODER, method=method, tasks=past, context=target, seed=0, **QUICK)
    for _ in range(4):
        [configuration] = optimizer.ask()
        optimizer.tell(configuration, float(loss(ENCODER.encode([configuration]), 0.0)[0]))
    [belief] = optimizer.explain([configuration])
    assert math.isfinite(belief.mean) and belief.std >= 0
    similar = optimizer.similar_tasks()
    assert sorted(similar) == sorted(t.name for t in past.tasks)


def test_evaluations_teach_what_an_index_does_not():
    past, _ = toy()
    X = past.tasks[0].X
    study = Task.of(X, past.tasks[0].losses)
    learnt = DistributionalTransfer(description="index", steps=150, retrain=150, rate=0.03)
    learnt.meta_fit(past.tasks).fit(study)
    assert set(list(learnt.sources)[:2]) == {"task 0.1", "task -0.2"}


def test_the_proposal_depends_on_seed_and_history_alone():
    past, target = toy()
    made = [
        Optimizer(ENCODER, method="dist-gp", tasks=past, context=target, seed=3, **QUICK)
        for _ in range(2)
    ]
    for _ in range(3):
        proposals = [optimizer.ask()[0] for optimizer in made]
        assert proposals[0] == proposals[1]
        for optimizer in made:
            optimizer.tell(proposals[0], 1.0)


def test_the_random_numbers_of_others_are_left_alone():
    past, target = toy()
    torch.manual_seed(5)
    state = torch.get_rng_state()
    optimizer = Optimizer(ENCODER, method="dist-gp", tasks=past, context=target, seed=3, **QUICK)
    optimizer.tell(optimizer.ask()[0], 1.0)
    optimizer.ask()
    NetworkRegression(steps=3).fit(past.tasks[0])
    assert torch.equal(torch.get_rng_state(), state)


def test_losses_of_other_units():
    past, target = toy()
    scaled = TaskSet(
        tuple(
            Task.of(t.X, 10.0**k * t.losses, name=t.name, context=t.context)
            for k, t in enumerate(past.tasks)
        )
    )
    optimizer = Optimizer(
        ENCODER, method="dist-gp", tasks=scaled, context=target, seed=0, steps=200, scale="task"
    )
    assert abs(optimizer.ask()[0]["theta"]) < 1.0


# ---------------------------------------------------------------------- what is missing


def test_without_rows_numbers_are_compared_and_without_numbers_evaluations():
    past, _ = toy(rows=False)
    with pytest.warns(RunWarning, match="compared by their meta-features"):
        learnt = DistributionalTransfer(**QUICK).meta_fit(past.tasks)
    assert learnt.described == "manual"
    past, _ = toy(numbers=False)
    with pytest.warns(RunWarning, match="trials alone"):
        optimizer = Optimizer(ENCODER, method="dist-gp", tasks=past, seed=0, **QUICK)
    optimizer.tell(optimizer.ask()[0], 0.0)
    optimizer.ask()


def test_a_study_of_unknown_data_is_an_average_task():
    past, _ = toy()
    optimizer = Optimizer(ENCODER, method="dist-gp", tasks=past, seed=0, **QUICK)
    with pytest.warns(RunWarning, match="context=Context.of"):
        optimizer.ask()
    other = Context.of(np.zeros((5, 4)))
    optimizer = Optimizer(ENCODER, method="dist-gp", tasks=past, context=other, seed=0, **QUICK)
    with pytest.warns(RunWarning, match="columns"):
        optimizer.ask()


def test_methods_without_a_past_know_no_similar_tasks():
    assert Optimizer(ENCODER, method="gp", seed=0).similar_tasks() is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Optimizer(ENCODER, method="random", seed=0).similar_tasks() is None


def test_wrong_options_are_refused():
    past, _ = toy()
    for bad in ({"steps": 0}, {"rate": -1.0}, {"scale": "no"}, {"embedding": "no"}):
        with pytest.raises((OptionError, ValueError)):
            methods.make("dist-gp", ENCODER, past, **bad)
    with pytest.raises(OptionError, match="meta_fit"):
        DistributionalTransfer().fit(Task.of(np.empty((0, 1)), []))
    learnt = DistributionalTransfer(**QUICK).meta_fit(past.tasks)
    with pytest.raises(OptionError, match="the target study has 2"):
        learnt.fit(Task.of(np.zeros((1, 2)), [1.0]))


# ---------------------------------------------------------------------- files and privacy


@pytest.mark.parametrize("method", DIST)
def test_a_model_file_gives_the_same_and_holds_no_row(method, tmp_path):
    past, target = toy()
    optimizer = Optimizer(ENCODER, method=method, tasks=past, context=target, seed=0, **QUICK)
    path = tmp_path / "model.safetensors"
    optimizer.strategy.learner.save(path, fingerprint=ENCODER.fingerprint)
    again = Optimizer(ENCODER, method=method, model=path, context=target, seed=0, **QUICK)
    if method.endswith("gp"):
        first, second = (o.ask()[0]["theta"] for o in (optimizer, again))
        assert first == pytest.approx(second, abs=0.05)
    assert next(iter(optimizer.similar_tasks())) == next(iter(again.similar_tasks()))
    written = path.read_bytes()
    for task in past.tasks:
        for value in task.context.rows.X[:50, 0]:
            assert np.float64(value).tobytes() not in written
            assert np.float32(value).tobytes() not in written


def test_minimize_records_the_numbers_of_a_context_and_never_its_rows(tmp_path, capsys):
    past, target = toy()
    url = f"sqlite:///{tmp_path / 'runs.db'}"

    def objective(configuration):
        return -math.exp(-0.5 * configuration["theta"] ** 2)

    settings = dict(
        method="dist-gp", tasks=past, context=target, storage=url, name="one", seed=0, **QUICK
    )
    minimize(objective, ENCODER, trials=2, progress=False, **settings)
    result = minimize(objective, ENCODER, trials=4, progress=True, **settings)
    assert len(result.trials) == 4 and result.best_value < -0.5
    from rankwise.storage.study_facts import read_context

    known = read_context(result.study)
    assert known["columns"] == 1.0 and known["hand_mean"] == target["hand_mean"]
    from rankwise.report import write_report

    figure = result.plot_past(tmp_path / "past.png")
    assert len(figure.axes[0].lines) == len(past.tasks) and (tmp_path / "past.png").exists()
    with pytest.raises(OptionError, match="not as"):
        result.plot_past(tmp_path / "past.txt")
    page = tmp_path / "report.html"
    write_report(result.study, page)
    shown = capsys.readouterr()
    texts = shown.out + shown.err + page.read_text() + repr(result) + repr(target)
    stored = (tmp_path / "runs.db").read_bytes()
    for value in target.rows.X[:50, 0]:
        assert repr(float(value)) not in texts and f"{value:.6f}" not in texts
        assert repr(float(value)).encode() not in stored
        assert np.float64(value).tobytes() not in stored


def test_an_archive_has_numbers_always_and_rows_only_if_they_were_kept(tmp_path):
    import optuna

    from rankwise.archive import attach_context, attach_rows, open_archive

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    past, target = toy()
    url = f"sqlite:///{tmp_path / 'past.db'}"
    for task in past.tasks:
        study = optuna.create_study(storage=url, study_name=f"a/{task.name}")
        attach_context(study, {**task.context, "text": "x"})
        range_ = optuna.distributions.FloatDistribution(-8.0, 8.0)
        for x, y in zip(task.X[::3, 0], task.losses[::3], strict=True):
            study.add_trial(
                optuna.trial.create_trial(
                    params={"theta": 16 * x - 8}, distributions={"theta": range_}, value=y
                )
            )
    tasks = open_archive(url).tasks
    assert not any(isinstance(t.context, Context) for t in tasks.tasks)
    assert all("hand_mean" in t.context and "text" not in t.context for t in tasks.tasks)
    for task in past.tasks:
        file = attach_rows(url, f"a/{task.name}", task.context)
        assert file.exists() and file.is_relative_to(tmp_path)
    archive = open_archive(url)
    kept = {t.name: t.context.rows.X for t in archive.tasks.tasks}
    assert kept["a/task 4.0"] == pytest.approx(past.tasks[2].context.rows.X, abs=1e-6)
    optimizer = Optimizer(
        archive.space.encoder,
        method="dist-gp",
        tasks=archive.tasks,
        context=target,
        seed=0,
        steps=200,
    )
    assert abs(optimizer.ask()[0]["theta"]) < 1.5
    with pytest.raises(OptionError, match="no rows"):
        attach_rows(url, "a", target.without_rows())
    with pytest.raises(OptionError, match="in memory"):
        attach_rows("sqlite:///:memory:", "a", target)


def test_the_sampler_compares_the_numbers_of_a_study(tmp_path):
    import optuna

    from rankwise import RankwiseSampler
    from rankwise.archive import attach_context

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    past, target = toy()
    storage = optuna.storages.InMemoryStorage()
    range_ = optuna.distributions.FloatDistribution(-8.0, 8.0)
    for task in past.tasks:
        study = optuna.create_study(storage=storage, study_name=task.name)
        attach_context(study, dict(task.context))
        for x, y in zip(task.X[::2, 0], task.losses[::2], strict=True):
            study.add_trial(
                optuna.trial.create_trial(
                    params={"theta": 16 * x - 8}, distributions={"theta": range_}, value=y
                )
            )
    sampler = RankwiseSampler(storage, method="manual-gp", seed=0, options={"steps": 200})
    study = optuna.create_study(sampler=sampler)
    attach_context(study, dict(target))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RunWarning)
        study.optimize(lambda trial: trial.suggest_float("theta", -8.0, 8.0) ** 2, n_trials=1)
    assert abs(study.best_params["theta"]) < 1.5


def test_context_files(tmp_path):
    from rankwise.errors import ModelFileError

    _, target = toy()
    target.save(tmp_path / "deep" / "context.npz")
    again = Context.load(tmp_path / "deep" / "context.npz")
    assert dict(again) == dict(target) and again.size == target.size
    assert pytest.approx(target.rows.X, abs=1e-6) == again.rows.X and again.rows.y is None
    target.without_rows().save(tmp_path / "bare.npz")
    assert Context.load(tmp_path / "bare.npz").rows is None
    (tmp_path / "text.npz").write_text("no context")
    np.savez(tmp_path / "other.npz", format=np.array(99))
    for name, message in (
        ("none", "no context file"),
        ("text", "damaged"),
        ("other", "format 99"),
    ):
        with pytest.raises(ModelFileError, match=message):
            Context.load(tmp_path / f"{name}.npz")


def test_a_ranking_ensemble_that_knows_the_data_begins_with_what_is_good_on_such_data():
    past, target = toy()
    optimizer = Optimizer(
        ENCODER,
        method="dre-data",
        tasks=past,
        context=target,
        seed=0,
        training={"steps": 300},
        epochs=20,
    )
    [first] = optimizer.ask()
    assert abs(first["theta"]) < 2.5  # random configurations are 4 away on average
    optimizer.tell(first, 0.0)
    optimizer.tell(optimizer.ask()[0], 1.0)
    optimizer.ask()
    other = Context.of(np.random.default_rng(1).normal(4.5, 1.0, (200, 1)), standardize=False)
    optimizer = Optimizer(
        ENCODER,
        method="dre-data",
        tasks=past,
        context=other,
        seed=0,
        training={"steps": 300},
        epochs=20,
    )
    assert optimizer.ask()[0]["theta"] > first["theta"] + 1.0


def test_a_search_learns_from_the_rows_of_earlier_ones_if_they_may_be_kept(tmp_path):
    from sklearn.datasets import make_classification
    from sklearn.linear_model import LogisticRegression

    from rankwise import RankwiseSearchCV

    url = f"sqlite:///{tmp_path / 'searches.db'}"
    space = {"C": (1e-3, 1e3, "log")}
    for seed in range(3):
        X, y = make_classification(80, 4, random_state=seed)
        search = RankwiseSearchCV(
            LogisticRegression(),
            space,
            n_trials=3,
            cv=2,
            archive=url,
            method="dist-gp" if seed == 2 else "random",
            context="rows",
            random_state=seed,
            progress=False,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error", RunWarning)
            search.fit(X, y)
    kept = list((tmp_path / "searches.db.rankwise" / "contexts").glob("*.npz"))
    assert len(kept) == 3
    assert all(Context.load(path).rows.X.shape == (80, 4) for path in kept)


@pytest.mark.parametrize("kind", ["gp", "blr"])
def test_a_failure_is_bad_news(kind):
    past, target = toy()
    learnt = DistributionalTransfer(kind=kind, steps=200).meta_fit(past.tasks)
    place = np.array([[0.5]])  # the best of similar tasks
    before = learnt.fit(Task.of(np.empty((0, 1)), [], context=target)).predict(place).mean[0]
    for X, y in (([[0.5]], [np.nan]), ([[0.2], [0.5]], [-0.1, np.nan])):
        after = learnt.fit(Task.of(np.array(X), y, context=target)).predict(place).mean[0]
        assert after > before + 0.1


def test_a_past_run_that_diverged_does_not_set_the_scale():
    past, target = toy()
    losses = past.tasks[3].losses.copy()
    losses[0] = 1e6
    bad = Task.of(past.tasks[3].X, losses, name="bad", context=past.tasks[3].context)
    tasks = TaskSet((*past.tasks[:3], bad, past.tasks[4]))
    optimizer = Optimizer(
        ENCODER, method="dist-gp", tasks=tasks, context=target, seed=0, steps=200
    )
    assert abs(optimizer.ask()[0]["theta"]) < 1.5


@pytest.mark.parametrize("kind", ["gp", "blr"])
def test_what_is_believed_of_pending_configurations_is_certain(kind):
    past, target = toy()
    learnt = DistributionalTransfer(kind=kind, **QUICK).meta_fit(past.tasks)
    learnt.fit(Task.of(np.empty((0, 1)), [], context=target))
    X = np.array([[0.3], [0.6]])
    before, after = learnt.predict(X), learnt.believing(X).predict(X)
    assert after.mean == pytest.approx(before.mean, abs=0.05)
    assert (after.std < before.std).all()
    assert learnt.believing(X).improvement(X) is None  # expected improvement applies


def test_many_past_tasks_are_thinned():
    rng = np.random.default_rng(0)
    tasks = [Task.of(rng.random((10, 1)), rng.random(10), name=str(k)) for k in range(80)]
    with pytest.warns(RunWarning):
        learnt = DistributionalTransfer(steps=2, rows=100).meta_fit(tasks)
    assert len(learnt.names) == 20 and len(learnt.parts()[0]["y"]) == 100


def test_names_of_past_tasks_are_told_apart():
    past, _ = toy()
    nameless = [Task.of(t.X, t.losses, context=t.context) for t in past.tasks]
    learnt = DistributionalTransfer(**QUICK).meta_fit(nameless)
    assert len(set(learnt.names)) == len(past.tasks)


def test_a_model_file_of_other_options_is_refused(tmp_path):
    from rankwise.errors import ModelFileError

    past, _ = toy()
    path = tmp_path / "model.safetensors"
    DistributionalTransfer(**QUICK).meta_fit(past.tasks).save(path)
    for method, options in (("dist-blr", {}), ("manual-gp", {}), ("dist-gp", {"scale": "task"})):
        with pytest.raises(ModelFileError, match="learnt with"):
            methods.make(method, ENCODER, model=path, **options)


def test_a_network_of_ones_own_for_rows(tmp_path):
    past, target = toy()

    def network():
        return torch.nn.Linear(1, 3)

    learnt = DistributionalTransfer(network=network, **QUICK).meta_fit(past.tasks)
    learnt.save(tmp_path / "model.safetensors")
    study = Task.of(np.empty((0, 1)), [], context=target)
    again = DistributionalTransfer.load(tmp_path / "model.safetensors", network=network)
    found = [m.fit(study).predict(study.X.reshape(0, 1) + 0.5).mean for m in (learnt, again)]
    assert len(found[0]) == len(found[1])
    assert learnt.similarities == pytest.approx(again.similarities, abs=1e-3)
    from rankwise.errors import ModelFileError

    with pytest.raises(ModelFileError, match="another network"):
        DistributionalTransfer.load(tmp_path / "model.safetensors")


def test_a_resumed_study_knows_its_data(tmp_path):
    past, target = toy()
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    settings = dict(method="manual-gp", tasks=past, storage=url, seed=0, progress=False, **QUICK)

    def objective(configuration):
        return configuration["theta"] ** 2

    def places(result):
        return [t.configuration["theta"] for t in result.trials]

    whole = minimize(objective, ENCODER, trials=3, name="whole", context=target, **settings)
    minimize(objective, ENCODER, trials=2, name="parts", context=target, **settings)
    resumed = minimize(objective, ENCODER, trials=3, name="parts", **settings)
    assert places(resumed) == pytest.approx(places(whole))
    with pytest.warns(RunWarning, match="data"):
        minimize(objective, ENCODER, trials=4, name="parts", context={"rows": 3.0}, **settings)


def test_a_broken_context_file_does_not_break_an_archive(tmp_path):
    import optuna

    from rankwise.archive import attach_rows, open_archive

    _, target = toy()
    url = f"sqlite:///{tmp_path / 'past.db'}"
    long = "学" * 90
    for name in ("short", long):
        study = optuna.create_study(storage=url, study_name=name)
        study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)
    file = attach_rows(url, "short", target)
    attach_rows(url, long, target)
    file.write_bytes(file.read_bytes()[:100])
    with pytest.warns(RunWarning, match="'short' are not used"):
        tasks = open_archive(url).tasks.tasks
    assert [isinstance(t.context, Context) for t in tasks] == [False, True]
