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

# windows of 5 x 3 points, 2 rows apart: shifted inwards at the ends of the rows, periodic in columns;
# queries with 4 heads, keys with 2
def neighbours(n, kernel, dilation, periodic):
    """The points that each of n points sees."""
    seen = []
    for i in range(n):
        if periodic:
            seen.append([(i + (t - kernel // 2) * dilation) % n for t in range(kernel)])
        else:
            group = range(i % dilation, n, dilation)
            first = min(max(i // dilation - kernel // 2, 0), len(group) - kernel)
            seen.append(list(group)[first:first + kernel])
    return torch.tensor(seen)


rows, columns, heads, features = 11, 8, 4, 3
q, k, v = field(12, rows, columns), field(6, rows, columns), field(6, rows, columns)
down, along = neighbours(rows, 5, 2, False), neighbours(columns, 3, 1, True)


def gathered(t):
    """[heads, features, rows, columns, 15]: what each point sees."""
    t = t.reshape(2, features, rows, columns).repeat_interleave(2, 0)
    return t[:, :, down[:, None, :, None], along[None, :, None, :]].flatten(4)


scores = torch.einsum("hfij,hfijt->hijt", q.reshape(heads, features, rows, columns), gathered(k))
y = torch.einsum("hijt,hfijt->hfij", torch.softmax(scores / features**0.5, -1), gathered(v))
keep("neighbourhood", y.reshape(1, 12, rows, columns), q=q, k=k, v=v)

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
