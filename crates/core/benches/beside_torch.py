#!/usr/bin/env python3
"""One arrival, predicted step by step in Rust and by reading everything again in PyTorch, in one run on one core.

    pip install torch && python3 crates/core/benches/beside_torch.py

Both networks have the same shape and random weights: what they cost does not depend on what they say. PyTorch gets what
there is to read already as tensors: making rows out of queries, which is part of the Rust side, costs it nothing.
"""
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch import nn

FEATURES, DESCRIPTOR, PAIR, HEAD, HIDDEN, SIDE, MIX, OUT = 64, 8, 12, 35, 32, 32, 64, 2
CLUSTERS, RUNNING = 8, 32
BENCHES = ["look/8 x 32", "step of 64/Avx512", "step of 64/Avx2"]


class Net(nn.Module):
    """The network of punctual_core::predict::net, reading whole sequences."""

    def __init__(self):
        super().__init__()
        self.describe = nn.Linear(FEATURES, DESCRIPTOR)
        self.before = nn.LSTM(2 * DESCRIPTOR + PAIR, HIDDEN, batch_first=True)
        self.after = nn.LSTM(2 * DESCRIPTOR + PAIR, HIDDEN, batch_first=True)
        self.side = nn.Linear(HEAD + DESCRIPTOR, SIDE)
        self.mix = nn.Linear(2 * HIDDEN + SIDE, MIX)
        self.out = nn.Linear(MIX, OUT)

    def forward(self, features, before, after, heads):
        described = torch.tanh(self.describe(features))
        states = []
        for lstm, (targets, neighbours, rows, lengths) in ((self.before, before), (self.after, after)):
            steps = torch.cat([described[targets], described[neighbours], rows], dim=2)
            packed = nn.utils.rnn.pack_padded_sequence(steps, lengths, batch_first=True, enforce_sorted=False)
            states.append(lstm(packed)[1][0][0])
        side = torch.tanh(self.side(torch.cat([heads, described], dim=1)))
        return self.out(torch.tanh(self.mix(torch.cat([*states, side], dim=1))))


def sequences(lengths, spans):
    """Targets, neighbours and rows of sequences of these lengths, padded; `spans` says whom each reads."""
    most = max(lengths)
    neighbours = torch.zeros(len(lengths), most, dtype=torch.long)
    for row, span in enumerate(spans):
        neighbours[row, : len(span)] = torch.tensor(span)
    targets = torch.arange(len(lengths)).unsqueeze(1).expand(-1, most)
    return targets, neighbours, torch.randn(len(lengths), most, PAIR), torch.tensor(lengths)


def median_us(act, times=50):
    for _ in range(5):
        act()
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        act()
        taken.append(time.perf_counter() - begun)
    return 1e6 * statistics.median(taken)


def torch_us():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    net, each = Net().eval(), RUNNING + 1
    before, after = [], []
    for cluster in range(CLUSTERS):
        base = cluster * each
        for place in range(each):
            before.append(list(range(base, base + place + 1)))
            after.append([base + place, *range(base + place + 1, base + each)])
    count = CLUSTERS * each
    inputs = (
        torch.randn(count, FEATURES),
        sequences([len(span) for span in before], before),
        sequences([len(span) for span in after], after),
        torch.randn(count, HEAD),
    )
    cell, row = nn.LSTMCell(2 * DESCRIPTOR + PAIR, HIDDEN), torch.randn(64, 2 * DESCRIPTOR + PAIR)
    state = (torch.zeros(64, HIDDEN), torch.zeros(64, HIDDEN))
    with torch.inference_mode():
        return median_us(lambda: net(*inputs)), median_us(lambda: cell(row, state), 500)


def rust_us():
    here = Path(__file__).resolve().parents[3]
    target = Path(os.environ.get("CARGO_TARGET_DIR") or here / "target")
    command = ["cargo", "bench", "--locked", "-p", "punctual-core", "--bench", "predict", "--", "|".join(BENCHES)]
    subprocess.run(command, cwd=here, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    found = {}
    for bench in BENCHES:
        estimates = target / "criterion" / bench / "new" / "estimates.json"
        if estimates.exists():
            found[bench] = json.loads(estimates.read_text())["median"]["point_estimate"] / 1e3
    return found


def main():
    ours = rust_us()
    whole, step = torch_us()
    # Once more, so that a machine that changes its pace shows.
    again = rust_us()
    look = max(ours["look/8 x 32"], again["look/8 x 32"])
    print(f"{CLUSTERS} clusters x {RUNNING} running: PyTorch {whole:.0f} us, here {look:.0f} us, {whole / look:.1f} times")
    for bench in BENCHES[1:]:
        if bench in again:
            print(f"one step of 64: PyTorch {step:.1f} us, here {again[bench]:.1f} us ({bench.split('/')[1]})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
