#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""pytorch.py [--seconds S] [--device cuda] [--tf32] [--bf16]: the cases of benchmarks/layers by PyTorch, NCHW,
one thread of a host or one GPU.

Reads names of cases from standard input and answers each with one line of JSON, as the program
`layers` does: an empty one where this PyTorch lacks the operation. Without PyTorch it says so and
ends with status 3.
"""
import argparse
import json
import math
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
    """As the program `layers`: on a host the fastest call in processor time, on a GPU batches by the clock."""
    call()
    if options.device == "cpu":
        times = []
        begin = time.process_time()
        while len(times) < 3 or time.process_time() - begin < least:
            start = time.process_time()
            call()
            times.append(time.process_time() - start)
        return min(times)

    def batch(count):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            call()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / count

    batch(2)
    count = max(1, min(100, int(least / 5 / batch(1))))
    return sorted(batch(count) for _ in range(5))[2]


def tensor(*shape):
    return (torch.rand(*shape) * 2 - 1).requires_grad_()


def numbers(text):
    return [int(n) for n in re.findall(r"\d+", text)]


def attend(q, k, v, causal=False, bias=None, scale=None):
    """Of [..., tokens, features]."""
    shared = {"enable_gqa": True} if q.shape[-3] != k.shape[-3] else {}
    if shared or hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=causal, scale=scale, **shared)
    scores = q @ k.transpose(-1, -2) * (scale or q.shape[-1] ** -0.5)
    if bias is not None:
        scores = scores + bias
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, -float("inf"))
    return torch.softmax(scores, -1) @ v


def windows(side, heads, shift=0, grid=False, table=None, logs=None, mask=None):
    """table: Swin's, [(2 side - 1)^2, heads]; logs: logit_scale of scaled cosine attention; mask:
    [windows, 1, side^2, side^2]."""
    place = torch.arange(side)
    offset = place[:, None] - place[None, :] + side - 1  # [i, j]
    of_table = (offset[:, None, :, None] * (2 * side - 1) + offset[None, :, None, :]).reshape(-1)

    def attention(q, k, v):
        n, c, rows, columns = q.shape
        d, h, w = c // heads, rows // side, columns // side

        def cut(t):
            heads = t.shape[1] // d
            if shift:
                t = torch.roll(t, (-shift, -shift), (2, 3))
            if grid:
                return t.reshape(n, heads, d, side, h, side, w).permute(0, 4, 6, 1, 3, 5, 2).reshape(-1, heads, side**2, d)
            return t.reshape(n, heads, d, h, side, w, side).permute(0, 3, 5, 1, 4, 6, 2).reshape(-1, heads, side**2, d)

        tokens, scale = [cut(t) for t in (q, k, v)], None
        if logs is not None:
            tokens[0] = F.normalize(tokens[0], dim=-1) * logs.clamp(max=math.log(100)).exp()
            tokens[1], scale = F.normalize(tokens[1], dim=-1), 1.0
        bias = mask if table is None else table[of_table].reshape(side**2, side**2, heads).permute(2, 0, 1)[None]
        y = attend(*tokens, bias=bias, scale=scale).reshape(n, h, w, heads, side, side, d)
        y = y.permute(0, 3, 6, 4, 1, 5, 2) if grid else y.permute(0, 3, 6, 1, 4, 2, 5)
        y = y.reshape(n, c, rows, columns)
        return torch.roll(y, (shift, shift), (2, 3)) if shift else y

    return attention


def neighbours(side, heads):
    """Neighbourhoods by gathered keys; the last dimension is periodic."""
    def attention(q, k, v):
        n, c, rows, columns = q.shape
        first = (torch.arange(rows) - side // 2).clamp(0, rows - side)
        down = first[:, None] + torch.arange(side)
        along = (torch.arange(columns)[:, None] + torch.arange(side) - side // 2) % columns

        def gathered(t):
            return t.reshape(heads, c // heads, rows, columns)[:, :, down[:, None, :, None], along[None, :, None, :]].flatten(4)

        scores = torch.einsum("hfij,hfijt->hijt", q.reshape(heads, c // heads, rows, columns), gathered(k))
        weights = torch.softmax(scores * (c // heads) ** -0.5, -1)
        return torch.einsum("hijt,hfijt->hfij", weights, gathered(v)).reshape(q.shape)

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


class ChannelRMSNorm(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm = nn.RMSNorm(c)

    def forward(self, x):
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def rotate(x, halves):
    """Rotary embedding of 4 heads along the last dimension of [batch, channel, rows, columns]."""
    n, c, rows, columns = x.shape
    d = c // 4
    angle = torch.arange(columns) * (10000.0 ** (torch.arange(d // 2) * (-2.0 / d)))[:, None]
    sine, cosine = angle.sin()[:, None], angle.cos()[:, None]
    heads = x.reshape(n, 4, *((2, d // 2) if halves else (d // 2, 2)), rows, columns)
    a, b = heads.unbind(2 if halves else 3)
    return torch.stack([a * cosine - b * sine, b * cosine + a * sine], 2 if halves else 3).reshape(x.shape)


def crps(x, target):
    """The fair score of members in the batch."""
    m = x.shape[0]
    pairs = (x[:, None] - x[None]).abs().sum((0, 1))
    return ((x - target).abs().mean(0) - pairs / (2 * m * (m - 1))).mean()


def energy_score(x, target):
    """The fair score of whole maps, of members in the batch."""
    m = x.shape[0]
    maps, goal = x.reshape(m, -1), target.reshape(1, -1)
    scale = maps.shape[1] ** -0.5
    first, second = torch.triu_indices(m, m, 1)
    pairs = (maps[first] - maps[second]).norm(dim=1).sum()
    return scale * ((maps - goal).norm(dim=1).mean() - pairs / (m * (m - 1)))


def gates_case(op, extents):
    """Of products, gated units, embeddings, scores: function, inputs, parameters."""
    x, c = tensor(*extents), extents[1]
    target = torch.rand(1, *extents[1:])
    modulate = lambda x, scale, shift: F.layer_norm(x.permute(0, 2, 3, 1), (c,)).permute(0, 3, 1, 2) * (1 + scale) + shift
    half = lambda f: lambda x: (lambda a, b: a * f(b))(*x.chunk(2, 1))
    gate = lambda: tensor(1, c, 1, 1)
    points, nodes = extents[2] * extents[3], 64
    pool = lambda x, w: torch.einsum("bcn,kn->bck", x.flatten(2), w)
    unpool = lambda s, w: torch.einsum("bck,nk->bcn", s, w)
    return {
        "pool_to_nodes": (pool, [x, tensor(nodes, points)]),
        "unpool_from_nodes": (unpool, [tensor(extents[0], c, nodes), tensor(points, nodes)]),
        "multiply": (torch.mul, [x, tensor(*extents)]), "multiply_gate": (torch.mul, [x, gate()]),
        "layer_scale": (torch.mul, [x, gate()]), "glu": (lambda x: F.glu(x, 1), [x]),
        "swiglu": (half(F.silu), [x]), "geglu": (half(F.gelu), [x]),
        "ada_layer_norm": (modulate, [x, gate(), gate()]), "rotary": (lambda x: rotate(x, False), [x]),
        "rotary_halves": (lambda x: rotate(x, True), [x]), "crps": (lambda x: crps(x, target), [x]),
        "energy_score": (lambda x: energy_score(x, target), [x]),
        "drop_path": (lambda x: x * (torch.rand(x.shape[0], 1, 1, 1) > 0.1) / 0.9, [x])}.get(op)


def field_case(op, extents):
    """Of layers of one field: function, inputs, parameters."""
    target = torch.rand(*extents)
    plain = {
        "relu": F.relu, "leaky_relu": F.leaky_relu, "silu": F.silu, "gelu": F.gelu, "gelu_fast": F.gelu, "tanh": torch.tanh,
        "sigmoid": torch.sigmoid, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "softmax": lambda x: F.softmax(x, 1), "softmax_rows": lambda x: F.softmax(x, 2),
        "softmax_columns": lambda x: F.softmax(x, 3), "dropout": lambda x: F.dropout(x, 0.1),
        "roll": lambda x: torch.roll(x, 20, 3), "flip": lambda x: x.flip(2), "flip_columns": lambda x: x.flip(3),
        "slice": lambda x: x[:, :, 40:140].clone(), "slice_by_2": lambda x: x[:, :, ::2].clone(),
        "index_select": lambda x: torch.index_select(x, 2, torch.arange(181) * 37 % 181),
        "cumulative_sum": lambda x: torch.cumsum(x, 2), "cumulative_sum_columns": lambda x: torch.cumsum(x, 3),
        "variance": lambda x: torch.var(x),
        "mean_square": lambda x: F.mse_loss(x, target), "mean_absolute": lambda x: F.l1_loss(x, target),
        "huber": lambda x: F.huber_loss(x, target, delta=0.5)}
    if op in plain:
        return plain[op], [tensor(*extents)], []
    gates = gates_case(op, extents)
    if gates is not None:
        return *gates, []
    modules = {"group_norm": nn.GroupNorm(32, 64), "batch_norm": nn.BatchNorm2d(64), "layer_norm": ChannelNorm(64),
               "rms_norm": ChannelRMSNorm(64),
               "instance_norm": nn.InstanceNorm2d(64, affine=True), "layer_norm_all": nn.GroupNorm(1, 64),
               "layer_norm_elementwise": nn.LayerNorm(extents[1:])}
    return (modules[op], [tensor(*extents)], list(modules[op].parameters())) if op in modules else None


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
    extents, by = numbers(shape), numbers(detail) or [0]  # none: an operation that PyTorch lacks
    if shape == "-" or len(extents) == 4:
        return field_case(op, extents or FIELD)
    if op == "matrix":
        layer = nn.Linear(extents[0], extents[1])
        return layer, [tensor(1, extents[2], extents[0])], list(layer.parameters())
    if op == "crossformer_block":
        layer = Block(extents[0])
        return layer, [tensor(1, *extents)], list(layer.parameters())
    attentions = {"windows10": windows(10, by[0]), "windows16": windows(16, by[0]), "shifted8": windows(8, by[0], 4), "grid10": windows(10, by[0], grid=True),
                  "ring": ring(by[0], False), "ring_causal": ring(by[0], True)}
    if op == "biased10":
        table = tensor((2 * 10 - 1) ** 2, by[0])
        return windows(10, by[0], table=table), [tensor(1, *extents) for _ in range(3)], [table]
    if op == "shared10":  # 2 heads of keys and values
        keys = [extents[0] // by[0] * 2, *extents[1:]]
        return windows(10, by[0]), [tensor(1, *e) for e in (extents, keys, keys)], []
    if op == "masked10":
        mask = (torch.arange(extents[1] * extents[2] * 100) % 5).to(torch.get_default_dtype())
        mask[::7] = -float("inf")
        return windows(10, by[0], mask=mask.reshape(-1, 1, 100, 100)), [tensor(1, *extents) for _ in range(3)], []
    if op == "neighbours7":
        return neighbours(7, by[0]), [tensor(1, *extents) for _ in range(3)], []
    if op == "cosine8":
        logs = torch.full((by[0], 1, 1), math.log(10.0)).requires_grad_()
        return windows(8, by[0], logs=logs), [tensor(1, *extents) for _ in range(3)], [logs]
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


class UNet(nn.Module):
    """The network of training.cpp."""

    def __init__(self, channels, w):
        super().__init__()
        unit = lambda i, o, stride=1: nn.Sequential(nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.GroupNorm(4, o), nn.SiLU())
        self.enter, self.refine = unit(channels, w), unit(w, w)
        self.down1, self.refine1 = unit(w, 2 * w, 2), unit(2 * w, 2 * w)
        self.down2, self.refine2 = unit(2 * w, 4 * w, 2), unit(4 * w, 4 * w)
        self.up2 = nn.ConvTranspose2d(4 * w, 2 * w, 3, 2, 1)
        self.merge1 = unit(4 * w, 2 * w)
        self.up1 = nn.ConvTranspose2d(2 * w, w, 3, 2, 1)
        self.merge, self.head = unit(2 * w, w), nn.Conv2d(w, channels, 1)

    def forward(self, x):
        fine = self.refine(self.enter(x))
        middle = self.refine1(self.down1(fine))
        up = self.up2(self.refine2(self.down2(middle)), output_size=middle.shape[2:])
        up = self.up1(self.merge1(torch.cat([middle, up], 1)), output_size=fine.shape[2:])
        return x + self.head(self.merge(torch.cat([fine, up], 1)))


def u_net(extents):
    net = UNet(extents[0], 64)
    adam = torch.optim.Adam(net.parameters(), lr=1e-6)
    x, target = torch.rand(1, *extents), torch.rand(1, *extents)

    def step():
        adam.zero_grad()
        F.mse_loss(net(x), target).backward()
        adam.step()

    return without_gradients(lambda: net(x)), step


def faces(extents, dim):
    """Both halo faces of a dimension, in a field with a halo of 1, and the adjoint."""
    n = extents[dim]
    x = torch.rand([m + 2 * (d == dim) for d, m in enumerate(extents)])
    pairs = (x.select(dim, 0), x.select(dim, n)), (x.select(dim, n + 1), x.select(dim, 1))

    def exchange():
        for halo, owned in pairs:
            halo.copy_(owned)

    def adjoint():
        for halo, owned in pairs:
            owned.add_(halo)
            halo.zero_()

    return exchange, adjoint


def sparse_product(n):
    """The five-point Laplacian of a square; its transpose is a matrix of its own."""
    i = torch.arange(n * n)
    near = [(i >= n, i - n, -1.0), (i % n > 0, i - 1, -1.0), (i >= 0, i, 4.0), (i % n < n - 1, i + 1, -1.0),
            (i < n * (n - 1), i + n, -1.0)]
    rows = torch.cat([i[there] for there, _, _ in near])
    columns = torch.cat([j[there] for there, j, _ in near])
    values = torch.cat([torch.full((int(there.sum()),), v) for there, _, v in near])
    make = lambda r, c: torch.sparse_coo_tensor(torch.stack([r, c]), values, (n * n, n * n)).coalesce().to_sparse_csr()
    a, transpose, x = make(rows, columns), make(columns, rows), torch.rand(n * n)
    return lambda: a @ x, lambda: transpose @ x


def stencil(extents):
    levels, rows, columns = extents
    x, y = torch.rand(levels, rows + 2, columns + 2), torch.rand(levels, rows + 2, columns + 2)
    up, down, left, right = x[:, :-2, 1:-1], x[:, 2:, 1:-1], x[:, 1:-1, :-2], x[:, 1:-1, 2:]
    return lambda: torch.mul(up + down + left + right, 0.25, out=y[:, 1:-1, 1:-1]), None


def copy_and_dot(extents):
    x, y = torch.rand(*extents), torch.rand(*extents)
    return lambda: y.copy_(x), lambda: torch.dot(x.view(-1), y.view(-1)).item()


def without_gradients(call):
    def quiet():
        with torch.no_grad():
            call()

    return quiet


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
    extents = numbers(shape)
    whole = {"training_step": lambda: training_step(extents), "u_net": lambda: u_net(extents),
             "halo_faces": lambda: faces(extents, numbers(detail)[0]), "stencil": lambda: stencil(extents),
             "sparse_product": lambda: sparse_product(extents[0]), "copy_dot": lambda: copy_and_dot(extents)}
    if op == "normal":
        y = torch.empty(FIELD)
        return {"forward": seconds_of(least, y.normal_)}
    calls = whole[op]() if op in whole else optimiser_call(op)
    if calls is None:
        found = case_of(op, shape, detail)
        if found is None:
            return {}
        function, inputs, parameters = found
        y = function(*inputs)
        dy = torch.rand_like(y)
        gradient = lambda of: lambda: torch.autograd.grad(y, of, dy, retain_graph=True)
        calls = without_gradients(lambda: function(*inputs)), gradient((*inputs, *parameters))
        if op.startswith("conv"):
            calls += gradient(inputs), gradient(parameters)
    names = ("forward", "backward", "of_input", "of_parameters")
    return {name: seconds_of(least, call) for name, call in zip(names, calls) if call}


parser = argparse.ArgumentParser()
parser.add_argument("--seconds", type=float, default=0.1)
parser.add_argument("--device", default="cpu")
parser.add_argument("--tf32", action="store_true")
parser.add_argument("--bf16", action="store_true")  # autocast: it casts, with results in bfloat16
options = parser.parse_args()
torch.set_num_threads(1)
if options.device != "cpu":
    torch.set_default_device(options.device)
    torch.backends.cudnn.benchmark = True
torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = options.tf32
print(torch.__version__, flush=True)
for line in sys.stdin:
    with torch.autocast(options.device.split(":")[0], torch.bfloat16, enabled=options.bf16):
        print(json.dumps(time_case(line.strip(), options.seconds)), flush=True)
