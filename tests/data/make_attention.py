#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes attention.safetensors: what the attentions of published packages compute (all of float64):
timm 1.0.31 (Swin transformers v1 and v2), miles-credit 2026.2.0 (CrossFormer, short and long) and
microsoft-aurora 2.0.1 (the mask of shifted windows). Arrays "<case>.q", ".k", ".v" are what the
package's projection gives, as fields; ".y" is the attention before the last projection; ".dy" is a
gradient of y. Parameters have the package's names, their gradients end with ".gradient".

Needs python3-torch, and `pip install --no-deps --target DIR timm==1.0.31 miles-credit==2026.2.0
microsoft-aurora==2.0.1 einops` with PYTHONPATH=DIR. The attentions alone need
none of the packages' other dependencies, so these are replaced by empty modules."""
import importlib.abc
import importlib.machinery
import json
import pathlib
import struct
import sys
import types

import torch
import torch.nn.functional as F
from einops import rearrange


class Any(type):
    """Attributes of these classes are such classes; calls, also as decorators, do nothing."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Any(name, (), {})

    def __call__(cls, *arguments, **_):
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else cls


class Empty(types.ModuleType):
    __version__ = "9.9"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Any(name, (), {})


class Missing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """These modules are empty."""

    def __init__(self, *names):
        self.names = names

    def find_spec(self, name, path, target=None):
        found = name.split(".")[0] in self.names
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if found else None

    def create_module(self, spec):
        return Empty(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Missing(
    "cftime", "torch_harmonics", "segmentation_models_pytorch", "huggingface_hub", "netCDF4", "pandas", "PIL", "safetensors", "scipy", "torchvision", "xarray", "yaml"))
from aurora.model.swin3d import compute_3d_shifted_window_mask  # noqa: E402
from credit.models.crossformer import Attention as CrossFormerAttention  # noqa: E402
from timm.models.swin_transformer import WindowAttention as Swin  # noqa: E402
from timm.models.swin_transformer_v2 import WindowAttention as Swin2  # noqa: E402

torch.manual_seed(63)
torch.set_default_dtype(torch.float64)
arrays = {}


def keep(case, q, k, v, y, parameters, names):
    """q, k, v and y: fields [1, heads x features, space...]."""
    dy = torch.randn_like(y)
    (y * dy).sum().backward()
    for name, a in zip(("q", "k", "v", "y", "dy"), (q, k, v, y, dy)):
        arrays[f"{case}.{name}"] = a.detach()
    for name in names:
        arrays[f"{case}.{name}"] = parameters[name].detach()
        arrays[f"{case}.{name}.gradient"] = parameters[name].grad


def vary(module):
    """Not the zeros and ones that parameters begin with."""
    with torch.no_grad():
        for p in module.parameters():
            p.add_(0.3 * torch.randn_like(p))


def identity(layer):
    with torch.no_grad():
        layer.weight.copy_(torch.eye(len(layer.weight)).reshape(layer.weight.shape))
        layer.bias.zero_()


def to_field(tokens, rows, columns, w):
    """[windows, tokens, channels] to [1, channels, rows, columns]."""
    return rearrange(tokens, "(a b) (i j) c -> 1 c (a i) (b j)", a=rows // w[0], b=columns // w[1], i=w[0], j=w[1])


window, size, heads, dim = (3, 4), (6, 8), 2, 6
for case, module, names in (
    ("swin", Swin(dim, heads, window_size=window), ["relative_position_bias_table"]),
    ("swin2", Swin2(dim, window, heads), ["logit_scale", "cpb_mlp.0.weight", "cpb_mlp.0.bias", "cpb_mlp.2.weight"]),
):
    module = module.double()
    vary(module)
    identity(module.proj)
    if case == "swin2":
        with torch.no_grad():
            module.logit_scale[1] = 4.7  # beyond ln 100
    x = torch.randn(size[0] * size[1] // 12, 12, dim)
    bias = module.qkv.bias if case == "swin" else torch.cat((module.q_bias, module.k_bias, module.v_bias))
    qkv = [to_field(t, *size, window) for t in F.linear(x, module.qkv.weight, bias).chunk(3, -1)]
    keep(case, *qkv, to_field(module(x), *size, window), dict(module.named_parameters()), names)

for case, kind in (("crossformer_short", "short"), ("crossformer_long", "long")):
    module = CrossFormerAttention(24, kind, 3, dim_head=12).double()
    vary(module)
    identity(module.to_out)
    x = torch.randn(1, 24, 6, 9)
    qkv = module.to_qkv(module.norm(x)).chunk(3, 1)
    names = [name for name, _ in module.named_parameters() if name.startswith("dpb.")]
    keep(case, *qkv, module(x), dict(module.named_parameters()), names)

# windows that end beyond both ends of the domain, rolled and masked as Aurora's blocks do
n, w, s, dim = (3, 7, 10), (2, 3, 4), (1, 1, 2), 4
mask, _ = compute_3d_shifted_window_mask(*n, w, s, torch.device("cpu"), torch.float64)
missing = [(-n[d]) % w[d] for d in range(3)]
front = [m // 2 for m in missing]
pads = [p for d in (2, 1, 0) for p in (front[d], missing[d] - front[d])]
a, b, c = ((n[d] + missing[d]) // w[d] for d in range(3))
q, k, v = (torch.randn(1, dim, *n, requires_grad=True) for _ in range(3))


def cut(t):
    t = F.pad(torch.roll(t, [-i for i in s], (2, 3, 4)), pads)
    return rearrange(t, "1 (h f) (a i) (b j) (c k) -> (a b c) h (i j k) f", h=2, i=w[0], j=w[1], k=w[2])


y = F.scaled_dot_product_attention(cut(q), cut(k), cut(v), attn_mask=mask[:, None])
y = rearrange(y, "(a b c) h (i j k) f -> 1 (h f) (a i) (b j) (c k)", a=a, b=b, c=c, i=w[0], j=w[1], k=w[2])
y = y[:, :, front[0]:front[0] + n[0], front[1]:front[1] + n[1], front[2]:front[2] + n[2]]
y = torch.roll(y, s, (2, 3, 4))
keep("aurora", q, k, v, y, {"q": q, "k": k, "v": v}, ["q", "k", "v"])

header, data = {}, b""
for name, array in arrays.items():
    raw = struct.pack(f"<{array.numel()}d", *array.reshape(-1).tolist())
    header[name] = {"dtype": "F64", "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
    data += raw
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
path = pathlib.Path(__file__).with_name("attention.safetensors")
path.write_bytes(struct.pack("<Q", len(text)) + text + data)
print(path, path.stat().st_size)
