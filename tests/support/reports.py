"""Studies to report on, and a reader of reports."""

from __future__ import annotations

import json
import math
from html.parser import HTMLParser

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial

from rankwise.archive import attach_context
from rankwise.report import write_report

SPACE = {
    "kernel": CategoricalDistribution(["rbf", "poly", "linear"]),
    "C": FloatDistribution(1e-3, 1e3, log=True),
    "gamma": FloatDistribution(1e-4, 1.0, log=True),
    "degree": IntDistribution(2, 5),
}
HOSTILE = [
    "<script>window.pwned=1;alert(1)</script>",
    '"><img src=x onerror="window.pwned=2">',
    "=cmd|' /C calc'!A0",
    '<a href="javascript:window.pwned=3">click</a>',
    "</script><script>window.pwned=4</script><!--",
    "%{x}<br>\u2028&lt;b&gt;<svg onload=window.pwned=5>",
]


def params(rng):
    chosen = {"kernel": str(rng.choice(["rbf", "poly", "linear"])), "C": 10 ** rng.uniform(-3, 3)}
    if chosen["kernel"] != "linear":
        chosen["gamma"] = 10 ** rng.uniform(-4, 0)
    if chosen["kernel"] == "poly":
        chosen["degree"] = int(rng.integers(2, 6))
    return chosen


def value_of(chosen):
    bad = {"rbf": 0.0, "poly": 0.1, "linear": 0.3}[chosen["kernel"]]
    return 0.95 - bad - 0.01 * abs(math.log10(chosen["C"]) - 1)


def add(study, chosen, value=None, *, state=None, space=SPACE, **more):
    study.add_trial(
        create_trial(
            params=chosen,
            distributions={name: space[name] for name in chosen},
            value=value,
            state=(TrialState.FAIL if value is None else TrialState.COMPLETE)
            if state is None
            else state,
            **more,
        )
    )


def made(trials=25, direction="maximize", name="digits", storage=None, attributes=True, seed=0):
    """A study as a search leaves it."""
    rng = np.random.default_rng(seed)
    study = optuna.create_study(direction=direction, study_name=name, storage=storage)
    for k in range(trials):
        chosen = params(rng)
        value = value_of(chosen)
        facts = {
            "rankwise:expected": {"mean": value + 0.01 * rng.normal(), "std": 0.01},
            "rankwise:trust": 0.6 + 0.3 * k / trials,
            "rankwise:sources": {"wine": 0.4, "iris": 0.1},
            "rankwise:seconds": float(rng.uniform(1, 2)),
            "rankwise:proposal_seconds": 0.05,
            "rankwise:scores": {"f1": 0.5},
        }
        add(study, chosen, value, user_attrs=facts if attributes else {})
    return study


def page_of(study, tmp_path, **options):
    return write_report(study, tmp_path / "report.html", **options).read_text(encoding="utf-8")


def odd_studies():
    """Studies that are unlike those of a search."""
    space = {
        "k": CategoricalDistribution([None, True, 1.5, "x"]),
        "c": CategoricalDistribution([1]),
    }
    plain = {"x": FloatDistribution(0.0, 1.0)}
    studies = {name: optuna.create_study() for name in ("none", "one", "failed", "states")}
    add(studies["one"], {"x": 0.5}, 1.0, space=plain)
    for _ in range(3):
        add(studies["failed"], {"x": 0.5}, space=plain)
    for k in range(12):
        add(studies["states"], {"x": k / 12}, float(k), space=plain)
    add(studies["states"], {"x": 0.1}, float("inf"), space=plain)
    reports = {"intermediate_values": {0: 3.0, 1: 2.0}}
    add(studies["states"], {"x": 0.2}, state=TrialState.PRUNED, space=plain, **reports)
    add(studies["states"], {"x": 0.2}, state=TrialState.PRUNED, space=plain)
    for state in (TrialState.RUNNING, TrialState.WAITING):
        add(studies["states"], {}, state=state, space=plain)
    studies["choices"] = optuna.create_study()
    for k in range(15):
        add(studies["choices"], {"k": [None, True, 1.5, "x"][k % 4], "c": 1}, k % 4, space=space)
    studies["equal"], studies["bare"] = optuna.create_study(), optuna.create_study()
    for _ in range(12):
        add(studies["equal"], {"x": 0.5}, 1.0, space=plain)
        add(studies["bare"], {}, 1.0)
    wild = {
        f"rankwise:{k}": ["?"]
        for k in ("expected", "trust", "sources", "folds", "scores", "error")
    }
    studies["wild"] = optuna.create_study()
    add(studies["wild"], {"x": 0.5}, 1.0, space=plain, user_attrs=wild)
    for key in ("search", "seed", "method", "options", "context", "command line"):
        studies["wild"].set_user_attr(f"rankwise:{key}", [None, {"a": [1]}])
    return studies


def hostile_study():
    """A study all of whose texts would do harm as markup."""
    storage = optuna.storages.InMemoryStorage()
    study = optuna.create_study(study_name=HOSTILE[0], storage=storage)
    past = optuna.create_study(study_name=HOSTILE[1], storage=storage)
    attach_context(past, {HOSTILE[2]: HOSTILE[3]})
    space = {name: CategoricalDistribution(HOSTILE) for name in HOSTILE}
    for k in range(14):
        chosen = {name: HOSTILE[(k * (j + 1)) % 6] for j, name in enumerate(HOSTILE)}
        facts = {
            "rankwise:sources": {HOSTILE[1]: 0.5, HOSTILE[3]: 0.2},
            "rankwise:trust": 0.8,
            "rankwise:expected": {"mean": k % 6 + 0.1, "std": 1.0},
            "rankwise:error": HOSTILE[k % 6] * 3 + "\n" + HOSTILE[4],
        }
        add(study, chosen, None if k > 11 else k % 6, space=space, user_attrs=facts)
    for key in ("method", "seed", "command line", "options"):
        study.set_user_attr(f"rankwise:{key}", HOSTILE[4])
    study.set_user_attr("rankwise:search", {"estimator": HOSTILE[0], "scoring": HOSTILE[1]})
    return study


def full_report(folder):
    """A study with everything in it, and its report."""
    storage = optuna.storages.InMemoryStorage()
    wine = optuna.create_study(study_name="wine", storage=storage)
    attach_context(wine, {"rows": 178, "kind": "a"})
    study = made(storage=storage)
    attach_context(study, {"rows": 450})
    add(
        study,
        params(np.random.default_rng(5)),
        user_attrs={"rankwise:error": "ValueError: x<0\nat"},
    )
    study.set_user_attr("rankwise:seed", 7)
    study.set_user_attr("rankwise:method", "auto")
    study.set_user_attr("rankwise:command line", "rankwise tune 'my data.csv'")
    study.set_user_attr(
        "rankwise:search", {"estimator": "SVC()", "scoring": "accuracy", "n_splits": 3}
    )
    path = write_report(
        study, folder / "new" / "report.html", baseline=made(seed=1, attributes=False)
    )
    return study, path


class Reader(HTMLParser):
    """The tags, texts and figures of a page, checked for balance."""

    VOID = ("meta", "img", "br", "input", "link")

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts = [], [], [], []
        self.figures, self.scripts = [], []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        self.kind = dict(attrs).get("type")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.texts.append(data)
        elif self.open[-1] == "style":
            pass
        elif self.kind == "application/json":
            self.figures.append(json.loads(data))
        else:
            self.scripts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def check(page):
    """A page is well-formed, needs nothing from elsewhere, and plotly knows all of its figures."""
    import plotly.graph_objects as go

    reader = Reader(page)
    assert len(reader.scripts) == 2
    links = [v for _, name, v in reader.attributes if name in ("src", "href", "srcset", "action")]
    assert all(link.startswith("#") for link in links)
    assert not [name for _, name, _ in reader.attributes if name.startswith("on")]
    for figure in reader.figures:
        go.Figure(figure)  # refuses what it does not know
    return reader
