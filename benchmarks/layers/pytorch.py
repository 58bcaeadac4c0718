#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""pytorch.py [--seconds S]: the cases of benchmarks/layers by PyTorch, NCHW, one thread.

Reads names of cases from standard input and answers each with one line of JSON, as the program
`layers` does. Without PyTorch it says so and ends with status 3.
"""
import argparse
import json
import re
import sys
import time

try:
    import torch
except ImportError:
    print("pytorch.py: PyTorch is not installed", file=sys.stderr)
    sys.exit(3)

NAME = re.compile(r"(conv|conv_transpose)/(float|double)/(\d+)x(\d+)x(\d+)/k(\d+)s(\d+)p(\d+)")


def seconds_of(least, call):
    call()
    times = []
    begin = time.process_time()
    while len(times) < 5 or time.process_time() - begin < least:
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def time_case(name, least):
    op, kind, *numbers = NAME.fullmatch(name).groups()
    channels, rows, columns, k, s, p = map(int, numbers)
    module = torch.nn.Conv2d if op == "conv" else torch.nn.ConvTranspose2d
    layer = module(channels, channels, k, stride=s, padding=p).to(getattr(torch, kind))
    x = torch.rand(1, channels, rows, columns, dtype=getattr(torch, kind), requires_grad=True)
    y = layer(x)
    dy = torch.rand_like(y)

    def forward():
        with torch.no_grad():
            layer(x)

    def backward():
        torch.autograd.grad(y, (x, layer.weight, layer.bias), dy, retain_graph=True)

    return {"forward": seconds_of(least, forward), "backward": seconds_of(least, backward)}


parser = argparse.ArgumentParser()
parser.add_argument("--seconds", type=float, default=0.3)
least = parser.parse_args().seconds
torch.set_num_threads(1)
print(torch.__version__, flush=True)
for line in sys.stdin:
    print(json.dumps(time_case(line.strip(), least)), flush=True)
