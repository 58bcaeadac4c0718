#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes torch_unet.safetensors: a small U-Net's weights as PyTorch's state_dict names them, an
input ("example.input") and what PyTorch computes from it ("example.output"), all of float32. Needs
python3-torch; the format is written by hand, so that nothing else is needed."""
import json
import pathlib
import struct

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, stride=stride, padding=1)
        self.norm = nn.GroupNorm(4, cout)

    def forward(self, x):
        return nn.functional.silu(self.norm(self.conv(x)))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = Block(3, 8)
        self.down1 = Block(8, 16, 2)
        self.down2 = Block(16, 32, 2)
        self.middle = Block(32, 32)
        self.up1 = nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1)
        self.merge1 = Block(32, 16)
        self.up0 = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.merge0 = Block(16, 8)
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        skip0 = self.enter(x)
        skip1 = self.down1(skip0)
        low = self.middle(self.down2(skip1))
        y = self.merge1(torch.cat([skip1, self.up1(low)], 1))
        y = self.merge0(torch.cat([skip0, self.up0(y)], 1))
        return self.head(y)


torch.manual_seed(5)
net = UNet()
with torch.no_grad():
    for name, p in net.named_parameters():
        if "norm" in name:  # not the ones and zeros they begin with
            p.add_(0.3 * torch.randn_like(p))
    x = torch.randn(2, 3, 20, 28)
    y = net(x)
arrays = {name: p.detach() for name, p in net.state_dict().items()}
arrays["example.input"], arrays["example.output"] = x, y
header, data = {"__metadata__": {"format": "pt"}}, b""
for name, a in arrays.items():
    raw = struct.pack(f"<{a.numel()}f", *a.reshape(-1).tolist())
    header[name] = {"dtype": "F32", "shape": list(a.shape), "data_offsets": [len(data), len(data) + len(raw)]}
    data += raw
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
path = pathlib.Path(__file__).with_name("torch_unet.safetensors")
path.write_bytes(struct.pack("<Q", len(text)) + text + data)
print(torch.__version__, path.stat().st_size, sum(p.numel() for p in net.parameters()), y.abs().max().item())
