#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""gloo.py [--quick]

The zigzag all-to-all and the transpose of benchmarks/redistribute by PyTorch with gloo, two
processes of one thread each. Prints Google Benchmark's JSON; of each process the median of its
calls, of those the largest. Without PyTorch it says so and ends well.
"""
import json
import os
import statistics
import sys
import time

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
except ImportError:
    sys.exit(print("gloo.py: skipped, PyTorch is not installed", file=sys.stderr))

RANKS = 2


def zigzag(chunks):
    return [i // 2 if i % 2 == 0 else chunks - 1 - i // 2 for i in range(chunks)]


def all_to_all(x):
    y = torch.empty_like(x)
    dist.all_to_all_single(y, x)
    return y


def split_to_full(x):
    b, c, n = x.shape
    blocks = x.view(b, RANKS, c // RANKS, n).permute(1, 0, 2, 3).contiguous()
    y = all_to_all(blocks).permute(1, 2, 0, 3).reshape(b, c // RANKS, 2 * RANKS, -1)
    order = zigzag(2 * RANKS)
    inverse = [order.index(i) for i in range(2 * RANKS)]
    return y[:, :, inverse].reshape(b, c // RANKS, -1)


def full_to_split(x):
    b, c, n = x.shape
    y = x.view(b, c, 2 * RANKS, -1)[:, :, zigzag(2 * RANKS)]
    y = y.reshape(b, c, RANKS, n // RANKS).permute(2, 0, 1, 3).contiguous()
    return all_to_all(y).permute(1, 0, 2, 3).reshape(b, c * RANKS, n // RANKS)


def transpose(x):
    """[a, b / P, c] -> [a, b, c / P]"""
    a, b, c = x.shape
    blocks = x.view(a, b, RANKS, c // RANKS).permute(2, 0, 1, 3).contiguous()
    return all_to_all(blocks).permute(1, 0, 2, 3).reshape(a, b * RANKS, c // RANKS)


def work(rank, quick, port):
    # libuv is not in every build of PyTorch, and does not matter to what is timed
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), USE_LIBUV="0")
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    torch.set_num_threads(1)
    calls = 3 if quick else 31
    channels, length = (24, 96) if quick else (64, 65536)
    field = (7, 12, 48) if quick else (721, 720, 64)
    name = f"1x{channels}x{length}"
    split = torch.rand(1, channels, length // RANKS)
    full = split_to_full(split)
    assert torch.equal(full_to_split(full), split)
    cases = [
        (f"split_to_full/{name}", split_to_full, split),
        (f"full_to_split/{name}", full_to_split, full),
        (f"transpose/{field[0]}x{2 * field[1]}x{field[2]}/cut1to2", transpose, torch.rand(field)),
    ]
    results = []
    for case, call, x in cases:
        times = []
        for i in range(-2, calls):
            dist.barrier()
            begin = time.perf_counter()
            call(x)
            if i >= 0:
                times.append((time.perf_counter() - begin) * 1e6)
        most = torch.tensor([statistics.median(times)], dtype=torch.float64)
        dist.all_reduce(most, op=dist.ReduceOp.MAX)
        results.append({"name": f"{case}/gloo", "run_type": "iteration", "iterations": calls,
                        "real_time": most.item(), "cpu_time": most.item(), "time_unit": "us"})
    if rank == 0:
        print(json.dumps({"context": {"executable": "gloo.py", "ranks": RANKS,
                                      "torch": torch.__version__}, "benchmarks": results}, indent=1))
    dist.destroy_process_group()


if __name__ == "__main__":
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    if sys.argv[1:] not in ([], ["--quick"]):
        sys.exit(f"usage: gloo.py [--quick], not {sys.argv[1:]}")
    mp.spawn(work, args=("--quick" in sys.argv, number), nprocs=RANKS)
