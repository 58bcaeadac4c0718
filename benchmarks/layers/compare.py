#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""compare.py [--rounds N] [--only TEXT] [--json FILE] SHARD SHARD_COMMAND... [PYTORCH PYTORCH_COMMAND...]

Runs the program `layers` (after the word SHARD: how to start it) and pytorch.py (after PYTORCH) in
turns, case by case, and prints a table: GFLOP/s, share of the core's peak, and the speed as a multiple of
PyTorch's: of each round the fastest call, of the rounds the median. Ends with an error where a marked case is slower than PyTorch.
"""
import argparse
import json
import statistics
import subprocess
import sys

MARKED = ("conv/float/64x181x360/k3s1p1", "conv/float/32x192x288/k5s1p2", "conv/float/64x192x288/k3s2p1",
          "conv/double/64x181x360/k3s1p1")


class Program:
    def __init__(self, command, greets):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.version = self.process.stdout.readline().strip() if greets else ""

    def time(self, case):
        self.process.stdin.write(case + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"compare.py: no answer to {case}")
        return json.loads(line)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--rounds", type=int, default=5)
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
torch = Program(theirs, True) if theirs else None
if torch and not torch.version:
    print("PyTorch is not installed: left out")
    torch = None
results = {}
for case in cases:
    rounds = [(shard.time(case), torch.time(case) if torch else None) for _ in range(options.rounds)]
    results[case] = [{"shard": a, "pytorch": b} for a, b in rounds]
if options.json:
    with open(options.json, "w") as f:
        json.dump(results, f, indent=1)

missed = 0
print(f"{'GFLOP/s (share of the peak), times PyTorch ' + (torch.version if torch else ''):44}"
      f"{'forward':>20} {'backward':>20} {'of input':>16} {'of weights':>16} {'peak':>7}")
for case, rounds in results.items():
    def median(key, share=False):
        return statistics.median(r["shard"]["flops"] / r["shard"][key] / 1e9 *
                                 (2 if key == "backward" else 1) / (r["shard"]["peak"] if share else 1) for r in rounds)

    cells = []
    for key in ("forward", "backward", "of_input", "of_parameters"):
        cell = f"{median(key):.0f} ({100 * median(key, True):.0f} %)"
        if torch and key in ("forward", "backward"):
            ratio = statistics.median(r["pytorch"][key] / r["shard"][key] for r in rounds)
            cell += f" {ratio:.2f}"
            if case in MARKED and ratio < 1:
                missed += 1
                cell += "!"
        cells.append(cell)
    peak = statistics.median(r["shard"]["peak"] for r in rounds)
    print(f"{case:44}{cells[0]:>20} {cells[1]:>20} {cells[2]:>16} {cells[3]:>16} {peak:7.0f}")
sys.exit(1 if missed else 0)
