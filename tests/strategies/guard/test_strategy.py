"""The guard against a misleading past."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import optuna
import pytest

from rankwise import Encoder, Optimizer, RankwiseSampler, methods, surrogates
from rankwise.acquisition.functions import LowerConfidenceBound
from rankwise.bench.base import TableProblem
from rankwise.bench.protocol import run
from rankwise.bench.synthetic_families import family, make_loss
from rankwise.errors import OptionError
from rankwise.history.task import Task, TaskSet
from rankwise.methods import build_transfer as builders
from rankwise.run.model_cache import learnt_optimizer
from rankwise.strategies.base import FALLBACK, Strategy
from rankwise.strategies.guard.strategy import GuardedStrategy, Judgement, Turn, leaning
from rankwise.strategies.guard.trend_surrogate import LeaningSurrogate
from rankwise.strategies.guard.trust import NOTHING_EXPECTED, Expectation, Witnesses, agreement
from rankwise.strategies.model_based import DOUBT
from rankwise.surrogates import RandomForest

ENCODER = Encoder({"x": (0.0, 1.0), "y": (0.0, 1.0)})
NOTHING = np.empty((0, 2))


@dataclass(frozen=True)
class Always(Strategy):
    """Proposes one place; its past says that small x is good, or nothing."""

    place: float
    knows: bool = True

    def propose(self, history, pending, rng):
        return np.full(2, self.place)

    def foresight(self, context):
        return (lambda X: X[:, 0]) if self.knows else None


def guarded(knows=True, expectation=Expectation(0.7, 0.1)):  # noqa: B008
    transfer, plain = Always(ENCODER, None, 0.25, knows), Always(ENCODER, None, 0.75)
    return GuardedStrategy(ENCODER, None, transfer, plain, expectation=expectation)


def history(n, sign=1.0):
    X = np.random.default_rng(n).random((n, 2))
    return Task.of(X, sign * X[:, 0])


def proposers(strategy, tasks):
    rng = np.random.default_rng(0)
    names = {0.25: "past", 0.75: "plain"}
    return [names.get(strategy.propose(task, NOTHING, rng)[0], "probe") for task in tasks]


def order_trust(foresight, losses):
    return NOTHING_EXPECTED.usefulness(agreement(foresight, losses))


def test_trust_grows_with_the_evidence():
    up = [order_trust(np.arange(float(n)), np.arange(float(n))) for n in (3, 6, 24)]
    down = [order_trust(-np.arange(float(n)), np.arange(float(n))) for n in (3, 6, 24)]
    assert up == sorted(up) and up[-1] > 0.99
    assert down == sorted(down, reverse=True) and down[-1] < 1e-3
    # Equal losses are no evidence, and the more of them the less is the past trusted.
    nothing = [order_trust(np.arange(float(n)), np.ones(n)) for n in (2, 5, 20)]
    assert nothing == sorted(nothing, reverse=True) and 0.0 < nothing[-1] < nothing[0] < 0.5
    assert 0.0 < order_trust(np.arange(1.0), np.ones(1)) <= 0.5


def judgement(foreseen, losses):
    return Judgement(lambda X: X[:, 0], np.array(foreseen), np.array(losses))


def test_a_model_leans_by_the_slope():
    rng = np.random.default_rng(0)
    foreseen = rng.random(12)
    losses = 5.0 + 2.0 * foreseen + 0.3 * rng.standard_normal(12)
    slope = np.polyfit(foreseen, losses, 1)[0]
    related, opposite = judgement(foreseen, losses), judgement(foreseen, -losses)
    assert related.lean == pytest.approx(slope)
    assert opposite.lean == pytest.approx(-related.lean)
    assert related.usefulness > 0.8 and opposite.usefulness < 1e-3
    assert judgement(foreseen, np.ones(12)).lean == 0.0
    assert judgement(np.ones(12), losses).lean == 0.0
    chance = np.array([judgement(rng.random(12), losses).lean for _ in range(400)])
    assert 0.01 < np.mean(chance != 0.0) < 0.08  # two standard deviations from chance, either way
    many = np.arange(100.0)
    weak = np.where(many % 4 == 0, many, rng.permutation(100))  # better than chance, and of no use
    assert agreement(weak, many).score > 2.0
    assert {judgement(weak, many).turn(k) for k in range(100, 140)} == {Turn.OWN}


def test_how_trials_are_shared():
    losses = np.arange(30.0)
    right, wrong = judgement(losses, losses), judgement(-losses, losses)
    turns = [right.turn(k) for k in range(10, 60)]
    assert 0.5 < turns.count(Turn.PAST) / 50 < 0.75 and turns.count(Turn.OWN) == 0
    assert {wrong.turn(k) for k in range(10, 60)} == {Turn.LEANING}
    unrelated = judgement(np.random.default_rng(1).permutation(losses), losses)
    assert {unrelated.turn(k) for k in range(10, 60)} == {Turn.OWN}


def test_ties_are_no_evidence():
    rng, losses = np.random.default_rng(0), np.array([0.0] * 19 + [1.0])
    trusts = [order_trust(rng.random(20), losses) for _ in range(400)]
    assert np.mean(np.array(trusts) > 0.9) < 0.03  # one failure among equals says next to nothing
    assert order_trust(np.zeros(6), np.arange(6.0)) == order_trust(np.arange(6.0), np.zeros(6))


def test_the_past_begins_with_a_probe_among_its_trials():
    first = proposers(guarded(), [history(n) for n in range(5)])
    assert first == ["past", "past", "probe", "past", "past"]
    pending = np.random.default_rng(0).random((2, 2))
    row = guarded().propose(history(0), pending, np.random.default_rng(0))
    assert row[0] not in (0.25, 0.75)  # the third of a batch is a probe, too


def test_who_proposes_depends_on_how_the_past_orders_the_evaluations():
    agreeing = proposers(guarded(), [history(n) for n in range(6, 60)])
    assert agreeing[:4] == ["past"] * 4
    assert 0.4 < agreeing[20:].count("past") / len(agreeing[20:]) < 0.65  # half of many
    assert set(proposers(guarded(), [history(n, -1.0) for n in range(8, 60)])) == {"plain"}
    assert set(proposers(guarded(False), [history(n) for n in range(5, 20)])) == {"plain"}
    assert guarded(False).trust(history(9)) is None
    assert guarded().trust(history(9)) > 0.9 > 0.1 > guarded().trust(history(9, -1.0))


def test_past_tasks_that_do_not_agree_are_not_followed_for_a_few_evaluations_in_order():
    doubtful = guarded(expectation=Expectation(0.1, 0.1))
    sure = guarded().judge(history(6)).usefulness
    assert sure > 0.95 > 0.5 > doubtful.judge(history(6)).usefulness
    assert doubtful.judge(history(34)).usefulness > 0.95
    shares = [
        proposers(strategy, [history(n) for n in range(5, 12)]).count("past")
        for strategy in (doubtful, guarded())
    ]
    assert shares[0] < shares[1] == 7


def test_a_kept_model_comes_with_what_to_expect(tmp_path):
    benchmark = family("sinusoids")
    encoder, past = benchmark.encoder, benchmark.past(benchmark.test[0])
    whole = Optimizer(encoder, method="rgpe", tasks=past, guard=True, progress=False)
    kept = [
        learnt_optimizer("rgpe", encoder, past, tmp_path, guard=True, progress=False)
        for _ in range(2)
    ]
    assert {o.strategy.expectation for o in kept} == {whole.strategy.expectation}
    assert whole.strategy.expectation.mean > 0.5
    [path] = tmp_path.glob("*.witnesses")
    Witnesses(None, Expectation(0.25, 0.5)).save(path)  # it is read, not found out again
    again = learnt_optimizer("rgpe", encoder, past, tmp_path, guard=True, progress=False)
    assert again.strategy.expectation == Expectation(0.25, 0.5)
    path.write_text("damaged")
    again = learnt_optimizer("rgpe", encoder, past, tmp_path, guard=True, progress=False)
    assert again.strategy.expectation == whole.strategy.expectation
    model = next(tmp_path.glob("*.safetensors"))
    alone = Optimizer(encoder, method="rgpe", model=model, guard=True)
    assert alone.strategy.expectation == NOTHING_EXPECTED


def test_a_folder_that_cannot_be_written_is_no_reason_to_give_up(tmp_path, monkeypatch):
    benchmark = family("sinusoids")
    encoder, past = benchmark.encoder, benchmark.past(benchmark.test[0])
    learnt_optimizer("rgpe", encoder, past, tmp_path, progress=False)

    def refuse(*args, **kwargs):
        raise PermissionError

    monkeypatch.setattr("pathlib.Path.write_bytes", refuse)
    optimizer = learnt_optimizer("rgpe", encoder, past, tmp_path, guard=True, progress=False)
    assert optimizer.strategy.expectation.mean > 0.5
    (tmp_path / "file").touch()  # what needs no folder is not stopped by one that cannot be
    nowhere = tmp_path / "file" / "folder"
    optimizer = learnt_optimizer("portfolio", encoder, past, nowhere, guard=True)
    assert optimizer.strategy.expectation.mean > 0.5


def test_a_guard_is_there_or_not():
    with pytest.raises(OptionError, match="guard is True or False, not 'yes'"):
        methods.make("rgpe", ENCODER, [history(9)] * 3, guard="yes")


def test_initial_points_are_judged_at_once():
    assert proposers(guarded(), [history(5, -1.0)]) == ["plain"]


@pytest.mark.parametrize("method", ["eb-gp", "rgpe"])
def test_a_past_turned_upside_down_costs_little(method, tmp_path):
    regrets = {}
    for knob in (1.0, -1.0):
        benchmark = family("quadratics", relatedness=knob)
        encoder, past = benchmark.encoder, benchmark.past(benchmark.test[0])
        codes = encoder.sample_codes(300, np.random.default_rng(0))
        problem = TableProblem.of(
            "new", encoder.encode_codes(codes), make_loss("quadratics", "new", knob).at(codes)
        )
        for guard in (False, True):
            optimizer = learnt_optimizer(method, encoder, past, tmp_path / str(knob), guard=guard)
            trace = run(problem, optimizer, seed=0, initial=0, trials=20)
            regrets[knob, guard] = np.array(trace.regrets)
        # What was learnt is the same, guarded or not: one file serves both.
        assert len(list((tmp_path / str(knob)).glob("*.safetensors"))) == 1
    assert regrets[1.0, True][1] == regrets[1.0, False][1] < 0.1
    assert regrets[-1.0, True].sum() < 0.8 * regrets[-1.0, False].sum()


def test_a_past_turned_upside_down_is_of_use():
    regrets, knob = {"gp": [], "rgpe": []}, -1.0
    benchmark = family("quadratics", relatedness=knob)
    encoder, past = benchmark.encoder, benchmark.past(benchmark.test[0])
    optimizers = {
        "gp": Optimizer(encoder, method="gp"),
        "rgpe": Optimizer(encoder, method="rgpe", tasks=past, guard=True, progress=False),
    }
    for k in range(4):
        codes = encoder.sample_codes(300, np.random.default_rng(k))
        losses = make_loss("quadratics", f"upside-{k}", knob).at(codes)
        problem = TableProblem.of(f"upside-{k}", encoder.encode_codes(codes), losses)
        for name, optimizer in optimizers.items():
            trace = run(problem, optimizer, seed=k, initial=5, trials=8)
            regrets[name].append(np.mean(trace.regrets[1:]))
    # Its order is followed backwards, so it is better than to have none.
    assert np.mean(regrets["rgpe"]) < 0.7 * np.mean(regrets["gp"])


def test_an_optimizer_with_a_guard_explains_and_saves(tmp_path):
    benchmark = family("sinusoids")
    past = benchmark.past(benchmark.test[0])
    optimizer = Optimizer(benchmark.encoder, method="eb-gp", tasks=past, seed=0, guard=True)
    loss = make_loss("sinusoids", "new", 1.0)
    for _ in range(7):
        [configuration] = optimizer.ask()
        optimizer.tell(configuration, loss(configuration))
    [belief] = optimizer.explain([{"x0": 0.3}])
    assert (
        belief.mean is not None and belief.evidence.trust == optimizer.trust
    )  # not that of eb-gp
    assert 0.0 <= optimizer.trust <= 1.0
    path = tmp_path / "model.safetensors"
    optimizer.strategy.learner.save(path, fingerprint=benchmark.encoder.fingerprint)
    again = methods.make("eb-gp", benchmark.encoder, model=path, guard=True)
    assert isinstance(again, GuardedStrategy) and again.transfer.informed


def test_a_sampler_leaves_a_past_that_is_wrong():
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = optuna.storages.InMemoryStorage()
    for k in range(4):
        sampler = optuna.samplers.RandomSampler(seed=k)
        past = optuna.create_study(storage=storage, study_name=f"past-{k}", sampler=sampler)
        past.optimize(lambda t, k=k: (t.suggest_float("x", -5, 5) - 2 - 0.1 * k) ** 2, n_trials=12)
    sampler = RankwiseSampler(
        storage, like="past-*", method="rgpe", options={"guard": True}, seed=0
    )
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda t: (t.suggest_float("x", -5, 5) + 3) ** 2, n_trials=12)
    x = [trial.params["x"] for trial in study.trials]
    assert abs(x[0] - 2) < 1.0 and abs(x[1] - 2) < 1.0  # what the past recommends
    assert study.best_value < 1e-3  # .06 without the guard


def test_what_the_method_without_the_past_takes_over():
    past = Task.of(np.random.default_rng(0).random((9, 2)), np.arange(9.0))
    make = partial(methods.make, encoder=ENCODER, tasks=[past] * 4, guard=True)
    plain = make("rgpe", acquisition="lcb", liar="mean", progress=False).plain
    assert isinstance(plain.acquisition, LowerConfidenceBound) and plain.liar == "mean"
    assert make("eb-gp", liar="believer", progress=False).plain.liar == "min"
    assert type(make("init", then="random").plain) is type(methods.make("random", ENCODER))


def test_pending_configurations_do_not_change_how_far_it_leans(monkeypatch):
    past = family("quadratics", relatedness=-1.0)
    encoder = past.encoder
    strategy = methods.make("rgpe", encoder, past.past(past.test[0]), guard=True)
    codes = encoder.sample_codes(12, np.random.default_rng(0))
    task = Task.of(encoder.encode_codes(codes), make_loss("quadratics", "new", -1.0).at(codes))
    judgement = strategy.judge(task)
    assert judgement.lean < 0 and judgement.usefulness < 0.01
    seen = []
    fit = LeaningSurrogate.fit
    monkeypatch.setattr(
        LeaningSurrogate, "fit", lambda self, task: seen.append(self.lean) or fit(self, task)
    )
    rng = np.random.default_rng(0)
    for pending in (np.empty((0, 3)), np.ones((4, 3))):
        strategy.propose(task, pending, rng)
    assert seen == [judgement.lean] * 2


def test_the_past_that_judges_does_not_depend_on_the_order_of_its_tasks():
    rng = np.random.default_rng(0)
    tasks = [Task.of(X := rng.random((12, 2)), X @ rng.random(2), name=str(k)) for k in range(24)]
    Z = rng.random((50, 2))
    one, other = (
        methods.make("portfolio", ENCODER, TaskSet(tuple(order)), guard=True).past.view(Z).mean
        for order in (tasks, tasks[::-1])
    )
    np.testing.assert_allclose(one, other)


def test_who_leans():
    def foresight(X):
        return X[:, 0]

    plain = methods.make("forest", ENCODER)
    leant = leaning(plain, foresight, 0.5)
    assert isinstance(leant.make_surrogate(0), LeaningSurrogate)
    # Seconds are no losses: the model of them does not lean.
    assert isinstance(leant.make_cost_surrogate(0), RandomForest)
    assert leaning(plain, foresight, 0.0) is plain
    for name, options in (("random", {}), ("dre-ri", {}), ("gp", {"transform": "copula"})):
        strategy = methods.make(name, ENCODER, **options)
        assert leaning(strategy, foresight, 0.5) is strategy


@pytest.mark.parametrize("method", ["portfolio", "init", "ws-cma-es", "rgpe"])
def test_a_past_without_an_order_is_not_guarded(method):
    flat = Task.of(np.empty((0, 2)), [])
    strategy = methods.make(method, ENCODER, [flat] * 4, guard=True)
    assert not isinstance(strategy, GuardedStrategy)


def test_a_past_that_cannot_say_what_it_expects_is_not_trusted():
    def broken(seed):
        raise ValueError("no")

    transfer = replace(
        methods.make("gp", ENCODER), make_surrogate=broken, informed=True, design=None
    )
    strategy = GuardedStrategy(ENCODER, None, transfer, Always(ENCODER, None, 0.75))
    with pytest.warns(RuntimeWarning, match=FALLBACK):
        assert proposers(strategy, [history(9)]) == ["plain"]


def test_a_past_that_is_not_followed_is_said():
    benchmark = family("quadratics", relatedness=-1.0)
    past = benchmark.past(benchmark.test[0])
    optimizer = Optimizer(benchmark.encoder, method="rgpe", tasks=past, guard=True, seed=0)
    problem = benchmark.problem(benchmark.test[0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(12):
            [configuration] = optimizer.ask()
            optimizer.tell(configuration, problem.evaluate(configuration))
            if len(optimizer.trials) < 10:
                assert not caught
    assert optimizer.trust < 0.2
    assert {str(w.message) for w in caught} == {DOUBT}


def test_a_ranker_leans_on_functions_of_past_tasks(tmp_path):
    """Its ranks say neither by how much configurations differ nor how the worst compare."""
    benchmark = family("hartmann")
    encoder, past = benchmark.encoder, benchmark.past("new-0")
    few = {"training": {"steps": 2}, "progress": False}
    kept = [
        learnt_optimizer("dre", encoder, past, tmp_path, guard=True, **few).strategy
        for _ in range(2)
    ]
    strategies = [*kept, Optimizer(encoder, method="dre", tasks=past, guard=True, **few).strategy]
    X = encoder.sample(50, np.random.default_rng(0))
    study = Task.of(X, make_loss("hartmann", "new-0", 1.0).at(X))
    functions = builders.witnesses(past).functions
    for strategy in strategies:  # learnt now or read from a file: it is the same
        judgement = strategy.judge(study)
        np.testing.assert_allclose(judgement.foreseen, functions.view(X).mean)
        np.testing.assert_allclose(judgement.foresight(X[:5]), judgement.foreseen[:5])
    [model] = tmp_path.glob("*.safetensors")
    alone = Optimizer(encoder, method="dre", model=model, guard=True).strategy
    places = alone.judge(study).foreseen  # without past tasks there is nothing but its ranks
    assert 1.0 <= places.min() < places.max() <= 301.0
    assert methods.make("rgpe", encoder, past, guard=True, progress=False).past is None
    assert surrogates.DescribedRankingEnsemble().foresees  # its ranks depend on the data


def test_an_order_that_is_hardly_trusted_has_no_trial():
    class Trusted(Judgement):
        usefulness = 0.0

    one = Trusted(lambda X: X[:, 0], np.arange(2.0), np.arange(2.0))
    for trust, turns in ((0.49, {Turn.OWN}), (0.51, {Turn.OWN, Turn.PAST})):
        Trusted.usefulness = trust
        assert {one.turn(k, leans=False) for k in range(5, 10)} == turns


@pytest.mark.parametrize(("sign", "least"), [(1.0, 0.5), (-1.0, 0.8)])
def test_a_model_leans_only_on_what_is_trusted_and_backwards_if_that_is_trusted_well(sign, least):
    rng, seen = np.random.default_rng(0), set()
    for _ in range(200):
        losses = np.arange(12.0)
        one = judgement(sign * losses + rng.normal(0.0, 6.0, 12), losses)
        if sign * one.lean > 0:
            sure = one.expectation.usefulness(one.agreement, opposite=sign < 0)
            followed = {one.turn(k) for k in range(5, 10)} != {Turn.OWN}
            assert followed == (sure >= least)
            seen.add(followed)
    assert seen == {True, False}
