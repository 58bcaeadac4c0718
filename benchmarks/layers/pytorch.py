#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""pytorch.py [--seconds S]: the cases of benchmarks/layers by PyTorch, NCHW, one thread.

Reads names of cases from standard input and answers each with one line of JSON, as the program
`layers` does: an empty one where this PyTorch lacks the operation. Without PyTorch it says so and
ends with status 3.
"""
import argparse
import json
import re
import sys
import time

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    print("pytorch.py: PyTorch is not installed", file=sys.stderr)
    sys.exit(3)

FIELD = (1, 64, 181, 360)


def seconds_of(least, call):
    call()
    times = []
    begin = time.process_time()
    while len(times) < 3 or time.process_time() - begin < least:
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def tensor(*shape):
    return (torch.rand(*shape) * 2 - 1).requires_grad_()


def numbers(text):
    return [int(n) for n in re.findall(r"\d+", text)]


def attend(q, k, v, causal=False):
    """Of [..., tokens, features]."""
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, -float("inf"))
    return torch.softmax(scores, -1) @ v


def windows(side, heads, shift=0, grid=False):
    def attention(q, k, v):
        n, c, rows, columns = q.shape
        d, h, w = c // heads, rows // side, columns // side

        def cut(t):
            if shift:
                t = torch.roll(t, (-shift, -shift), (2, 3))
            if grid:
                return t.reshape(n, heads, d, side, h, side, w).permute(0, 4, 6, 1, 3, 5, 2).reshape(-1, heads, side**2, d)
            return t.reshape(n, heads, d, h, side, w, side).permute(0, 3, 5, 1, 4, 6, 2).reshape(-1, heads, side**2, d)

        y = attend(cut(q), cut(k), cut(v)).reshape(n, h, w, heads, side, side, d)
        y = y.permute(0, 3, 6, 4, 1, 5, 2) if grid else y.permute(0, 3, 6, 1, 4, 2, 5)
        y = y.reshape(n, c, rows, columns)
        return torch.roll(y, (shift, shift), (2, 3)) if shift else y

    return attention


def ring(heads, causal):
    def attention(q, k, v):
        cut = lambda t: t.reshape(1, heads, t.shape[1] // heads, t.shape[2]).transpose(-1, -2)
        return attend(cut(q), cut(k), cut(v), causal).transpose(-1, -2).reshape(q.shape)

    return attention


class ChannelNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n, self.m = ChannelNorm(c), ChannelNorm(c)
        self.q, self.k, self.v, self.p = (nn.Conv2d(c, c, 1) for _ in range(4))
        self.u, self.d = nn.Conv2d(c, 4 * c, 1), nn.Conv2d(4 * c, c, 1)

    def forward(self, x):
        n = self.n(x)
        y = x + self.p(windows(10, 4)(self.q(n), self.k(n), self.v(n)))
        return y + self.d(F.gelu(self.u(self.m(y))))


def earth(x, by):
    turn = x.shape[3] // 2
    low, high = (torch.roll(part.flip(2), turn, 3) for part in (x[:, :, :by], x[:, :, -by:]))
    return F.pad(torch.cat([low, x, high], 2), (by, by, 0, 0), mode="circular")


def affine_norm(function, shape):
    weight, bias = nn.Parameter(torch.ones(shape)), nn.Parameter(torch.zeros(shape))
    return function, [tensor(*FIELD)], [weight, bias]


def field_case(op):
    """Of layers of one field: function, inputs, parameters."""
    target = torch.rand(*FIELD)
    plain = {
        "relu": F.relu, "leaky_relu": F.leaky_relu, "silu": F.silu, "gelu": F.gelu, "tanh": torch.tanh,
        "sigmoid": torch.sigmoid, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "softmax": lambda x: F.softmax(x, 1), "softmax_rows": lambda x: F.softmax(x, 2),
        "softmax_columns": lambda x: F.softmax(x, 3), "dropout": lambda x: F.dropout(x, 0.1),
        "mean_square": lambda x: F.mse_loss(x, target), "mean_absolute": lambda x: F.l1_loss(x, target),
        "huber": lambda x: F.huber_loss(x, target, delta=0.5)}
    if op in plain:
        return plain[op], [tensor(*FIELD)], []
    modules = {"group_norm": nn.GroupNorm(32, 64), "batch_norm": nn.BatchNorm2d(64), "layer_norm": ChannelNorm(64),
               "instance_norm": nn.InstanceNorm2d(64, affine=True), "layer_norm_all": nn.GroupNorm(1, 64),
               "layer_norm_elementwise": nn.LayerNorm(FIELD[1:])}
    return (modules[op], [tensor(*FIELD)], list(modules[op].parameters())) if op in modules else None


class CrossEmbed(nn.Module):
    def __init__(self, channels, kernels, stride):
        super().__init__()
        self.branches = nn.ModuleList(
            nn.Conv2d(channels, channels // len(kernels), k, stride, (k - stride) // 2) for k in kernels)

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


class PeriodicConv(nn.Conv2d):
    def forward(self, x):
        return super().forward(F.pad(F.pad(x, (0, 0, 1, 1), mode="reflect"), (1, 1, 0, 0), mode="circular"))


def window_case(op, shape, detail):
    of = {key: int(n) for key, n in re.findall(r"([kspg])(\d+)", detail)}
    both, *space = shape.split("x")
    channels, out = (numbers(both) * 2)[:2]
    if op == "periodic_conv":
        layer = PeriodicConv(channels, out, of["k"])
        return layer, [tensor(1, channels, *map(int, space))], list(layer.parameters())
    if op == "cross_embed":
        layer = CrossEmbed(channels, [int(k) for k in re.findall(r"k(\d+)", detail)], of["s"])
        return layer, [tensor(1, channels, *map(int, space))], list(layer.parameters())
    module = {"conv": nn.Conv2d, "conv3": nn.Conv3d, "conv_transpose": nn.ConvTranspose2d}[op]
    layer = module(channels, out, of["k"], stride=of["s"], padding=of["p"], groups=of.get("g", 1))
    return layer, [tensor(1, channels, *map(int, space))], list(layer.parameters())


def case_of(op, shape, detail):
    if op in ("conv", "conv3", "conv_transpose", "periodic_conv", "cross_embed"):
        return window_case(op, shape, detail)
    if shape == "-":
        return field_case(op)
    extents, by = numbers(shape), numbers(detail)
    if op == "matrix":
        layer = nn.Linear(extents[0], extents[1])
        return layer, [tensor(1, extents[2], extents[0])], list(layer.parameters())
    if op == "crossformer_block":
        layer = Block(extents[0])
        return layer, [tensor(1, *extents)], list(layer.parameters())
    attentions = {"windows10": windows(10, by[0]), "shifted8": windows(8, by[0], 4), "grid10": windows(10, by[0], grid=True),
                  "ring": ring(by[0], False), "ring_causal": ring(by[0], True)}
    if op in attentions:
        return attentions[op], [tensor(1, *extents) for _ in range(3)], []
    scale = float(detail[1:]) if detail[0] == "x" else 1
    modes = {"linear": "bilinear", "cubic": "bicubic", "nearest": "nearest", "area": "area"}
    functions = {"avg_pool": lambda x: F.avg_pool2d(x, *by), "max_pool": lambda x: F.max_pool2d(x, *by),
                 "pixel_shuffle": lambda x: F.pixel_shuffle(x, by[0]),
                 "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, by[0]), "earth_pad": lambda x: earth(x, by[0]),
                 "unpad": lambda x: x[:, :, by[0]:-by[0], by[0]:-by[0]].contiguous()}
    if op in modes:
        return lambda x: F.interpolate(x, scale_factor=scale, mode=modes[op]), [tensor(1, *extents)], []
    return (functions[op], [tensor(1, *extents)], []) if op in functions else None


def training_step(shape):
    unit = lambda i, o: (nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(8, o), nn.SiLU())
    model = nn.Sequential(*unit(4, 64), *unit(64, 64), nn.Conv2d(64, 4, 1))
    x, target = torch.rand(1, *shape), torch.rand(1, *shape)
    adam = torch.optim.Adam(model.parameters())

    def step():
        adam.zero_grad()
        F.mse_loss(model(x), target).backward()
        adam.step()

    return step, step


def optimiser_call(op):
    values = nn.Parameter(torch.rand(16000000))
    values.grad = torch.rand(16000000)
    if op == "gradient_norm":
        return lambda: torch.linalg.vector_norm(values.grad).item(), lambda: nn.utils.clip_grad_norm_([values], 1.0)
    make = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": lambda p: torch.optim.SGD(p, lr=1e-3),
            "sgd_momentum": lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9)}.get(op)
    if make is None:
        return None
    try:
        step = make([values], fused=True).step
        step()
    except (TypeError, RuntimeError):
        step = make([values]).step
    return step, step


def time_case(name, least):
    op, kind, shape, detail = (name.split("/") + ["-"])[:4]
    torch.set_default_dtype(getattr(torch, kind))
    calls = training_step(numbers(shape)) if op == "training_step" else optimiser_call(op)
    if calls is None:
        found = case_of(op, shape, detail)
        if found is None:
            return {}
        function, inputs, parameters = found
        y = function(*inputs)
        dy = torch.rand_like(y)

        def forward():
            with torch.no_grad():
                function(*inputs)

        def backward():
            torch.autograd.grad(y, (*inputs, *parameters), dy, retain_graph=True)

        calls = forward, backward
    return {"forward": seconds_of(least, calls[0]), "backward": seconds_of(least, calls[1])}


parser = argparse.ArgumentParser()
parser.add_argument("--seconds", type=float, default=0.1)
least = parser.parse_args().seconds
torch.set_num_threads(1)
print(torch.__version__, flush=True)
for line in sys.stdin:
    print(json.dumps(time_case(line.strip(), least)), flush=True)
