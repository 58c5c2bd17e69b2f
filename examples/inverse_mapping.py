"""Learning to sort: what a network makes of lists of 3, 30 or 100 numbers.

The case study "inverse mapping" of the master's thesis behind Deep Ranking Ensembles (section 4.2,
table 4.1). A network learns, with the unweighted ListMLE loss, to give small numbers high scores;
sorting by the scores is then sorting the numbers. It is trained on numbers from [1, 100] and
tested on these, on [-100, -1] and on [-50, 50]: the share of 1000 lists without any mistake.

The thesis leaves open how long the lists of the test are: here as long as in training and, in the
last column, of 3 numbers. An epoch is one batch of 100 fresh lists.
Run: python examples/inverse_mapping.py [--out FOLDER] [--full]
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from rankwise.surrogates.ranking.losses import ListMLE

RANGES = {"in range": (1, 100), "out of range": (-100, -1), "hybrid": (-50, 50)}
THESIS = {  # list size, epochs: the shares for the three ranges
    (3, 100): (0.77, 0.29, 0.11),
    (3, 1000): (0.99, 0.27, 0.40),
    (30, 100): (0.80, 0.79, 0.46),
    (100, 100): (0.99, 0.0, 0.39),
    (100, 1000): (1.0, 0.71, 0.48),
}
SIZES = (3, 30, 100)
BLUE, ORANGE, GREY = "#0072B2", "#E69F00", "#7f7f7f"  # safe for colour-blind eyes
loss = ListMLE("none", limit=2.0, slope=0.01)


def make_scorer():
    """Three layers of 32, as the thesis has them; the range control is part of the loss."""
    hidden = [m for n in (1, 32, 32) for m in (torch.nn.Linear(n, 32), torch.nn.ReLU())]
    return torch.nn.Sequential(*hidden, torch.nn.Linear(32, 1), torch.nn.Flatten(-2))


def draw(low, high, lists, size):
    """Lists of numbers (lists, size, 1)."""
    return low + (high - low) * torch.rand(lists, size, 1)


def train(size, seed):
    """The scorer after each number of epochs that the thesis has for lists of this size."""
    torch.manual_seed(seed)
    scorer = make_scorer()
    adam = torch.optim.Adam(scorer.parameters(), lr=1e-4)
    ends = [epochs for n, epochs in THESIS if n == size]
    for epoch in range(1, max(ends) + 1):
        numbers = draw(1, 100, 100, size).sort(dim=1).values
        scores = scorer(numbers)
        slope = loss.gradient(scores.detach(), loss.prepare(numbers[..., 0])) / len(numbers)
        adam.zero_grad()
        scores.backward(slope)  # as loss(scores, numbers).mean().backward(), in half the time
        adam.step()
        if epoch in ends:
            yield epoch, scorer


@torch.no_grad()
def accuracy(scorer, low, high, size):
    numbers = draw(low, high, 1000, size).sort(dim=1).values
    return float((scorer(numbers).diff(dim=1) < 0).all(dim=1).float().mean())


@torch.no_grad()
def curve(scorer):
    """Scores of the numbers from -100 to 100, from 0 for the worst to 1 for the best."""
    scores = loss.controlled(scorer(torch.linspace(-100, 100, 401)[None, :, None]))[0]
    return ((scores - scores.min()) / (scores.max() - scores.min())).numpy()


def draw_curves(curves):
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    for axes, size in zip(panels, SIZES, strict=True):
        axes.axvspan(1, 100, color=GREY, alpha=0.2, lw=0, label="seen in training")
        for epochs, colour in ((100, ORANGE), (1000, BLUE)):
            for k, values in enumerate(curves.get((size, epochs), [])):
                label = None if k else f"after {epochs} epochs"
                axes.plot(np.linspace(-100, 100, 401), values, color=colour, lw=1.5, label=label)
        axes.set(xlabel="number", title=f"lists of {size}")
    panels[0].set_ylabel("score, scaled")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    return figure


def main(out, full, sizes):
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    runs = 5 if full else 1
    wanted = [key for key in THESIS if key[0] in sizes]
    shares, curves = {key: [] for key in wanted}, {key: [] for key in wanted}
    for seed in range(runs):
        for size in sizes:
            for epochs, scorer in train(size, seed):
                row = [accuracy(scorer, *ends, n) for n in (size, 3) for ends in RANGES.values()]
                shares[size, epochs].append(row)
                curves[size, epochs].append(curve(scorer))
    print(f"| list size | epochs | {' | '.join(RANGES)} | the same, lists of 3 |")
    print("|---|---|---|---|---|---|")
    for size, epochs in wanted:
        ours = np.mean(shares[size, epochs], axis=0)
        pairs = zip(ours[:3], THESIS[size, epochs], strict=True)
        cells = [f"{o:.2f} ({t:.2f})" for o, t in pairs]
        short = ", ".join(f"{o:.2f}" for o in ours[3:])
        print(f"| {size} | {epochs} | {' | '.join(cells)} | {short} |")
    print(f"\nMean of {runs} run(s); in brackets the thesis, mean of 5. Every run out of range:")
    for (size, epochs), rows in shares.items():
        print(f"{size:4d} {epochs:5d}  {' '.join(f'{row[1]:.2f}' for row in rows)}")
    best = max(shares, key=lambda key: np.mean(shares[key], axis=0)[:3].sum())
    print(f"best over all three ranges: lists of {best[0]}, {best[1]} epochs")
    draw_curves(curves).savefig(out / "ranking-inverse.png", dpi=120)
    print(f"wrote {out}/ranking-inverse.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("runs/inverse_mapping"))
    parser.add_argument("--full", action="store_true", help="five runs instead of one")
    parser.add_argument("--sizes", type=int, nargs="+", choices=SIZES, default=SIZES)
    main(**vars(parser.parse_args()))
