"""Tune a small convolutional network on handwritten digits, layer by layer.

    python examples/digits_network.py
    python examples/digits_network.py --seeds 5   # and the median of five seeds

A third of the digits is never seen while tuning. Two thirds of the seconds go into the search and
the rest into training the best network for as many epochs as there is time; the hand-designed
network of "Configuration of Deep Neural Networks Using Model-Based Optimization" trains all the
time. Needs `rankwise[neural]`.
"""

from __future__ import annotations

import argparse
import statistics
import time

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import rankwise
from rankwise.networks import (
    Conv,
    ConvNetClassifier,
    Dense,
    NetworkObjective,
    all_convolutional,
    convnet_space,
    network_of,
)

EPOCHS = 15
HAND_DESIGNED = (
    Conv(60, 3, pool="max", pool_kernel=3, pool_stride=1),
    Conv(40, 2, pool="max", pool_kernel=2, pool_stride=1),
    Dense(250),
)


def compare(seconds: float, seed: int) -> tuple[float, float]:
    """Accuracy on the untouched digits: tuned, and designed by hand."""
    X, y = load_digits(return_X_y=True)
    X, X_new, y, y_new = train_test_split(
        X.reshape(-1, 8, 8), y, test_size=1 / 3, stratify=y, random_state=seed
    )
    # The share of right answers among 240 rows cannot tell good networks apart; their losses can.
    settings = {"validation": 0.2, "metric": "neg_log_loss", "random_state": seed}
    search = {"epochs": EPOCHS, "patience": 4, **settings}
    space = convnet_space((8, 8), batch_sizes=(16, 32, 64, 128, 256))
    result = rankwise.minimize(
        NetworkObjective(X, y, **search),
        space,
        seconds=seconds * 2 / 3,
        seed=seed,
        grow=rankwise.Growing("layers", given=[all_convolutional(space, k) for k in (1, 2, 3)]),
    )
    best = result.best_configuration
    print(f"best of {len(result.trials)} networks: a log loss of {result.best_value - 1:.3f}")
    for layer in network_of(best)["layers"]:
        print("   ", layer)
    tuned = ConvNetClassifier.from_configuration(best, **settings)
    by_hand = ConvNetClassifier(
        HAND_DESIGNED, learning_rate=0.1, momentum=0.8, batch_norm=True, batch_size=128, **settings
    )
    scores = []
    for network, share in ((tuned, seconds / 3), (by_hand, seconds)):
        ends = time.perf_counter() + share
        network.set_params(
            epochs=10_000, on_epoch=lambda *_, ends=ends: time.perf_counter() > ends
        )
        scores.append(network.fit(X, y).score(X_new, y_new))
    return scores[0], scores[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=40.0, help="of each of the two")
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    found = []
    for seed in range(options.seeds):
        found.append(compare(options.seconds, seed))
        print(f"new digits, seed {seed}: tuned {found[-1][0]:.3f}, by hand {found[-1][1]:.3f}")
    if len(found) > 1:
        tuned, by_hand = (statistics.median(column) for column in zip(*found, strict=True))
        print(f"median of {len(found)} seeds: tuned {tuned:.3f}, by hand {by_hand:.3f}")


if __name__ == "__main__":
    main()
