#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""counts.py NAME CALLGRIND_FILE...

What the ranks' forward exchanges and transposes did, as callgrind counted it, in a line of JSON for table.py:
stores, and lines of memory that a cache of the first level fetched or wrote back. Nothing of a direction that
didn't run.
"""
import json
import re
import subprocess
import sys


def counts_of(file):
    """{direction: {event: count}} of one rank's file."""
    text = subprocess.run(["callgrind_annotate", "--inclusive=yes", "--threshold=100", file], check=True,
                          capture_output=True, text=True).stdout
    events = re.search(r"^Events shown:\s+(.*)$", text, re.M).group(1).split()
    found = {}
    for direction in ("forward", "adjoint"):
        line = re.search(rf"^(.*):\S*timed_{direction}\(", text.replace("(anonymous namespace)", "anonymous"), re.M)
        if not line:
            continue
        # a number each, with its share in brackets
        numbers = re.findall(r"([\d,]+) \([^)]*\)", line.group(1))
        found[direction] = dict(zip(events, (int(n.replace(",", "")) for n in numbers)))
    if not found:
        sys.exit(f"counts.py: no count of timed_forward or timed_adjoint in {file}")
    return found


def main():
    name, files = sys.argv[1], sys.argv[2:]
    ranks = [counts_of(file) for file in files]
    entry = {"name": name}
    for direction in ranks[0]:
        def total(*events):
            return sum(rank[direction][event] for rank in ranks for event in events)

        entry[direction] = {"stores": total("Dw"), "lines": total("DLmr", "DLmw", "DLdmr", "DLdmw")}
    print(json.dumps(entry))


if __name__ == "__main__":
    main()
