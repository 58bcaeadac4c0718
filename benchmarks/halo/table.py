#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""table.py [--markdown FILE] JSON...: the table of benchmarks/halo/report.

A ratio is the median over turns of the ratios within a turn. A row has the geometric mean, the least and the largest
of its cases.
"""
import argparse
import json
import math
import re
import statistics

LONG = 2500  # contiguous bytes from which a face counts as contiguous


class Case:
    def __init__(self, name, entry):
        self.name, self.face = name, entry["face_bytes"]
        self.fields = int(re.search(r"/f(\d+)/", name)[1])
        self.turns, self.messages = {}, {}
        if self.face == 0:
            self.kind = "self"
        elif entry["strided"]:
            self.kind = "strided"
        else:
            self.kind = "long" if entry["run_bytes"] >= LONG else "short"

    def ratio(self, above, below):
        """Time of a way / that of another, or None if one of them was not run."""
        if above not in self.turns or below not in self.turns:
            return None
        return statistics.median(a / b for a, b in zip(self.turns[above], self.turns[below]))


def load(files):
    cases, other = {}, {}
    for file in files:
        with open(file) as f:
            for entry in json.load(f)["benchmarks"]:
                if "turns" not in entry:
                    other[entry["name"]] = entry
                    continue
                name, way = entry["name"].rsplit("/", 1)
                case = cases.setdefault(name, Case(name, entry))
                case.turns[way], case.messages[way] = entry["turns"], entry["messages"]
    return list(cases.values()), other


def rows_of(cases, other):
    def kind(*kinds):
        return lambda case: case.kind in kinds

    def messages(case):
        return case.kind != "self"

    for what, above, below, wanted in (
            ("hand-written MPI / shared memory, contiguous runs >= 2.5 kB", "hand_mpi", "shard_shared", kind("long")),
            ("hand-written MPI / shared memory, shorter runs", "hand_mpi", "shard_shared", kind("short")),
            ("hand-written MPI / shared memory, strided faces", "hand_mpi", "shard_shared", kind("strided")),
            ("hand-written MPI / MPI", "hand_mpi", "shard_mpi", messages),
            ("hand-written copies / periodic axis of one rank", "hand_mpi", "shard_shared", kind("self")),
            ("PETSc / MPI", "petsc", "shard_mpi", messages),
            ("Tpetra / MPI", "tpetra", "shard_mpi", messages),
            ("GHEX / MPI", "ghex", "shard_mpi", messages),
            ("GHEX / shared memory", "ghex", "shard_shared", messages),
            ("memcpy of the same bytes / shared memory, runs >= 2.5 kB, faces >= 20 kB", "memcpy", "shard_shared",
             lambda case: case.kind == "long" and case.face >= 20000),
            ("adjoint / forward, shared memory", "shard_shared_adjoint", "shard_shared", lambda case: True),
            ("adjoint / forward, MPI", "shard_mpi_adjoint", "shard_mpi", messages),
            ("ordered pullback of a 7-point stencil / unordered", "shard_ordered_pullback", "shard_pullback", lambda case: True),
            ("8 single exchanges / 8 fields in one, shared memory", "shard_shared_single", "shard_shared",
             lambda case: case.fields == 8),
            ("8 single exchanges / 8 fields in one, MPI", "shard_mpi_single", "shard_mpi", lambda case: case.fields == 8),
            ("without corners / with corners, 2 x 2 ranks, shared memory", "shard_shared_faces", "shard_shared", messages),
            ("without corners / with corners, 2 x 2 ranks, MPI", "shard_mpi_faces", "shard_mpi", messages)):
        ratios = [r for case in cases if wanted(case) and (r := case.ratio(above, below))]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            yield what, f"{mean:.2f}", f"{min(ratios):.2f}", f"{max(ratios):.2f}", f"{len(ratios)} cases"
    for name, entry in other.items():
        if name.startswith("host_time/"):
            yield "host time of start + finish", f"{entry['real_time']:.0f} ns", "", "", name.split("/")[1]
        if name.startswith("overlap/"):
            yield (f"share of the exchange that overlapped hides, {name.removeprefix('overlap/')}", f"{entry['hidden']:.2f}",
                   "", "", f"of {entry['exchange']:.0f} us")
        if name.startswith("plan_time/"):
            yield (f"making a plan, {name.removeprefix('plan_time/')}", f"{entry['real_time']:.0f} us", "", "",
                   f"{entry['bytes_per_neighbour']:.0f} B a neighbour")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("json", nargs="+")
    parser.add_argument("--markdown")
    options = parser.parse_args()
    rows = [("what", "mean", "least", "largest", "of"), *rows_of(*load(options.json))]
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    if options.markdown:
        rows.insert(1, ("---",) * 5)
        with open(options.markdown, "w") as out:
            for row in rows:
                print("|", " | ".join(row), "|", file=out)


if __name__ == "__main__":
    main()
