#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes models/fuxi.safetensors as make_models.py does, with the published module of miles-credit
2026.2.0 and timm 1.0.31 (PyPI; also einops), in float64 with random weights. Two arrays are written
as others: the patch embedding's weights without the dimension of time, joined with that of
variables; those of queries, keys and values apart. timm rounds the coordinates of its position bias
to float32: they are computed again. Only the module is imported: the package's other parts need
libraries that it doesn't."""
import torch
from torch import nn

import make_models

make_models.Stubs("credit.postblock", "timm.data", "torchvision")
from credit.models.fuxi import Fuxi  # noqa: E402


class Renamed(nn.Module):
    """The module's function of the parameters that are written."""

    def __init__(self, net):
        super().__init__()
        self.inner = [net]
        self.names = {}
        for name, p in net.named_parameters():
            if name.endswith("qkv.weight"):
                for part, w in zip("qkv", p.chunk(3)):
                    self.add(name.replace("qkv", part), w)
            elif name == "cube_embedding.proj.weight":
                self.add(name, p.flatten(1, 2))
            else:
                self.add(name, p)

    def add(self, name, value):
        self.names[name] = name.replace(".", "/")
        self.register_parameter(self.names[name], nn.Parameter(value.detach().clone()))

    def named_parameters(self, *args, **kwargs):
        return [(name, getattr(self, own)) for name, own in self.names.items()]

    def forward(self, x):
        given = dict(self.named_parameters())
        whole = {}
        for name, p in self.inner[0].named_parameters():
            if name.endswith("qkv.weight"):
                whole[name] = torch.cat([given[name.replace("qkv", part)] for part in "qkv"])
            else:
                whole[name] = given[name].reshape(p.shape)
        y = torch.func.functional_call(self.inner[0], whole, (x.unflatten(1, (6, 2)),))
        return y.squeeze(2)


torch.manual_seed(3)
net = Fuxi(
    image_height=20, image_width=20, patch_height=2, patch_width=2, levels=2, frames=2, frame_patch_size=2, dim=8,
    num_groups=4, channels=2, surface_channels=1, input_only_channels=1, num_heads=2, depth=2, window_size=4,
    interp=False, use_spectral_norm=False)
net = net.to(torch.float64)
for block in net.u_transformer.layer.blocks:
    offset = torch.stack(torch.meshgrid(torch.arange(-3.0, 4.0), torch.arange(-3.0, 4.0), indexing="ij"), -1) * 8 / 3
    table = offset.sign() * (offset.abs() + 1).log2() / 3
    assert (table - block.attn.relative_coords_table).abs().max() < 1e-6
    block.attn.relative_coords_table = table[None]
make_models.save("fuxi", Renamed(net), {"input": torch.randn(2, 12, 20, 20)})
