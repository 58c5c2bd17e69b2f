"""Only neural methods import PyTorch, and without it each of them says what to install.

The code runs in processes in which the packages of the extra `neural` cannot be imported.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from support import ROOT

from rankwise import methods

NEURAL = [name for name in methods.available() if methods.get(name).needs == "neural"]

START = """
import json, os, sys, warnings

BLOCKED = ("torch", "skorch", "botorch", "gpytorch", "matplotlib")

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
import numpy as np
import rankwise
from rankwise import methods

rng = np.random.default_rng(0)
X = rng.random((12, 2))
past = [rankwise.Task.of(X, ((X - t) ** 2).sum(axis=1)) for t in (0.3, 0.35, 0.4)]
space = {"a": (0.0, 1.0), "b": (0.0, 1.0)}

def command(*words):
    sys.argv = ["rankwise", *words]
    try:
        rankwise.cli.main()
    except SystemExit as end:
        return end.code
"""


def run(code: str, folder) -> str:
    """Standard output of code that runs without PyTorch."""
    out = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", START + code],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert out.returncode == 0, out.stderr[-3000:]
    return out.stdout


def test_every_other_method_and_kept_models_work(tmp_path):
    code = """
for name in methods.available():
    method = methods.get(name)
    if method.needs:
        continue
    o = rankwise.Optimizer(space, method=name, tasks=past if method.transfer else (), seed=0)
    for _ in range(6):
        (c,) = o.ask()
        o.tell(c, c["a"] + c["b"])

def best():
    return rankwise.minimize(
        lambda c: c["a"] + c["b"], space, trials=5, tasks=past, method="eb-gp", guard=True,
        models="models", seed=0,
    ).best_value

assert best() == best()
assert len(os.listdir("models")) > 1
"""
    run(code, tmp_path)


def test_the_doors_work(tmp_path):
    code = """
import optuna
from sklearn.datasets import load_iris
from sklearn.tree import DecisionTreeClassifier
import rankwise.cli

optuna.logging.set_verbosity(optuna.logging.ERROR)
url = "sqlite:///studies.db"

def objective(trial):
    return trial.suggest_float("a", 0, 1) ** 2 + trial.suggest_float("b", 0, 1)

optuna.create_study(study_name="old", storage=url).optimize(objective, n_trials=8)
sampler = rankwise.RankwiseSampler(archive=url, seed=0)
study = optuna.create_study(sampler=sampler)
study.optimize(objective, n_trials=3)

tree = DecisionTreeClassifier(random_state=0)
rankwise.RankwiseSearchCV(tree, n_trials=3, cv=2, random_state=0).fit(*load_iris(return_X_y=True))

with open("table.csv", "w") as file:
    file.write("x,y\\n" + "".join(f"{k % 17},{'no' if k % 2 else 'yes'}\\n" for k in range(60)))
code = command("tune", "table.csv", "--target", "y", "--estimator", "random-forest", "--trials",
               "3", "--archive", url, "--report", "report.html")
assert not code, code
assert os.path.getsize("report.html") > 10_000
assert command("tune", "table.csv", "--target", "y", "--method", "dre", "--archive", url) == 2
assert not command("methods", "--all")
assert not command("methods", "--json")
"""
    out = run(code, tmp_path)
    assert "needs neural" in out
    assert 'pip install "rankwise[neural]"' in out
    facts = {m["name"]: m for m in json.loads(out[out.rindex("\n[") :])}
    assert facts["eb-gp"]["installed"] and facts["eb-gp"]["options"]
    assert not facts["dre"]["installed"] and facts["dre"]["needs"] == "neural"


@pytest.fixture(scope="module")
def refusals(tmp_path_factory):
    """What each neural method and part answers, by door."""
    code = """
asked, said = [], {}

def sentence(call):
    try:
        call()
    except rankwise.errors.RankwiseError as error:
        return str(error)

for name in [name for name in methods.available() if methods.get(name).needs == "neural"]:
    said[name] = [
        sentence(lambda: rankwise.minimize(asked.append, space, method=name, trials=2)),
        sentence(lambda: rankwise.Optimizer(space, method=name)),
        sentence(lambda: methods.check_values(name, {})),
    ]
    if methods.get(name).transfer:
        said[name].append(sentence(lambda: rankwise.RankwiseSampler("a.db", method=name)))
then = lambda: rankwise.Optimizer(space, method="init", tasks=past, then="dngo")
net = rankwise.networks.ConvNetClassifier()
said["parts"] = [
    sentence(then),
    sentence(lambda: net.fit(np.zeros((8, 2)), np.arange(8) % 2)),
    sentence(lambda: rankwise.losses.make_loss().prepare(np.zeros(3))),
    sentence(lambda: rankwise.surrogates.DeepRankingEnsemble),
    sentence(lambda: rankwise.context.DataEmbedding),
    sentence(lambda: rankwise.surrogates.EmpiricalBayes(kind="net").meta_fit(past)),
]
assert not asked
print(json.dumps(said))
"""
    return json.loads(run(code, tmp_path_factory.mktemp("refusals")))


@pytest.mark.parametrize("name", [*NEURAL, "parts"])
def test_what_needs_it_says_how_to_install_it(refusals, name):
    for sentence in refusals[name]:
        assert sentence is not None and 'pip install "rankwise[neural]"' in sentence
        assert "\n" not in sentence


def test_auto_with_very_many_studies_uses_the_longest(tmp_path):
    code = """
from rankwise.methods import build_transfer

build_transfer._MANY = 2
past.append(rankwise.Task.of(X[:5], ((X[:5] - 0.4) ** 2).sum(axis=1), name="short"))
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    o = rankwise.Optimizer(space, method="auto", tasks=past, seed=0)
assert len([w for w in said if "rankwise[neural]" in str(w.message)]) == 1
print(o.strategy.learner.kind, len(o.strategy.learner.past))
"""
    assert run(code, tmp_path).split() == ["gp", "2"]


def test_a_network_of_past_studies_loads_without(tmp_path):
    """`auto` has learnt one network for all studies, where PyTorch was installed."""
    pytest.importorskip("torch")
    import numpy as np

    from rankwise import Encoder, Task
    from rankwise.surrogates import EmpiricalBayes

    X = np.random.default_rng(0).random((12, 2))
    past = [Task.of(X, ((X - t) ** 2).sum(axis=1)) for t in (0.3, 0.32, 0.35, 0.4, 0.42, 0.45)]
    learnt = EmpiricalBayes(kind="net", steps=200).meta_fit(past)
    fingerprint = Encoder({"a": (0.0, 1.0), "b": (0.0, 1.0)}).fingerprint
    learnt.save(tmp_path / "net.safetensors", fingerprint=fingerprint)
    code = """
o = rankwise.Optimizer(space, method="auto", model="net.safetensors", seed=0)
print(o.strategy.learner.kind, o.ask()[0]["a"])
"""
    kind, a = run(code, tmp_path).split()
    assert kind == "net" and 0 <= float(a) <= 1


def test_a_file_of_version_0_1_still_loads(tmp_path):
    """Before, files were written by PyTorch; the digest contains its names of types."""
    torch = pytest.importorskip("torch")
    import hashlib

    from safetensors.torch import save_file

    from rankwise.surrogates.model_files import read_model

    tensors = {"a": torch.ones(2, 3), "b": torch.arange(4)}
    digest = hashlib.sha256(json.dumps({"n": 1}).encode())
    for name, tensor in tensors.items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.numpy().tobytes())
    header = {"format": 1, "kind": "k", "digest": digest.hexdigest(), "record": {"n": 1}}
    save_file(tensors, tmp_path / "old", metadata={"rankwise": json.dumps(header)})
    arrays, record = read_model(tmp_path / "old", "k")
    assert arrays["a"].shape == (2, 3) and arrays["b"].tolist() == [0, 1, 2, 3]
    assert record == {"n": 1}


def test_the_extra_is_named_in_the_package(tmp_path):
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    core = text.partition("dependencies = [")[2].partition("]\n")[0]
    assert "torch" not in core and "skorch" not in core
