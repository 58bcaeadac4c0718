#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""compare.py [--rounds N] [--only TEXT,...] [--skip TEXT,...] [--json FILE] [--check] SHARD SHARD_COMMAND... [PYTORCH PYTORCH_COMMAND...]

Runs the program `layers` (after the word SHARD: how to start it) and pytorch.py (after PYTORCH; or
another build of `layers`) in turns, case by case, and prints a table: milliseconds, share of the
core's peak or of a copy's speed, the speed as a multiple of the other's, GFLOP/s or GB/s of the
forward call, and the kernels of a forward and a backward call. Of the rounds the median. A program
that stops in a case is started again for the next one, and the end is an error. --only, --skip: the
cases whose names contain one of the texts. --check: ends with an error also where a marked case is
slower than PyTorch. --level: the instructions that both programs are limited to, for the last lines.
Those have the geometric means of the ratios and what is below 0.9 and 0.5, and the processor.
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
WANTED, LEAST = 0.9, 0.5


class Program:
    """A process that answers names of cases; started again where it stopped."""

    def __init__(self, command, greets):
        self.command, self.greets = command, greets
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.version = self.process.stdout.readline().strip() if self.greets else "the other"

    def time(self, case):
        try:
            self.process.stdin.write(case + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line.endswith("\n"):
            return json.loads(line)
        print(f"{case}: no answer, status {self.process.wait()}: {' '.join(self.command)}", file=sys.stderr)
        self.start()
        return None


def processor():
    """As lscpu names it: virtual machines hide the model's name, so the numbers too."""
    try:
        text = subprocess.run(["lscpu"], check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    of = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
    return f"{of.get('Model name', 'unknown')} (family {of.get('CPU family', '?')}, model {of.get('Model', '?')})"


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--only", default="")
parser.add_argument("--skip")
parser.add_argument("--json")
parser.add_argument("--check", action="store_true")
parser.add_argument("--level", default="native")
words = sys.argv[1:]
words, theirs = (words[:i], words[i + 1:]) if "PYTORCH" in words and (i := words.index("PYTORCH")) else (words, [])
if "SHARD" not in words:
    sys.exit(__doc__)
command = words[words.index("SHARD") + 1:]
options = parser.parse_args(words[:words.index("SHARD")])
cases = subprocess.run([*command, "--list"], check=True, capture_output=True, text=True).stdout.split()
cases = [c for c in cases if any(text in c for text in options.only.split(","))]
if options.skip:
    cases = [c for c in cases if not any(text in c for text in options.skip.split(","))]
shard = Program(command, False)
torch = Program(theirs, any("pytorch.py" in word for word in theirs)) if theirs else None
if torch and not torch.version:
    print("PyTorch is not installed: left out")
    torch = None

missed, failed, results = [], [], {}
ratios = {}  # of each part: case, ratio
load = os.getloadavg()[0]
print(f"{'ms (share of the limit)' + (', times ' + torch.version if torch else ''):44}"
      f"{'forward':>24} {'backward':>24} {'of input':>24} {'of weights':>24} {'GFLOP/s, GB/s':>14} {'kernels':>8}")
for case in cases:
    rounds = [(shard.time(case), torch.time(case) if torch else {}) for _ in range(options.rounds)]
    results[case] = [{"shard": a, "pytorch": b} for a, b in rounds]
    if options.json:
        with open(options.json, "w") as f:
            json.dump(results, f, indent=1)
    if any(answer is None for answers in rounds for answer in answers):
        failed.append(case)
        continue
    ours = rounds[0][0]

    def work(part):
        """Operations, else bytes, of a call."""
        return ours["flops"] * (2 if part == "backward" else 1) or ours.get(part + "_bytes", 0)

    def cell(part):
        if part not in ours:
            return ""
        seconds = statistics.median(a[part] for a, _ in rounds)
        limit = ours.get(part + "_limit") or ours["flops"] and ours["forward_limit"]
        text = f"{1e3 * seconds:.3g}"
        if limit and work(part):
            text += f" ({100 * work(part) / seconds / limit * 1e-9:.0f} %)"
        if all(part in b for _, b in rounds):
            ratio = statistics.median(b[part] / a[part] for a, b in rounds)
            ratios.setdefault(part, []).append((case, ratio))
            text += f" {ratio:.2f}"
            if case in MARKED and ratio < 1 and part in ("forward", "backward"):
                missed.append(case)
                text += "!"
        return text

    forward, backward, of_input, of_weights = map(cell, ("forward", "backward", "of_input", "of_parameters"))
    rate = work("forward") / statistics.median(a["forward"] for a, _ in rounds) * 1e-9
    kernels = ", ".join(str(ours[part + "_counts"][0]) for part in ("forward", "backward") if part in ours)
    print(f"{case:44}{forward:>24} {backward:>24} {of_input:>24} {of_weights:>24} {rate:14.0f} {kernels:>8}", flush=True)
print(f"load of the machine: {load:.1f} before, {os.getloadavg()[0]:.1f} after")
for part, of in ratios.items():
    mean = math.exp(statistics.mean(math.log(ratio) for _, ratio in of))
    below = sorted((ratio, case) for case, ratio in of if ratio < WANTED)
    print(f"{part.replace('_', ' ')}: geometric mean of {len(of)} ratios {mean:.2f}; below {WANTED} {len(below)}, below {LEAST} "
          f"{sum(ratio < LEAST for ratio, _ in below)}: {', '.join(f'{case} {ratio:.2f}' for ratio, case in below) or 'none'}")
print(f"processor: {processor()}, instructions: {options.level}")
if failed:
    print("no answer: " + ", ".join(failed))
sys.exit(1 if failed or options.check and missed else 0)
