#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""compare.py [--rounds N] [--only TEXT] [--json FILE] SHARD SHARD_COMMAND... [PYTORCH PYTORCH_COMMAND...]

Runs the program `layers` (after the word SHARD: how to start it) and pytorch.py (after PYTORCH; or
another build of `layers`) in turns, case by case, and prints a table: milliseconds, share of the
core's peak or of a copy's speed, and the speed as a multiple of the other's. Of each round the
fastest call, of the rounds the median. Ends with an error where a marked case is slower than PyTorch.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys

MARKED = ("conv/float/64x181x360/k3s1p1", "conv/float/32x192x288/k5s1p2", "conv/float/64x192x288/k3s2p1",
          "conv/double/64x181x360/k3s1p1")
WANTED = 0.8


class Program:
    def __init__(self, command, greets):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.version = self.process.stdout.readline().strip() if greets else "the other"

    def time(self, case):
        self.process.stdin.write(case + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"compare.py: no answer to {case}")
        return json.loads(line)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--only", default="")
parser.add_argument("--json")
words = sys.argv[1:]
words, theirs = (words[:i], words[i + 1:]) if "PYTORCH" in words and (i := words.index("PYTORCH")) else (words, [])
if "SHARD" not in words:
    sys.exit(__doc__)
command = words[words.index("SHARD") + 1:]
options = parser.parse_args(words[:words.index("SHARD")])
cases = subprocess.run([*command, "--list"], check=True, capture_output=True, text=True).stdout.split()
cases = [c for c in cases if options.only in c]
shard = Program(command, False)
torch = Program(theirs, any("pytorch.py" in word for word in theirs)) if theirs else None
if torch and not torch.version:
    print("PyTorch is not installed: left out")
    torch = None

missed, below, ratios, results = [], [], [], {}
load = os.getloadavg()[0]
print(f"{'ms (share of the limit)' + (', times ' + torch.version if torch else ''):44}"
      f"{'forward':>24} {'backward':>24} {'of input':>9} {'of weights':>10} {'GFLOP/s, GB/s':>14}")
for case in cases:
    rounds = [(shard.time(case), torch.time(case) if torch else {}) for _ in range(options.rounds)]
    results[case] = [{"shard": a, "pytorch": b} for a, b in rounds]

    def median(key):
        values = [a[key] for a, _ in rounds if key in a]
        return statistics.median(values) if values else None

    cells = []
    for key in ("forward", "backward"):
        cell = f"{1e3 * median(key):.2f} ({100 * median(key + '_share'):.0f} %)"
        if all(key in b for _, b in rounds):
            ratio = statistics.median(b[key] / a[key] for a, b in rounds)
            ratios.append(ratio)
            cell += f" {ratio:.2f}"
            if ratio < WANTED:
                below.append(case + " " + key)
            if case in MARKED and ratio < 1:
                missed.append(case)
                cell += "!"
        cells.append(cell)
    for key in ("of_input", "of_parameters"):
        cells.append("" if median(key) is None else f"{100 * median(key):.0f} %")
    print(f"{case:44}{cells[0]:>24} {cells[1]:>24} {cells[2]:>9} {cells[3]:>10} {median('limit'):14.0f}", flush=True)
print(f"load of the machine: {load:.1f} before, {os.getloadavg()[0]:.1f} after")
if ratios:
    print(f"geometric mean of {len(ratios)} ratios: {math.exp(statistics.mean(map(math.log, ratios))):.2f}; "
          f"below {WANTED}: {', '.join(below) or 'none'}")
if options.json:
    with open(options.json, "w") as f:
        json.dump(results, f, indent=1)
sys.exit(1 if missed else 0)
