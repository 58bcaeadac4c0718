#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""table.py JSON...

What benchmarks/redistribute/report prints: ratios within a run, of several runs the median. Ends
with an error if a row is missed.
"""
import collections
import json
import statistics
import sys

LONG = 256  # bytes of a run from which packing is to reach 70 % of memcpy's speed, else 35 %

times = collections.defaultdict(lambda: collections.defaultdict(list))
for file in sys.argv[1:]:
    with open(file) as f:
        for entry in json.load(f)["benchmarks"]:
            case, way = entry["name"].rsplit("/", 1)
            times[case][way].append(entry["real_time"])

missed = 0


def ratio(case, way, other):
    """time of way / time of other, run by run"""
    return statistics.median(a / b for a, b in zip(times[case][way], times[case][other]))


def row(case, what, value, target, good):
    global missed
    missed += not good
    print(f"{case:44} {what:28} {value:7.2f}  {target:9} {'' if good else 'missed'}")


for case, ways in times.items():
    for ours in ("shard_all_to_all", "shard_redistribute"):
        if ours in ways and "hand_mpi" in ways:
            value = ratio(case, ours, "hand_mpi")
            row(case, f"{ours} / hand_mpi", value, "<= 1.00", value <= 1.0)
        if ours in ways and "gloo" in ways:
            value = statistics.median(ways[ours]) / statistics.median(ways["gloo"])
            row(case, f"{ours} / gloo", value, "<= 1.00", value <= 1.0)
    if case.startswith("packing"):
        kind, run = case.split("/")
        least = 0.7 if kind == "packing" and int(run) >= LONG else 0.35
        for way, other in (("pack", "memcpy_into"), ("unpack", "memcpy_out")):
            value = 1 / ratio(case, way, other)
            row(case, f"{way}, memcpy's speed", value, f">= {least}", value >= least)
    if case.startswith("local_transpose"):
        value = 1 / ratio(case, "by_blocks", "memcpy")
        row(case, "by blocks, memcpy's speed", value, "", True)
sys.exit(1 if missed else 0)
