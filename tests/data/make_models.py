#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes models/NAME.safetensors: models in plain PyTorch, in float64, beside which tests/models runs
those of examples/models: weights (float32 numbers) as state_dict names them, inputs
("example.input", ...), the output, and for dJ/dy = "example.dy" the gradients of inputs
("example.dinput") and of all weights: "gradient.NAME" has the sums of its products with cos(k (i +
1/2)), k = 1 to 8, i the number of a weight. Needs PyTorch."""
import importlib.abc
import importlib.machinery
import json
import math
import pathlib
import struct
import sys
import types

import torch
from torch import nn
from torch.nn import functional as F

torch.set_default_dtype(torch.float64)


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands for packages that a published module imports and that its function doesn't need."""

    class Stub(types.ModuleType):
        __path__ = []

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return nn.Identity

    def __init__(self, *names):
        self.names = names
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path, target=None):
        if any(name == n or name.startswith(n + ".") for n in self.names):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return Stubs.Stub(spec.name)

    def exec_module(self, module):
        pass


def rounded(x):
    return x.to(torch.float32).to(torch.float64)


def save(name, net, inputs, loss=None, extra=None, unused=()):
    """inputs: dict of tensors; loss: of the output, else the product with a random dy."""
    torch.manual_seed(11)
    with torch.no_grad():
        for key, p in net.named_parameters():
            p.copy_(rounded(p + (0.2 * torch.randn_like(p) if p.numel() == max(p.shape) else 0.0)))
    inputs = {k: rounded(v).requires_grad_() for k, v in inputs.items()}
    y = net(*inputs.values())
    arrays = {k: p for k, p in net.named_parameters() if k not in unused}
    arrays |= {f"example.{k}": v for k, v in (inputs | (extra or {})).items()}
    if loss is None:
        dy = rounded(torch.randn_like(y))
        arrays["example.dy"] = dy
        y.backward(dy)
    else:
        j = loss(y)
        arrays["example.loss"] = j.reshape(1)
        j.backward()
    singles = set(arrays) - {"example.loss"}
    arrays["example.output"] = y
    arrays |= {f"example.d{k}": v.grad for k, v in inputs.items() if v.grad is not None}
    for key, p in net.named_parameters():
        if p.grad is not None:
            i = torch.arange(p.numel()) + 0.5
            arrays[f"gradient.{key}"] = torch.stack([(p.grad.reshape(-1) * (k * i).cos()).sum() for k in range(1, 9)])
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for key, a in arrays.items():
        code, kind = ("f", "F32") if key in singles else ("d", "F64")
        raw = struct.pack(f"<{a.numel()}{code}", *a.detach().reshape(-1).tolist())
        header[key] = {"dtype": kind, "shape": list(a.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path = pathlib.Path(__file__).with_name("models") / f"{name}.safetensors"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    count = sum(p.numel() for p in net.parameters())
    print(name, torch.__version__, count, "parameters", path.stat().st_size, "bytes", y.abs().max().item())


# a vision transformer: tokens are patches, rotary embedding along both dimensions, SwiGLU


def rotate(x, dim):
    """The pairs (2i, 2i + 1) of x [B, heads, features, H, W], by the position in a dimension."""
    n = x.shape[2]
    position = torch.arange(x.shape[dim]).reshape([-1 if d == dim else 1 for d in range(5)])
    angle = position * (10000.0 ** (-torch.arange(0, n, 2) / n)).reshape(1, 1, -1, 1, 1)
    a, b = x[:, :, 0::2], x[:, :, 1::2]
    return torch.stack([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], 3).flatten(2, 3)


def attend(q, k, v, heads):
    """All points to all points. Fields [B, heads x features, H, W]."""
    split = lambda x: x.unflatten(1, (heads, -1)).flatten(3).transpose(2, 3)
    y = F.scaled_dot_product_attention(split(q), split(k), split(v))
    return y.transpose(2, 3).reshape(q.shape)


class RotaryAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.proj = (nn.Conv2d(dim, dim, 1) for _ in range(4))

    def turned(self, x):
        x = x.unflatten(1, (self.heads, -1))
        half = x.shape[2] // 2
        return torch.cat([rotate(x[:, :, :half], 3), rotate(x[:, :, half:], 4)], 2).flatten(1, 2)

    def forward(self, x):
        return self.proj(attend(self.turned(self.q(x)), self.turned(self.k(x)), self.v(x), self.heads))


class RMSNorm(nn.RMSNorm):
    def forward(self, x):
        return super().forward(x.movedim(1, -1)).movedim(-1, 1)


class SwiGLU(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w12, self.w3 = nn.Conv2d(dim, 2 * hidden, 1), nn.Conv2d(hidden, dim, 1)

    def forward(self, x):
        a, b = self.w12(x).chunk(2, 1)
        return self.w3(F.silu(a) * b)


class ViTBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.attn = RMSNorm(dim, eps=1e-6), RotaryAttention(dim, heads)
        self.norm2, self.mlp = RMSNorm(dim, eps=1e-6), SwiGLU(dim, 2 * dim)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, 16, 4, stride=4)
        self.blocks = nn.ModuleList([ViTBlock(16, 2) for _ in range(2)])
        self.norm, self.head = RMSNorm(16, eps=1e-6), nn.Conv2d(16, 3 * 16, 1)

    def forward(self, x):
        h = self.patch_embed(x)
        for block in self.blocks:
            h = block(h)
        return F.pixel_shuffle(self.head(self.norm(h)), 4)


# the U-Net of a diffusion model: noise level in, as scale and shift of norms


class ResBlock(nn.Module):
    def __init__(self, cin, cout, emb):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, cin), nn.Conv2d(cin, cout, 3, padding=1)
        self.emb = nn.Conv2d(emb, 2 * cout, 1)
        self.norm2 = nn.GroupNorm(4, cout, affine=False)
        self.conv2, self.skip = nn.Conv2d(cout, cout, 3, padding=1), nn.Conv2d(cin, cout, 1)

    def forward(self, x, e):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.emb(e).chunk(2, 1)
        h = self.norm2(h) * (1 + scale) + shift
        return self.skip(x) + self.conv2(F.silu(h))


class SelfAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.GroupNorm(4, dim)
        self.q, self.k, self.v, self.proj = (nn.Conv2d(dim, dim, 1) for _ in range(4))

    def forward(self, x):
        h = self.norm(x)
        return x + self.proj(attend(self.q(h), self.k(h), self.v(h), 1))


class DiffusionUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed1, self.embed2 = nn.Conv2d(8, 16, 1), nn.Conv2d(16, 16, 1)
        self.enter = nn.Conv2d(2, 8, 3, padding=1)
        self.down1 = ResBlock(8, 8, 16)
        self.halve = nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.middle1, self.attention, self.middle2 = ResBlock(8, 12, 16), SelfAttention(12), ResBlock(12, 12, 16)
        self.twice = nn.ConvTranspose2d(12, 8, 4, stride=2, padding=1)
        self.up1 = ResBlock(16, 8, 16)
        self.norm, self.head = nn.GroupNorm(4, 8), nn.Conv2d(8, 2, 3, padding=1)

    def forward(self, x, t):
        angle = t * (10000.0 ** (-torch.arange(0, 8, 2) / 8)).reshape(1, -1, 1, 1)
        e = torch.cat([angle.cos(), angle.sin()], 1)
        e = F.silu(self.embed2(F.silu(self.embed1(e))))
        fine = self.down1(self.enter(x), e)
        low = self.middle2(self.attention(self.middle1(self.halve(fine), e)), e)
        h = self.up1(torch.cat([self.twice(low), fine], 1), e)
        return self.head(F.silu(self.norm(h)))


# an ensemble: each member has its own noise, which moves the norms of one network; fair CRPS


class Ensemble(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.noise = nn.Conv2d(2, 8, 3, padding=1), nn.Conv2d(3, 16, 1)
        self.norm = nn.GroupNorm(2, 8, affine=False)
        self.conv1, self.conv2 = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 2, 3, padding=1)

    def forward(self, x, z):
        h = self.enter(x)
        scale, shift = self.noise(z).chunk(2, 1)
        h = h + self.conv1(F.gelu(self.norm(h) * (1 + scale) + shift))
        return x + self.conv2(F.gelu(h))


def fair_crps(target, weights):
    def loss(y):
        members = y.shape[0]
        error = (y - target).abs().mean(0)
        spread = (y[:, None] - y[None]).abs().sum((0, 1)) / (2 * members * (members - 1))
        return ((error - spread) * weights.reshape(1, -1, 1)).mean() / weights.mean()

    return loss


# Pangu-Weather, small: 3D windows with earth-specific biases; tokens are [batch, level, latitude, longitude, channel]


class EarthAttention(nn.Module):
    def __init__(self, dim, heads, window, shift, extents):
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        lacks = [-n % w for n, w in zip(extents, window)]
        self.pads = [(n // 2, n - n // 2) for n in lacks]
        self.padded = [n + k for n, k in zip(extents, lacks)]
        self.count = [n // w for n, w in zip(self.padded, window)]
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        rows = window[0] ** 2 * window[1] ** 2 * (2 * window[2] - 1)
        self.earth_specific_bias = nn.Parameter(0.5 * torch.randn(rows, self.count[0] * self.count[1], heads))

    def places(self):
        """The place of each point of a window, [points, 3]."""
        return torch.stack(torch.meshgrid(*(torch.arange(w) for w in self.window), indexing="ij"), -1).reshape(-1, 3)

    def bias(self):
        i, j = self.places()[:, None], self.places()[None]
        z, y, x = self.window
        level, lat, lon = i[..., 0] + z * j[..., 0], i[..., 1] + y * j[..., 1], i[..., 2] - j[..., 2] + x - 1
        rows = (level * y * y + lat) * (2 * x - 1) + lon
        return self.earth_specific_bias[rows].permute(2, 3, 0, 1)

    def mask(self):
        """Whether two points see each other, which those across the seams of levels or latitudes don't, by type."""
        seen = True
        for d in range(2):
            apart = torch.arange(self.padded[d]) >= self.padded[d] - self.shift[d]
            side = apart.reshape(self.count[d], self.window[d])[:, self.places()[:, d]]
            same = side[:, :, None] == side[:, None]
            seen = seen & (same[:, None] if d == 0 else same[None])
        return seen.flatten(0, 1)[:, None]

    def forward(self, x):
        (z, y, w), (a, b, c) = self.window, self.count
        x = F.pad(x, (0, 0, *self.pads[2], *self.pads[1], *self.pads[0]))
        x = x.roll([-s for s in self.shift], (1, 2, 3))
        qkv = self.qkv(x).reshape(-1, a, z, b, y, c, w, 3, self.heads, x.shape[-1] // self.heads)
        qkv = qkv.permute(7, 0, 5, 1, 3, 8, 2, 4, 6, 9)
        q, k, v = qkv.flatten(6, 8).flatten(3, 4)  # [batch, window of a type, type, head, point, feature]
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + self.bias()
        h = scores.masked_fill(~self.mask(), -torch.inf).softmax(-1) @ v
        h = h.reshape(-1, c, a, b, self.heads, z, y, w, h.shape[-1]).permute(0, 2, 5, 3, 6, 1, 7, 4, 8).reshape(x.shape)
        h = h.roll(self.shift, (1, 2, 3))
        for d, (low, high) in enumerate(self.pads):
            h = h.narrow(d + 1, low, h.shape[d + 1] - low - high)
        return self.proj(h)


class MLP(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class EarthBlock(nn.Module):
    def __init__(self, dim, heads, shift, extents):
        super().__init__()
        self.attn, self.norm1 = EarthAttention(dim, heads, (2, 3, 2), shift, extents), nn.LayerNorm(dim)
        self.mlp, self.norm2 = MLP(dim, 2 * dim), nn.LayerNorm(dim)

    def forward(self, x):
        x = x + self.norm1(self.attn(x))
        return x + self.norm2(self.mlp(x))


class PatchMerging(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.reduction = nn.LayerNorm(4 * dim), nn.Linear(4 * dim, 2 * dim, bias=False)

    def forward(self, x):
        x = F.pad(x, (0, 0, 0, x.shape[3] % 2, 0, x.shape[2] % 2))
        x = x.unflatten(3, (-1, 2)).unflatten(2, (-1, 2)).transpose(3, 4)
        return self.reduction(self.norm(x.flatten(4)))


class PatchSplitting(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.lin1, self.norm = nn.Linear(dim, 2 * dim, bias=False), nn.LayerNorm(dim // 2)
        self.lin2 = nn.Linear(dim // 2, dim // 2, bias=False)

    def forward(self, x, lats, lons):
        x = self.lin1(x).unflatten(-1, (2, 2, -1)).transpose(3, 4).flatten(4, 5).flatten(2, 3)
        return self.lin2(self.norm(x[:, :, :lats, :lons]))


class Pangu(nn.Module):
    def __init__(self):
        super().__init__()
        two = (1, 2, 2), (2, 2, 2)
        self.embed_surface, self.embed_upper = (nn.Conv3d(2, 8, k, stride=k) for k in two)
        layer = lambda *options: nn.ModuleList(EarthBlock(*options[:2], s, options[2]) for s in ((0, 0, 0), (1, 1, 1)))
        self.layer1, self.downsample = layer(8, 2, (4, 7, 8)), PatchMerging(8)
        self.layer2, self.upsample = layer(16, 4, (4, 4, 4)), PatchSplitting(16)
        self.layer3 = layer(8, 2, (4, 7, 8))
        self.recover_surface, self.recover_upper = (nn.ConvTranspose3d(16, 2, k, stride=k) for k in two)

    def forward(self, x):
        patches = torch.cat([self.embed_surface(x[:, :, :1]), self.embed_upper(x[:, :, 1:])], 2).movedim(1, -1)
        skip = nn.Sequential(*self.layer1)(patches)
        h = nn.Sequential(*self.layer2)(self.downsample(skip))
        h = nn.Sequential(*self.layer3)(self.upsample(h, *skip.shape[2:4]))
        h = torch.cat([h, skip], -1).movedim(-1, 1)
        return torch.cat([self.recover_surface(h[:, :, :1]), self.recover_upper(h[:, :, 1:])], 2)


if __name__ == "__main__":
    torch.manual_seed(3)
    save("vit", ViT(), {"input": torch.randn(2, 3, 20, 28)})
    save("diffusion_unet", DiffusionUNet(), {"input": torch.randn(2, 2, 14, 12), "level": torch.rand(2, 1, 1, 1)})
    truth = rounded(torch.randn(2, 13, 10))
    weights = rounded(torch.cos((torch.arange(13) - 6) * (math.pi / 14)))
    state = torch.randn(1, 2, 13, 10).expand(4, -1, -1, -1)
    save("ensemble", Ensemble(), {"input": state, "noise": torch.randn(4, 3, 1, 1)}, fair_crps(truth, weights),
         {"target": truth[None], "weights": weights})
    save("pangu", Pangu(), {"input": torch.randn(2, 2, 7, 14, 16)})
