"""Meta-learning: which lists are drawn, the gradient, when to stop, going on after a stop."""

from __future__ import annotations

import io
import math
import shutil
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console
from support import plain

from rankwise._core.progress_bar import training_bar
from rankwise._core.threads import one_thread
from rankwise.errors import ModelFileError, OptionError, RunWarning
from rankwise.history.task import Task
from rankwise.surrogates import DeepRankingEnsemble
from rankwise.surrogates.numeric.batched_networks import Architecture
from rankwise.surrogates.ranking import meta_training as meta
from rankwise.surrogates.ranking.fine_tuning import scaled_ranks
from rankwise.surrogates.ranking.losses import LOSSES, ListMLE, make_loss
from rankwise.surrogates.ranking.meta_training import MetaLearner, MetaTraining, _Pass
from rankwise.surrogates.ranking.training_lists import Corpus

LISTMLE = make_loss("listmle", limit=10.0)
SHAPE = Architecture(columns=2, members=3, layers=2, width=6, context=4)
BLIND = Architecture(columns=2, members=3, layers=2, width=6, context=0)


@pytest.fixture(scope="module", autouse=True)
def _small_matrices():
    with one_thread():
        yield


# ---------------------------------------------------------------------- lists

SIZES = (3, 5, 12, 40, 500)


def numbered(sizes=SIZES, seed: int = 0) -> list[Task]:
    """Tasks whose configurations say which task and evaluation they are."""
    rng = np.random.default_rng(seed)
    return [
        Task.of(np.stack([np.full(n, k), np.arange(n)], axis=1), rng.random(n), name=f"task {k}")
        for k, n in enumerate(sizes)
    ]


def corpus(tasks=None, *, loss=LISTMLE, list_size=20, support=10, seed=0) -> Corpus:
    tasks = numbered() if tasks is None else tasks
    return Corpus(tasks, loss, list_size=list_size, support=support, seed=seed)


def taken_apart(batch):
    """For every list: its rows (task, evaluation), those of its support, their shown ranks."""
    for b in range(len(batch.X)):
        shown = batch.pool[b, 0] > 0
        ranked = batch.X[b][batch.lists.mask[b] > 0].numpy().astype(int)
        items = batch.items[b][shown].numpy()
        yield ranked, items[:, :2].astype(int), items[:, 2]


def same(a, b) -> bool:
    pairs = [(a.X, b.X), (a.items, b.items), (a.pool, b.pool), (a.lists.mask, b.lists.mask)]
    return all(torch.equal(x, y) for x, y in pairs)


@pytest.mark.parametrize("draw", ["draw", "draw_evenly"])
def test_a_list_and_its_support_are_different_evaluations_of_one_task(draw):
    lists = corpus()
    evenly = draw == "draw_evenly"
    batches = [lists.draw_evenly(30)] if evenly else [lists.draw(60, k) for k in range(3)]
    for batch in batches:
        for ranked, shown, _ in taken_apart(batch):
            rows = np.concatenate([ranked, shown])
            assert len(np.unique(rows[:, 0])) == 1
            assert len(np.unique(rows[:, 1])) == len(rows)  # without replacement


def test_lists_are_sorted_and_as_long_as_the_task_allows():
    tasks, lengths = numbered(), set()
    for ranked, shown, _ in taken_apart(corpus(tasks).draw(400, 3)):
        task = tasks[ranked[0, 0]]
        losses = task.losses[ranked[:, 1]]
        assert (np.diff(losses) > 0).all()
        assert len(ranked) == min(20, len(task) - len(shown))
        assert len(shown) <= min(10, len(task) // 2)
        lengths.add((len(task), len(ranked)))
    assert {(3, 2), (3, 3), (5, 3), (12, 6), (12, 12), (40, 20), (500, 20)} <= lengths


def test_padding_comes_last_and_weighs_nothing():
    batch = corpus().draw(200, 0)
    mask = batch.lists.mask
    assert (mask[:, 1:] <= mask[:, :-1]).all()
    assert (batch.lists.target[mask == 0] == 0).all()
    totals = batch.pool.sum(-1).flatten().tolist()
    assert {round(total, 6) for total in totals} == {0.0, 1.0}


def test_the_deep_set_is_shown_ranks_within_the_support():
    tasks = numbered()
    for _, shown, ranks in taken_apart(corpus(tasks).draw(200, 1)):
        if len(shown):
            losses = tasks[shown[0, 0]].losses[shown[:, 1]]
            assert ranks == pytest.approx(scaled_ranks(losses), abs=1e-6)


def test_supports_have_all_sizes_and_more_often_small_ones():
    [large] = numbered([500])
    sizes = [len(shown) for _, shown, _ in taken_apart(corpus([large]).draw(2000, 0))]
    counts = np.bincount(sizes, minlength=11)
    assert len(counts) == 11 and (counts > 0).all()
    assert counts[0] > 2 * counts[5] > 0 and counts[:5].sum() > counts[6:].sum()


def test_every_evaluation_is_drawn_alike():
    counts = np.zeros(40)
    [task] = numbered([40])
    lists = corpus([task], list_size=10, support=5)
    for step in range(0, 4000, 20):  # one permutation serves twenty steps
        for ranked, _, _ in taken_apart(lists.draw(5, step)):
            np.add.at(counts, ranked[:, 1], 1)
    assert counts / counts.sum() == pytest.approx(1 / 40, rel=0.25)


def test_tasks_are_drawn_by_their_size_up_to_that_of_a_list():
    lists = corpus()
    drawn = np.concatenate([lists.draw(1000, k).X[:, 0, 0].numpy() for k in range(5)])
    expected = np.array([3, 5, 12, 20, 20]) / 60
    assert np.bincount(drawn.astype(int)) / 5000 == pytest.approx(expected, abs=0.02)


def test_validation_draws_every_task_as_often_and_always_the_same():
    lists = corpus()
    batch = lists.draw_evenly(7)
    assert np.bincount(batch.X[:, 0, 0].numpy().astype(int)).tolist() == [7] * 5
    lists.draw(5, 43)
    assert same(lists.draw_evenly(7), batch)
    assert same(corpus().draw_evenly(7), batch)


def test_tasks_without_an_order_are_left_out():
    good = numbered([5])[0]
    bad = [
        Task.of(np.empty((0, 2)), []),
        Task.of(np.ones((1, 2)), [1.0]),
        Task.of(np.ones((2, 2)), [1.0, 2.0]),
        Task.of(np.ones((4, 2)), [3.0] * 4),
        Task.of(np.ones((4, 2)), [math.nan] * 4),
    ]
    lists = corpus([*bad, good])
    assert lists.tasks == [good] and len(lists) == 1
    assert (lists.draw(9, 0).X[:, 0, 0] == 0).all()
    assert len(corpus(bad)) == len(corpus([])) == 0


def test_failures_are_ranked_last():
    task = numbered([6])[0]
    failed = Task.of(task.X, np.where(task.X[:, 1] == 2, np.nan, task.y))
    for ranked, _, _ in taken_apart(corpus([failed]).draw(50, 0)):
        assert 2 not in ranked[:-1, 1]


def test_ties_share_their_place_in_a_list():
    task = numbered([30])[0]
    tied = Task.of(task.X, np.round(task.y, 1))
    batch = corpus([tied]).draw(20, 0)
    for b, (ranked, _, _) in enumerate(taken_apart(batch)):
        losses = tied.losses[ranked[:, 1]]
        assert (np.diff(losses) >= 0).all()
        first = batch.lists.first[b, : len(losses)].numpy()
        assert first.tolist() == np.searchsorted(losses, losses).tolist()


def test_draws_depend_on_the_seed_and_the_step_alone():
    straight, jumping = corpus(), corpus()
    drawn = [straight.draw(8, k) for k in range(45)]
    for k in (41, 3, 44, 20, 0):
        assert same(jumping.draw(8, k), drawn[k])
    assert not any(same(drawn[0], other) for other in drawn[1:])
    assert not same(corpus(seed=1).draw(8, 0), drawn[0])


def test_scorers_have_lists_of_their_own():
    batch = corpus(numbered([500])).draw(3 * 4, 0)
    a, b, c = (set(map(tuple, rows.flatten(0, 1).tolist())) for rows in batch.X.split(4))
    assert a != b != c != a


def test_a_part_of_a_batch_is_a_batch():
    tied = [Task.of(t.X, np.round(t.y, 1), name=t.name) for t in numbered()]
    batch = corpus(tied).draw(10, 0)
    part = batch.part(slice(3, 7))
    scores = torch.randn(10, batch.X.shape[1], generator=torch.Generator().manual_seed(0))
    expected = LISTMLE.value(scores, batch.lists)[3:7]
    assert torch.equal(LISTMLE.value(scores[3:7], part.lists), expected)
    gradient = LISTMLE.gradient(scores, batch.lists)[3:7]
    assert torch.equal(LISTMLE.gradient(scores[3:7], part.lists), gradient)
    assert torch.equal(part.items, batch.items[3:7])


# ---------------------------------------------------------------------- the gradient


def parabolas(sizes, seed: int = 0) -> list[Task]:
    centres = np.random.default_rng(seed).random((len(sizes), 2))
    pairs = enumerate(zip(centres, sizes, strict=True))
    return [plain.parabola(c, n, 100 * seed + k) for k, (c, n) in pairs]


def loss_plainly(shape, weights, loss, tasks, batch, members) -> torch.Tensor:
    """The mean loss of lists, one after the other; members has the scorer of each list."""
    rows = [pair for t in tasks for pair in zip(t.X, t.losses, strict=True)]
    known = {x.astype(np.float32).tobytes(): y for x, y in rows}
    total = torch.zeros((), dtype=torch.float64)
    for b, member in members:
        ranked = batch.lists.mask[b] > 0
        X = batch.X[b][ranked]
        y = torch.tensor([known[x.tobytes()] for x in X.numpy()], dtype=torch.float64)
        z = plain.context(weights, batch.items[b][batch.pool[b, 0] > 0].double())
        scores = plain.scores(weights, member, X.double(), z)
        total = total + loss(scores, y) / loss.prepare(y).total
    return total / len(members)


@pytest.mark.parametrize("chunk", [800, 25])
@pytest.mark.parametrize("shape", [SHAPE, BLIND], ids=["deep-set", "no-deep-set"])
@pytest.mark.parametrize("name", LOSSES)
def test_the_gradient_is_that_of_autograd_list_by_list(name, shape, chunk, monkeypatch):
    monkeypatch.setattr(meta, "_CHUNK", chunk)
    loss, tasks = make_loss(name, limit=10.0), parabolas([4, 9, 30])
    batch = Corpus(tasks, loss, list_size=10, support=6, seed=0).draw(3 * 5, 0)
    flat = shape.initial(torch.Generator().manual_seed(2)) * 2.0
    gradient = torch.zeros_like(flat)
    value = _Pass(shape, loss, flat, gradient).learn(batch)

    weights = plain.leaves(shape, flat)
    members = [(b, b // 5) for b in range(15)]
    expected = loss_plainly(shape, weights, loss, tasks, batch, members)
    assert value == pytest.approx(expected.item(), rel=1e-5)
    wanted = torch.autograd.grad(expected, list(weights.values()), materialize_grads=True)
    wanted = torch.cat([g.reshape(-1) for g in wanted])
    assert wanted.abs().max() > 1e-3
    torch.testing.assert_close(gradient.double(), wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("chunk", [800, 25])
def test_in_validation_every_scorer_ranks_every_list(chunk, monkeypatch):
    monkeypatch.setattr(meta, "_CHUNK", chunk)
    tasks = parabolas([4, 9, 30])
    batch = Corpus(tasks, LISTMLE, list_size=10, support=6, seed=0).draw_evenly(3)
    flat = SHAPE.initial(torch.Generator().manual_seed(2))
    gradient = torch.zeros_like(flat)
    value = _Pass(SHAPE, LISTMLE, flat, gradient).measure(batch)
    members = [(b, m) for b in range(9) for m in range(3)]
    expected = loss_plainly(SHAPE, plain.leaves(SHAPE, flat), LISTMLE, tasks, batch, members)
    assert value == pytest.approx(expected.item(), rel=1e-5)
    assert (gradient == 0).all()


def test_gradients_of_two_batches_add_up():
    lists = Corpus(parabolas([9, 30]), LISTMLE, list_size=10, support=6, seed=0)
    flat = SHAPE.initial(torch.Generator().manual_seed(2))
    sums = []
    for steps in ([0], [1], [0, 1]):
        gradient = torch.zeros_like(flat)
        for step in steps:
            _Pass(SHAPE, LISTMLE, flat, gradient).learn(lists.draw(6, step))
        sums.append(gradient)
    torch.testing.assert_close(sums[2], sums[0] + sums[1], rtol=1e-4, atol=1e-6)


# ---------------------------------------------------------------------- training

TRAINING = MetaTraining(
    steps=30, lists=2, list_size=8, support=4, every=5, patience=9, validation_lists=2, rate=0.01
)
TASKS, CHECKS = parabolas([20, 9, 4]), parabolas([15, 6], seed=1)


def learner(training=TRAINING, tasks=TASKS, checks=CHECKS, **options) -> MetaLearner:
    defaults = {"architecture": SHAPE, "loss": LISTMLE, "seed": 0}
    return MetaLearner(tasks=tasks, validation=checks, training=training, **defaults | options)


def watched(one: MetaLearner, **options):
    """The weights that are returned, and those at every validation."""
    seen = {}

    def watch(step, training, validation):
        seen[step] = one._weights.clone()

    return one.run(watch=watch, **options), seen


def scripted(monkeypatch, values) -> None:
    """Validation losses as if they had been measured."""
    remaining = iter(values)
    monkeypatch.setattr(_Pass, "measure", lambda self, batch: next(remaining))


def test_training_ends_without_patience_and_keeps_the_best_weights(monkeypatch):
    scripted(monkeypatch, [5.0, 4.0, 4.5, 4.1, 4.0, 9.0])
    one = learner(replace(TRAINING, steps=100, patience=3))
    weights, seen = watched(one)
    assert list(seen) == [5, 10, 15, 20, 25]
    assert torch.equal(weights, seen[10]) and not torch.equal(weights, seen[25])
    assert one.record.stopped == "patience"
    assert (one.record.steps, one.record.best_step) == (25, 10)
    assert [row[2] for row in one.record.losses] == [5.0, 4.0, 4.5, 4.1, 4.0]


def test_training_goes_on_while_it_gets_better(monkeypatch):
    scripted(monkeypatch, [5.0, 6.0, 6.0, 4.0, 5.0, 3.0])
    one = learner(replace(TRAINING, patience=3))
    weights, seen = watched(one)
    assert one.record.stopped == "steps" and one.record.best_step == one.record.steps == 30
    assert torch.equal(weights, seen[30])


def test_a_validation_loss_that_is_no_number_is_never_the_best(monkeypatch):
    scripted(monkeypatch, [5.0, math.nan, math.nan, math.nan])
    one = learner(replace(TRAINING, patience=3))
    weights, seen = watched(one)
    assert one.record.best_step == 5 and one.record.stopped == "patience"
    assert torch.equal(weights, seen[5])


@pytest.mark.parametrize("checks", [[], [Task.of(np.ones((3, 2)), [1.0] * 3)]])
def test_without_validation_all_steps_are_made_and_the_last_weights_kept(checks):
    one = learner(replace(TRAINING, steps=33, patience=1), checks=checks)
    weights, seen = watched(one)
    assert one.record.steps == one.record.best_step == 33
    assert one.record.stopped == "steps" and one.record.validation == []
    assert list(seen)[-2:] == [30, 33] and torch.equal(weights, seen[33])
    assert all(math.isnan(row[2]) and math.isfinite(row[1]) for row in one.record.losses)


def test_the_record_tells_what_was_learnt_from():
    one = learner(tasks=[*TASKS, Task.of(np.ones((2, 2)), [1, 2], name="too small")])
    one.run()
    assert one.record.tasks == [t.name for t in TASKS]
    assert one.record.validation == [t.name for t in CHECKS]
    assert [row[0] for row in one.record.losses] == [5, 10, 15, 20, 25, 30]
    assert np.isfinite(one.record.losses).all()


def test_training_makes_the_loss_smaller():
    training = replace(TRAINING, steps=150, lists=4, every=50, patience=9)
    one = learner(training, parabolas([30] * 4), parabolas([30], seed=1))
    one.run()
    losses = np.array(one.record.losses)
    assert losses[-1, 1] < losses[0, 1]


def test_the_same_seed_learns_the_same():
    first, again, other = (learner(seed=s).run() for s in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_tasks_may_have_very_different_sizes():
    tasks = parabolas([3, 4, 7, 30, 150, 500])
    one = learner(replace(TRAINING, list_size=100, support=50), tasks, parabolas([3, 200], seed=1))
    weights = one.run()
    assert weights.isfinite().all()
    assert np.isfinite(one.record.losses).all()
    assert len(one.record.tasks) == 6


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 0},
        {"lists": 0},
        {"list_size": 0},
        {"every": 0},
        {"patience": 0},
        {"validation_lists": 0},
        {"support": -1},
        {"rate": 0.0},
    ],
    ids=str,
)
def test_a_training_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(OptionError, match=next(iter(wrong))):
        MetaTraining(**wrong)


# ---------------------------------------------------------------------- interruptions


def stop_at(step: int):
    """Ctrl-C at a validation."""

    def watch(now, training, validation):
        if now == step:
            raise KeyboardInterrupt

    return watch


def stop_within(monkeypatch, step: int) -> None:
    """Ctrl-C in the middle of a step, when a part of the gradient is there."""
    learn, calls = _Pass.learn, []

    def interrupted(self, batch):
        calls.append(0)
        value = learn(self, batch)
        if len(calls) == step:
            raise KeyboardInterrupt
        return value

    monkeypatch.setattr(_Pass, "learn", interrupted)


def comparable(record):
    """A record in which NaN equals NaN."""
    return replace(record, losses=[tuple(map(repr, row)) for row in record.losses])


@pytest.mark.parametrize("checks", [CHECKS, []], ids=["validation", "no-validation"])
@pytest.mark.parametrize("where", ["at-validation", "within-step"])
def test_going_on_from_a_checkpoint_is_as_if_nothing_had_happened(
    where, checks, tmp_path, monkeypatch
):
    path = tmp_path / "deep" / "checkpoint.safetensors"
    straight = learner(checks=checks)
    expected, seen = watched(straight)
    first = learner(checks=checks)
    with monkeypatch.context() as patch:
        if where == "within-step":
            stop_within(patch, 18)
        with pytest.warns(RunWarning, match="interrupted at step 1"):
            best = first.run(path, stop_at(15) if where == "at-validation" else None)
    assert first.record.stopped == "interrupted"
    assert torch.equal(best, seen[first.record.best_step])
    assert [p.name for p in path.parent.iterdir()] == [path.name]

    second = learner(checks=checks)
    weights = second.run(path)
    assert torch.equal(weights, expected)
    assert comparable(second.record) == comparable(straight.record)
    assert not list(path.parent.iterdir())


def test_a_training_can_be_interrupted_again_and_again(tmp_path):
    path, straight = tmp_path / "checkpoint", learner()
    expected = straight.run()
    for step in (10, 15, 15, 25):
        with pytest.warns(RunWarning, match=f"at step {step} of 30; the best weights"):
            learner().run(path, stop_at(step))
        assert path.exists()
    last = learner()
    assert torch.equal(last.run(path), expected)
    assert last.record == straight.record
    assert not path.exists()


def test_patience_counts_across_an_interruption(tmp_path, monkeypatch):
    path = tmp_path / "checkpoint"
    training = replace(TRAINING, steps=100, patience=3)
    scripted(monkeypatch, [5.0, 4.0, 6.0, 6.0])
    with pytest.warns(RunWarning):
        best = learner(training).run(path, stop_at(20))  # what is known at 15 is kept
    scripted(monkeypatch, [6.0, 6.0])
    one = learner(training)
    assert torch.equal(one.run(path), best)
    assert (one.record.steps, one.record.best_step, one.record.stopped) == (25, 10, "patience")


def test_an_interruption_before_the_first_validation_gives_the_weights_there_are(
    tmp_path, monkeypatch
):
    stop_within(monkeypatch, 3)
    with pytest.warns(RunWarning, match="at step 2 of 30"):
        weights = learner().run(tmp_path / "checkpoint")
    assert weights.isfinite().all()
    assert not list(tmp_path.iterdir())


def test_a_crash_loses_nothing_that_was_saved(tmp_path, monkeypatch):
    path, straight = tmp_path / "checkpoint", learner()
    expected = straight.run()

    def crash(step, training, validation):
        assert path.exists() == (step > 5)
        if step == 20:
            raise RuntimeError("power cut")

    monkeypatch.setattr(meta, "_SAVE_SECONDS", -1.0)
    with pytest.raises(RuntimeError, match="power cut"):
        learner().run(path, crash)
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint"]
    last, steps = learner(), []
    assert torch.equal(last.run(path, lambda step, *_: steps.append(step)), expected)
    assert steps == [20, 25, 30]
    assert last.record == straight.record
    assert not path.exists()


def test_a_finished_training_leaves_no_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(meta, "_SAVE_SECONDS", -1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner().run(tmp_path / "checkpoint")
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp("interrupted") / "checkpoint"
    with pytest.warns(RunWarning):
        learner().run(path, stop_at(15))
    return path


OTHER = Task.of(TASKS[0].X, TASKS[0].y + np.eye(20)[3])


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"training": replace(TRAINING, steps=40)}, id="steps"),
        pytest.param({"training": replace(TRAINING, rate=0.02)}, id="rate"),
        pytest.param({"seed": 1}, id="seed"),
        pytest.param({"loss": ListMLE("none", limit=10.0)}, id="loss"),
        pytest.param({"architecture": replace(SHAPE, width=7)}, id="architecture"),
        pytest.param({"tasks": [OTHER, *TASKS[1:]]}, id="one-loss"),
        pytest.param({"tasks": TASKS[:2]}, id="fewer-tasks"),
        pytest.param({"tasks": TASKS[::-1]}, id="order"),
        pytest.param({"checks": []}, id="no-validation"),
        pytest.param({"tasks": TASKS[:2], "checks": [TASKS[2], *CHECKS]}, id="other-split"),
    ],
)
def test_a_checkpoint_of_another_training_is_refused(other, checkpoint, tmp_path):
    path = shutil.copy(checkpoint, tmp_path / "checkpoint")
    with pytest.raises(ModelFileError, match="other tasks or settings; delete it"):
        learner(**other).run(path)
    assert path.read_bytes() == checkpoint.read_bytes()


def test_something_else_than_a_checkpoint_is_refused(tmp_path):
    path = tmp_path / "file"
    path.write_text("a shopping list")
    with pytest.raises(ModelFileError, match="not a model file, or it is damaged"):
        learner().run(path)
    ensemble = DeepRankingEnsemble(members=2, width=4, layers=1, training=TRAINING)
    ensemble.meta_fit(TASKS).save(path)
    with pytest.raises(ModelFileError, match="deep ranking ensemble, not a checkpoint"):
        learner().run(path)


def test_an_ensemble_goes_on_from_a_checkpoint(tmp_path, monkeypatch):
    path, options = tmp_path / "checkpoint", {"members": 3, "width": 6, "layers": 2}

    def ensemble():
        return DeepRankingEnsemble(**options, training=TRAINING)

    expected = ensemble().meta_fit(TASKS, CHECKS)
    with monkeypatch.context() as patch:
        stop_within(patch, 12)
        with pytest.warns(RunWarning, match="interrupted at step 11"):
            interrupted = ensemble().meta_fit(TASKS, CHECKS, checkpoint=path)
    assert interrupted.meta_learned and interrupted.record.stopped == "interrupted"
    assert path.exists()
    resumed = ensemble().meta_fit(TASKS, CHECKS, checkpoint=path)
    assert resumed.record == expected.record and not path.exists()
    X = TASKS[0].X
    scores = [e.fit(CHECKS[0]).scores(X) for e in (resumed, expected)]
    assert np.array_equal(*scores)


# ---------------------------------------------------------------------- the bar


def shown(*losses: float) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=140)
    with training_bar(True, 100, console) as show:
        show(40, *losses)
    return out.getvalue()


def test_the_bar_shows_how_far_and_how_good():
    text = shown(1.23456, 2.5)
    for part in ("learning from past studies", "40/100", "loss 1.2346", "validation", "2.5000"):
        assert part in text, part


def test_the_bar_does_without_validation():
    text = shown(1.0, math.nan)
    assert "loss 1.0000" in text and "validation" not in text and "nan" not in text


@pytest.mark.parametrize("progress", [False, None])
def test_no_bar_unless_wanted_or_on_a_terminal(progress, capsys):
    with training_bar(progress, 100) as show:
        assert show is None
    assert capsys.readouterr() == ("", "")


def test_an_ensemble_shows_its_progress_on_request(capsys):
    ensemble = DeepRankingEnsemble(members=2, width=4, layers=1, training=TRAINING)
    ensemble.meta_fit(TASKS, CHECKS, progress=True)
    out, err = capsys.readouterr()
    assert "learning from past studies" in err and "30/30" in err and not out
    ensemble.meta_fit(TASKS, CHECKS)
    assert capsys.readouterr() == ("", "")
