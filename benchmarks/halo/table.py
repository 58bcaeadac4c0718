#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""table.py [--yardstick OURS THEIRS]... [--counts FILE] [--markdown FILE] [--points FILE] JSON...
table.py --to-repeat [--undecided] JSON...
table.py --to-count JSON...

The table of benchmarks/halo/report: target, reached, how. Ratios are those within a JSON file, which is a run; of
several the median counts. Ends with an error if a row is missed. --to-repeat: a filter for the cases that miss a
limit or are so near to it that another run may fall on its other side; --undecided: those of them that miss it, or
were timed once or twice while the ranks' cores were near; never, only if a row lacks too many. --to-count: what is to
be counted, for a transpose misses its row: a name for counts.py, the ways' filter, the tuning of their plan.
"""
import argparse
import collections
import json
import math
import re
import statistics
import sys

LONG = 2500  # bytes of a run from which faces count as contiguous
ENOUGH = 50  # calls: a median of half as many was seen 7 % off
DOUBTFUL = 1.05  # a limit's neighbourhood: by so much two runs of one case often differ
LACKING = 0.1  # share of a row's cases of which so few calls were near each other that they don't count


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


class Case:
    """One case: its ways by name, in microseconds by run, and what its faces are. Times of calls while the
    ranks' cores were near each other; `apart`: while they weren't."""

    def __init__(self, name, entry):
        self.name = name
        self.face = entry["face_bytes"]
        self.run = entry["run_bytes"]
        if self.face == 0:
            self.kind = "self"
        elif entry["strided"]:
            self.kind = "strided"
        else:
            self.kind = "long" if self.run >= LONG else "short"
        self.fields = int(re.search(r"/f(\d+)/", name).group(1))
        self.tuning = {}
        self.messages = {}
        self.handshake = {}
        self.ways = set()
        self.time = collections.defaultdict(dict)
        self.apart = collections.defaultdict(dict)
        self.turns = collections.defaultdict(dict)

    def least_runs(self):
        """In how many runs each way was timed while the ranks' cores were near."""
        return min(len(self.time.get(way, ())) for way in self.ways)

    def of(self, way):
        return statistics.median(self.time[way].values()) if way in self.time else None

    def ratio(self, above, below, apart=False):
        """Time of a way / that of another, or of the fastest of several: of each run that has both the median of its
        turns, of runs the median, or None. Apart: of the medians."""
        times = self.apart if apart else self.time

        def fastest(ways, run):
            had = [way for way in ((ways,) if isinstance(ways, str) else ways) if run in times.get(way, {})]
            return min(had, key=lambda way: times[way][run]) if had else None

        found = []
        for run in sorted({run for of_way in times.values() for run in of_way}):
            a, b = fastest(above, run), fastest(below, run)
            if a is None or b is None:
                continue
            of_a, of_b = self.turns[a].get(run), self.turns[b].get(run)
            if of_a and of_b and len(of_a) == len(of_b) and not apart:
                found.append(statistics.median(x / y for x, y in zip(of_a, of_b)))
            else:
                found.append(times[a][run] / times[b][run])
        return statistics.median(found) if found else None


def load(files):
    cases, other = {}, collections.defaultdict(list)
    for run, file in enumerate(files):
        with open(file) as f:
            for entry in json.load(f)["benchmarks"]:
                if "face_bytes" in entry:
                    name, way = entry["name"].rsplit("/", 1)
                    case = cases.setdefault(name, Case(name, entry))
                    case.ways.add(way)
                    case.tuning[way] = entry.get("tuning", "")
                    case.messages[way] = entry["messages"]
                    case.handshake[way] = entry["handshake"]
                    if entry["iterations"] >= ENOUGH:  # of fewer calls a median says little
                        case.time[way][run] = entry["real_time"]
                        case.turns[way][run] = entry["turns"]
                    if entry["iterations_apart"] >= ENOUGH:
                        case.apart[way][run] = entry["apart"]
                else:
                    other[entry["name"]].append(entry)
    return cases, other


class Table:
    """Rows of target, reached and how; remembers whether one was missed."""

    def __init__(self):
        self.rows = []
        self.doubtful = set()  # names of cases
        self.missing = set()  # those that miss a limit, but for what is counted, or a row lacks

    def add(self, what, target, reached, how, met):
        self.rows.append((what, target, reached, how, "met" if met else "MISSED"))

    def skip(self, what, target, why):
        self.rows.append((what, target, "-", why, "skipped"))

    def absent(self, what, target):
        self.add(what, target, "not there", "", False)

    def ratios(self, what, all_ratios, least=None, mean=None, most=None, counted=False):
        """A row about a ratio in each of several cases: {case name: ratio, None where too little was measured}.
        `counted`: what cases that miss it move is counted later, and they may be bound by that."""
        ratios = {name: value for name, value in all_ratios.items() if value is not None}
        lacking = len(all_ratios) - len(ratios)
        self.doubtful |= all_ratios.keys() - ratios.keys()
        target = []
        if least is not None:
            target.append(f">= {least} each")
        if mean is not None:
            target.append(f">= {mean} mean")
        if most is not None:
            target.append(f"<= {most} each")
        target = ", ".join(target)
        if not ratios:
            self.absent(what, target)
            return
        middle = geometric_mean(ratios.values())
        worst = (max if most is not None else min)(ratios, key=ratios.get)
        missing = {name for name, r in ratios.items()
                   if (least is not None and r < least) or (most is not None and r > most)}
        short = len(missing)
        if not counted:
            self.missing |= missing
        if lacking > LACKING * len(all_ratios):
            self.missing |= all_ratios.keys() - ratios.keys()
        if least is not None:
            self.doubtful |= {name for name, r in ratios.items() if r < least * DOUBTFUL}
        if most is not None:
            self.doubtful |= {name for name, r in ratios.items() if r > most / DOUBTFUL}
        met = short == 0 and (mean is None or middle >= mean) and lacking <= LACKING * len(all_ratios)
        how = f"{len(ratios)} cases{f' of {len(all_ratios)}' if lacking else ''}, worst {worst}"
        if short:
            how += f", {short} miss"
        self.add(what, target, f"{ratios[worst]:.2f}, mean {middle:.2f}", how, met)

    def note(self, text):
        """Adds to how the last row was reached."""
        what, target, reached, how, state = self.rows[-1]
        self.rows[-1] = (what, target, reached, f"{how}: {text}" if how else text, state)

    def bound(self, cases):
        """Says of the last row, if it was missed, that all of the cases that miss are `cases`, in which the bare
        loops take as long: a row that is bound is no error."""
        what, target, reached, how, state = self.rows[-1]
        if state == "MISSED":
            self.rows[-1] = (what, target, reached, f"{how}: {cases}", "bound")

    def print(self, out, markdown):
        # what is said of a row may be long
        rows = [("what", "target", "reached", "", "how")] + [(a, b, c, state, how) for a, b, c, how, state in self.rows]
        if markdown:
            rows.insert(1, ("---",) * 5)
            for row in rows:
                print("|", " | ".join(row), "|", file=out)
            return
        widths = [max(len(r[i]) for r in rows) for i in range(4)] + [0]
        for row in rows:
            print("  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip(), file=out)

    def missed(self):
        return [row[0] for row in self.rows if row[4] == "MISSED"]


def ratio(cases, above, below, wanted=lambda case: True):
    """{case name: Case.ratio} of those that are wanted and have both ways, None where too little was measured."""
    def has(case, ways):
        return any(way in case.ways for way in ((ways,) if isinstance(ways, str) else ways))

    return {case.name: case.ratio(above, below) for case in cases.values()
            if wanted(case) and has(case, above) and has(case, below)}


def yardstick(pairs):
    """How our hand-written MPI stands to mpi_halo.c: {case: ours / theirs}. Two programs meet the machine in
    different states: each time of ours is compared with each of theirs of which the ranks' cores were as near to
    each other, within 15 %, and the median counts."""
    ours, theirs = collections.defaultdict(list), collections.defaultdict(list)
    line = re.compile(r"hand MPI np=2\s+(\d+)x\s*(\d+) dof\s+(\d+) (\w+)\s+w=(\d) : median")
    for own, other in pairs:
        cases, _ = load([own])
        for case in cases.values():
            for way in case.time:
                ours[f"{case.name}/{way}"].append((case.handshake[way], case.of(way)))
        cores = time = 0
        with open(other) as f:
            for text in f:
                if text.startswith("cores: "):
                    cores = float(text.split()[1])
                if text.startswith("median: "):
                    time = float(text.split()[1])
                if not (found := line.match(text)):
                    continue
                ny, nx, dof, layout, width = found.groups()
                if layout == "interleaved":
                    shape, cut, way = f"{ny}x{nx}" + (f"x{dof}" if dof != "1" else ""), 0, "hand_mpi_in_place"
                else:
                    shape, way = (f"{dof}x" if dof != "1" else "") + f"{ny}x{nx}", "hand_mpi"
                    cut = 1 if dof != "1" else 0
                theirs[f"{shape}/right/double/w{width}/f1/cut{cut}/{way}"].append((cores, time))
    ratios = {}
    for name, times in theirs.items():
        alike = [a / b for near, a in ours[name] for other, b in times if abs(math.log(near / max(other, 1))) < 0.15]
        if alike:
            ratios[name] = statistics.median(alike)
    return ratios


def add_overlap(table, other):
    """Rows about what shared memory's and MPI's exchanges still take beside a stencil that runs meanwhile."""
    for names, what, least in ((("shared_direct", "shared_packed"), "shared memory", 0.5), (("mpi",), "MPI", None)):
        hidden, copied, by_steps, how = {}, {}, {}, []
        for cut in (0, 1):
            found = {n: other.get(f"overlap/{n}/256x256x64/cut{cut}", []) for n in names}
            if not all(found.values()):
                continue

            def of(name, *parts):
                return statistics.median(sum(e[p] for p in parts) for e in found[name])

            def hidden_in(run):
                # measured by the faster exchange: a slow one would be easy to hide
                return 1 - min(e["start"] + e["finish"] for e in run) / min(e["exchange"] for e in run)

            def copied_in(run):
                return min(e["copies"] for e in run) / min(e["start"] + e["finish"] for e in run)

            hidden[cut] = statistics.median(hidden_in(run) for run in zip(*found.values()))
            copied[cut] = statistics.median(copied_in(run) for run in zip(*found.values()))
            exchange = min(of(n, "exchange") for n in names)
            seen = {n: of(n, "start", "finish") for n in names}
            by_steps[cut] = of(min(names, key=seen.get), "hidden_by_steps")
            each = ", ".join(f"{n.removeprefix('shared_')} {seen[n]:.0f} (by steps {of(n, 'hidden_by_steps'):.2f})"
                             for n in names)
            cores = sorted({e["cores"] for n in names for e in found[n]} - {"near"})
            moved = f" (cores {', '.join(cores)})" if cores else ""
            plain = min(of(n, "copies") for n in names)
            alone = f"; copies alone {plain:.0f}" if least is not None else ""  # MPI has no such loop
            how.append(f"cut {cut}{moved}: seen of {exchange:.0f} us: {each}{alone}")
        name = f"share of the exchange hidden by overlapped, 256x256x64, {what}"
        target = f">= {least} each" if least is not None else "what its progress allows"
        if len(hidden) < 2:
            table.absent(name, target)
            continue
        worst = min(hidden.values())
        table.add(name, target, f"{worst:.2f}", "; ".join(how), least is None or worst >= least)
        if least is None:
            continue
        if all(hidden[cut] >= least or 1.05 * copied[cut] >= 1 for cut in hidden):
            table.bound("no longer than a plain loop's copies")
        elif all(hidden[cut] >= least or 1.05 * copied[cut] >= 1 or by_steps[cut] >= least for cut in hidden):
            table.bound("half of what it adds to a step, or more, is hidden")


def add_faces(table, cases):
    """Rows about exchanges without corners, from the cases with ranks that only corners come from: of those in which
    there are fewer messages then, for one dimension after the other corners need none of their own."""
    for way, name in (("shard_shared", "shared memory"), ("shard_mpi", "MPI")):
        both = [case for case in cases.values() if f"{way}_faces" in case.ways]
        fewer = [case for case in both if case.messages[f"{way}_faces"] < case.messages[way]]
        table.ratios(f"without corners (faces) / with them, 2x2 ranks on these cores, {name}",
                     ratio(cases, f"{way}_faces", way, lambda case: case in fewer), most=1.05)
        sent = sorted({f"{case.messages[f'{way}_faces']} messages of {case.messages[way]}" for case in fewer})
        by_dimension = len(both) - len(fewer)
        table.note(", ".join(sent) + (f"; {by_dimension} more go by dimension" if by_dimension else ""))


def make_table(cases, other, pairs, counts):
    table = Table()

    def usual(case):
        # the faces that the rows about shared memory are about
        return 2000 <= case.face <= 614400

    def kind(*kinds):
        return lambda case: case.kind in kinds

    shared = "shard_shared"
    hand = "hand_mpi"
    long = ratio(cases, hand, shared, lambda c: usual(c) and c.kind == "long")
    table.ratios("shared memory / hand-written MPI, runs >= 2.5 kB", long, 2.2, 2.7)
    bound = bound_copies(cases, long, 2.2, 2.7)
    if bound:
        table.bound(bound)
    table.ratios("shared memory / hand-written MPI, runs 256 B to 2.5 kB",
                 ratio(cases, hand, shared, lambda c: usual(c) and c.kind == "short"), 1.15, 1.45)
    table.ratios("shared memory / hand-written MPI, strided faces",
                 ratio(cases, hand, shared, lambda c: usual(c) and c.kind == "strided"), mean=1.15)
    # where the plan knows that MPI is faster it takes that: two timings of the same thing
    table.ratios("shared memory / our MPI path, strided faces",
                 ratio(cases, "shard_mpi", shared, lambda c: usual(c) and c.kind == "strided"), 0.95)
    table.ratios("MPI path / hand-written MPI", ratio(cases, hand, "shard_mpi", lambda c: c.kind != "self"), 0.95)
    table.ratios("periodic axis of one rank, no message / hand-written copies",
                 ratio(cases, hand, shared, kind("self")), 0.95)
    for peer, name in (("petsc", "PETSc"), ("tpetra", "Tpetra")):
        if not any(peer in case.time for case in cases.values()):
            table.skip(f"best path / {name}", ">= 2.5, 1.2 each", f"no {name} that works with this Kokkos")
            continue
        table.ratios(f"best path / {name}, runs >= 2.5 kB", ratio(cases, peer, OURS, kind("long")), 2.5)
        table.ratios(f"best path / {name}, shorter runs and strided faces",
                     ratio(cases, peer, OURS, kind("short", "strided")), 1.2)
    table.ratios("share of the memcpy limit, shared memory, runs >= 2.5 kB, faces >= 20 kB",
                 ratio(cases, "memcpy", shared, lambda c: c.kind == "long" and c.face >= 20000), 0.5, 0.7)
    for way, name in ((shared, "shared memory"), ("shard_mpi", "MPI")):
        # without a message there is but one way
        table.ratios(f"transpose / forward, {name}",
                     ratio(cases, f"{way}_adjoint", way, lambda c: way == shared or c.kind != "self"), most=1.3,
                     counted=way == shared)
        if way == shared:
            bound = bound_transposes(cases, counts)
            if bound:
                table.bound(bound)
    table.ratios("ordered pullback of a 7-point stencil / unordered",
                 ratio(cases, "shard_ordered_pullback", "shard_pullback"), most=1.2)
    add_faces(table, cases)
    for way, name, least in ((shared, "shared memory", ("bare",)),
                             ("shard_mpi", "MPI", ("bare_mpi", "memcpy", "memcpy"))):
        table.ratios(f"8 fields fused / 8 single exchanges, faces <= 1 kB each, {name}",
                     ratio(cases, f"{way}_single", way, is_small), 3)
        bound = bound_fusing(cases, other, way, least)
        if bound:
            table.bound(bound)
    for space in ("Serial", "OpenMP"):
        what = f"host time of start + finish, {space}" + (", one thread" if space == "OpenMP" else "")
        found = other.get(f"host_time/{space}")
        if found:
            time = statistics.median(e["real_time"] for e in found)
            table.add(what, "< 1000 ns", f"{time:.0f} ns",
                      "outside MPI's calls, a value a face, so that kernels have next to no bodies", time < 1000)
        else:
            table.absent(what, "< 1000 ns")
    add_overlap(table, other)
    few, many = other.get("plan_time/ranks:64"), other.get("plan_time/ranks:100000")
    if few and many:
        a = statistics.median(e["real_time"] for e in few)
        b = statistics.median(e["real_time"] for e in many)
        table.add("plan building for one rank of 100 000, 3-D, corners", "< 100 us", f"{b:.1f} us",
                  f"of 64 ranks {a:.1f} us", b < 100 and b < 1.25 * a)
        size = many[0]["bytes_per_neighbour"]
        table.add("memory of a plan per neighbour", "< 1000 B", f"{size:.0f} B",
                  "everything allocated but the messages", size < 1000)
    else:
        table.absent("plan building for one rank of 100 000, 3-D, corners", "< 100 us")
    if pairs:
        found = yardstick(pairs)
        table.ratios("our hand-written MPI / mpi_halo.c (time)", found if len(found) > 8 else {}, most=1.05)
    else:
        table.absent("our hand-written MPI / mpi_halo.c (time)", "<= 1.05 each")
    return table


OURS = ("shard_mpi", "shard_shared")
BARE_FORWARD = ("bare", "bare_packed")
BARE_ADJOINT = ("bare_adjoint", "bare_adjoint_late", "bare_adjoint_own", "bare_adjoint_packed")


def bound_copies(cases, ratios, least, mean):
    """Of the cases in which shared memory is less than `least` times as fast as hand-written MPI: how fast the best
    of the bare loops are. None unless these are no more than 5 % over it in each, the mean is met and few cases lack."""
    reached = {name: value for name, value in ratios.items() if value}
    lacking = len(ratios) - len(reached)
    if not reached or lacking > LACKING * len(ratios) or geometric_mean(reached.values()) < mean:
        return None
    said = []
    for name, value in reached.items():
        if value >= least:
            continue
        bare = cases[name].ratio("hand_mpi", BARE_FORWARD)
        if not bare or bare > 1.05 * least:
            return None
        said.append(f"{name} {value:.2f}, bare loops {bare:.2f}")
    return "; ".join(said)


def slow_transposes(cases):
    return {name: value for name, value in ratio(cases, "shard_shared_adjoint", "shard_shared").items()
            if value and value > 1.3}


def bound_transposes(cases, counts):
    """Of the cases in which the transpose over shared memory costs more than 1.3 times the forward exchange: how
    it stands to the best of the bare loops, in the same turns, and what callgrind counted. None unless in each of
    them it is at least as fast as they are, or the bare loops' own ratio, without the cost of a plan that both
    directions share, is no better, or it stores as many times the values or moves as many times the lines of
    memory; and none where a bare transpose is faster than shard's and, with what a plan costs forward, takes no more than
    1.3 of shard's forward exchange."""
    said = []
    for name, value in slow_transposes(cases).items():
        case = cases[name]
        why = []
        transpose, forward = (case.ratio(ways, "shard_shared") for ways in (BARE_ADJOINT, BARE_FORWARD))
        as_fast, bare = case.ratio("shard_shared_adjoint", BARE_ADJOINT), case.ratio(BARE_ADJOINT, BARE_FORWARD)
        if as_fast and bare:
            if as_fast > 1.05 and transpose + max(0, 1 - forward) <= 1.3:
                return None
            if as_fast <= 1.05 or value <= 1.05 * bare:
                why.append(f"bare loops {bare:.2f}, {as_fast:.2f} of their time")
        if name in counts:
            stores, lines = (counts[name]["adjoint"][what] / counts[name]["forward"][what]
                             for what in ("stores", "lines"))
            # of a value's three stores, two are forward's; with another width of stores the count says more
            if value <= 1.05 * max(min(stores, 1.5), lines):
                why.append(f"stores {stores:.2f}, lines of memory {lines:.2f}")
        if not why:
            return None
        said.append(f"{name} {value:.2f}, {', '.join(why)}")
    return "; ".join(said)


def little_fused(cases, way):
    return {name: value for name, value in ratio(cases, f"{way}_single", way, is_small).items()
            if value and value < 3}


def bound_fusing(cases, other, way, least):
    """Of the cases in which fusing eight fields saves too little: what it could save if the fused exchange took no
    longer than these one after the other, which move its bytes (over MPI into messages and out of them), and what any
    exchange costs its host. None unless that is too little in each."""
    hosts = [entry["real_time"] / 1000 for entry in other.get("host_time/Serial", [])]
    if not hosts:
        return None
    host, said = statistics.median(hosts), []
    for name, value in little_fused(cases, way).items():
        parts = [cases[name].ratio(f"{way}_single", part) for part in least]
        if None in parts:
            return None
        possible = 1 / (sum(1 / part for part in parts) + host / cases[name].of(f"{way}_single"))
        if possible >= 3:
            return None
        said.append(f"{name} {value:.2f}, {', '.join(least)} and {1000 * host:.0f} ns of the host {possible:.2f}")
    return "; ".join(said)


def is_small(case):
    # of larger ones a single exchange is within 3 times of the memcpy of its bytes already
    return case.fields == 8 and case.face / 8 <= 1024


def print_apart(cases, out):
    """The same ratios while the ranks' cores shared no cache, of cases that were measured then too: no row has
    a target for it."""
    lines = []
    for what, above, below in (("shared memory / hand-written MPI", "hand_mpi", "shard_shared"),
                               ("MPI path / hand-written MPI", "hand_mpi", "shard_mpi"),
                               ("transpose / forward, shared memory", "shard_shared_adjoint", "shard_shared"),
                               ("transpose / forward, MPI", "shard_mpi_adjoint", "shard_mpi")):
        found = [value for case in cases.values() if (value := case.ratio(above, below, apart=True))]
        if found:
            lines.append(f"  {what}: {len(found)} cases, {min(found):.2f} to {max(found):.2f}, mean "
                         f"{geometric_mean(found):.2f}")
    if lines:
        print("\nwhile the ranks' cores shared no cache:", *lines, sep="\n", file=out)


def write_points(cases, file):
    """Speed against hand-written MPI for the plot: kind, bytes of a face, way, ratio."""
    shown = ("shard_shared", "shard_mpi", "petsc", "tpetra", "memcpy")
    with open(file, "w") as out:
        for case in cases.values():
            for way in shown if case.kind != "self" else ():
                if value := case.ratio("hand_mpi", way):
                    print(case.kind, case.face, way, f"{value:.4f}", file=out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("json", nargs="+")
    parser.add_argument("--yardstick", nargs=2, action="append", default=[])
    parser.add_argument("--counts")
    parser.add_argument("--to-repeat", action="store_true")
    parser.add_argument("--undecided", action="store_true")
    parser.add_argument("--to-count", action="store_true")
    parser.add_argument("--markdown")
    parser.add_argument("--points")
    options = parser.parse_args()
    cases, other = load(options.json)
    if options.to_repeat:
        table = make_table(cases, other, [], {})
        doubtful = {name for name in table.doubtful if "mesh2x2" not in name}  # which two ranks don't have
        if options.undecided:
            doubtful = {name for name in doubtful if name in table.missing or 0 < cases[name].least_runs() < 3}
        if doubtful:
            print(f"^({'|'.join(sorted(doubtful))})/[^/]*$")
        return 0
    if options.to_count:
        for name in slow_transposes(cases):
            print(f"{name}\t^{name}/shard_shared(|_adjoint)$\t{cases[name].tuning['shard_shared']}")
        return 0
    counts = {}
    if options.counts:
        with open(options.counts) as f:
            counts = {entry["name"]: entry for entry in map(json.loads, f)}
    table = make_table(cases, other, options.yardstick, counts)
    table.print(sys.stdout, False)
    print_apart(cases, sys.stdout)
    if options.markdown:
        with open(options.markdown, "w") as out:
            table.print(out, True)
    if options.points:
        write_points(cases, options.points)
    missed = table.missed()
    if missed:
        print(f"\n{len(missed)} of {len(table.rows)} rows are missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
