#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""table.py JSON...

What benchmarks/redistribute/report prints: ratios within a run, of several runs the median.
"""
import collections
import json
import statistics
import sys

times = collections.defaultdict(lambda: collections.defaultdict(list))
for file in sys.argv[1:]:
    with open(file) as f:
        for entry in json.load(f)["benchmarks"]:
            case, way = entry["name"].rsplit("/", 1)
            # collectives are short: others on the machine disturb the fastest call least
            times[case][way].append(entry["fastest" if case.startswith("collective/") else "real_time"])


def ratio(case, way, other):
    """time of way / time of other, run by run"""
    return statistics.median(a / b for a, b in zip(times[case][way], times[case][other]))


def row(case, what, value):
    print(f"{case:44} {what:28} {value:7.2f}")


for case, ways in times.items():
    for ours in ("shard_all_to_all", "shard_redistribute", "shard_coupling", "shard_coupling_mpi", "shard_set", "shard_set_mpi"):
        if ours in ways and "hand_mpi" in ways:
            row(case, f"{ours} / hand_mpi", ratio(case, ours, "hand_mpi"))
        if ours in ways and "gloo" in ways:
            row(case, f"{ours} / gloo", statistics.median(ways[ours]) / statistics.median(ways["gloo"]))
    if case.startswith("collective/"):
        row(case, f"{statistics.median(ways['shard']):9.1f} us; mpi / shard", ratio(case, "mpi", "shard"))
    if case.startswith("packing"):
        for way, other in (("pack", "memcpy_into"), ("unpack", "memcpy_out")):
            row(case, f"{way}, memcpy's speed", 1 / ratio(case, way, other))
    if case.startswith("local_transpose"):
        row(case, "by blocks, memcpy's speed", 1 / ratio(case, "by_blocks", "memcpy"))
