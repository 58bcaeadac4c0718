#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes attention_heads.safetensors: what PyTorch's scaled_dot_product_attention computes with
fewer heads of keys and values (enable_gqa) and with additive masks, and neighbourhood attention
(Hassani et al. 2023) by gathered keys; all of float64. Arrays "<case>.q", ".k", ".v", ".y" and
".dy" are fields [1, heads x features, rows, columns]; ".q.gradient" and so on are the gradients.

Needs python3-torch (2.5 or later)."""
import json
import pathlib
import struct

import torch
import torch.nn.functional as F

torch.manual_seed(64)
torch.set_default_dtype(torch.float64)
arrays = {}


def keep(case, y, **inputs):
    dy = torch.randn_like(y)
    (y * dy).sum().backward()
    arrays[f"{case}.y"] = y.detach()
    arrays[f"{case}.dy"] = dy
    for name, a in inputs.items():
        arrays[f"{case}.{name}"] = a.detach()
        if a.grad is not None:
            arrays[f"{case}.{name}.gradient"] = a.grad


def field(channels, rows, columns):
    return torch.randn(1, channels, rows, columns, requires_grad=True)


def to_windows(t, heads, w):
    """[1, heads x features, rows, columns] to [windows, heads, tokens, features]."""
    _, c, rows, columns = t.shape
    t = t.reshape(heads, c // heads, rows // w[0], w[0], columns // w[1], w[1])
    return t.permute(2, 4, 0, 3, 5, 1).reshape(-1, heads, w[0] * w[1], c // heads)


def to_field(t, rows, columns, w):
    n, heads, _, f = t.shape
    t = t.reshape(rows // w[0], columns // w[1], heads, w[0], w[1], f)
    return t.permute(2, 5, 0, 3, 1, 4).reshape(1, heads * f, rows, columns)


# 6 heads of queries, 2 of keys
w, rows, columns = (3, 4), 6, 8
q, k, v = field(18, rows, columns), field(6, rows, columns), field(6, rows, columns)
y = F.scaled_dot_product_attention(
    to_windows(q, 6, w), to_windows(k, 2, w), to_windows(v, 2, w), enable_gqa=True)
keep("gqa", to_field(y, rows, columns, w), q=q, k=k, v=v)

# numbers that are added to the scores, other ones in each window and head; some points see none
q, k, v = (field(6, rows, columns) for _ in range(3))
mask = torch.randn(4, 2, 12, 12)
mask[torch.rand(4, 2, 12, 12) < 0.3] = -torch.inf
mask[1, :, 5] = -torch.inf
y = F.scaled_dot_product_attention(*(to_windows(t, 2, w) for t in (q, k, v)), attn_mask=mask)
keep("mask", to_field(y, rows, columns, w), q=q, k=k, v=v, mask=mask)

header, data = {}, b""
for name, array in arrays.items():
    raw = struct.pack(f"<{array.numel()}d", *array.reshape(-1).tolist())
    header[name] = {"dtype": "F64", "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
    data += raw
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
path = pathlib.Path(__file__).with_name("attention_heads.safetensors")
path.write_bytes(struct.pack("<Q", len(text)) + text + data)
print(path, path.stat().st_size)
