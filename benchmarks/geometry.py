"""How many random networks are impossible: the thesis's space, and the one that knows shapes.

    python benchmarks/geometry.py

Prints a table: of 10,000 random configurations (seed 0) the share that cannot be built, among
all of them and by the number of convolutions, and how often there are several convolutions.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from rankwise.errors import GeometryError
from rankwise.networks import Conv, convnet_space, layer_sizes, network_of
from rankwise.networks.layers import Layer
from rankwise.space.encoder import Encoder

SHAPES = ((28, 28, 1), (32, 32, 3), (8, 8, 1))


def is_impossible(layers: Sequence[Layer], shape: Sequence[int]) -> bool:
    try:
        layer_sizes(layers, shape)
    except GeometryError:
        return True
    return False


def row(shape: Sequence[int], buildable: bool, n: int) -> list[str]:
    encoder = Encoder(convnet_space(shape, buildable=buildable))
    sampled = encoder.decode(encoder.sample(n, np.random.default_rng(0)))
    networks = [network_of(configuration)["layers"] for configuration in sampled]
    impossible = np.array([is_impossible(layers, shape) for layers in networks])
    convolutions = np.array([sum(isinstance(x, Conv) for x in layers) for layers in networks])
    shares = [impossible.mean(), *(impossible[convolutions == k].mean() for k in (1, 2, 3))]
    size = " x ".join(map(str, shape))
    name = "shape-aware" if buildable else "thesis"
    return [size, name, *(f"{share:.1%}" for share in [*shares, (convolutions > 1).mean()])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--configurations", type=int, default=10_000)
    n = parser.parse_args().configurations
    titles = ["images", "space", "impossible", "1 convolution", "2", "3", "several convolutions"]
    print("| " + " | ".join(titles) + " |")
    print("|---" * len(titles) + "|")
    for shape in SHAPES:
        for buildable in (False, True):
            print("| " + " | ".join(row(shape, buildable, n)) + " |")


if __name__ == "__main__":
    main()
