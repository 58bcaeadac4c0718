#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes models/aurora.safetensors as make_models.py does, with the published modules of
microsoft-aurora 2.0.1 (PyPI; also timm and einops), in float64 with random weights: of the encoder
the surface's MLP and the aggregation of levels, then the backbone. The input is the embedded patches
of the surface and of 4 pressure levels. The lead time's embedding, which the package rounds to
float32, is an input. The surface's encoding is written as [1, channels]. Only the modules are
imported: the package's other parts need libraries that they don't."""
import pathlib
import sys
import types

import torch
from torch import nn

import make_models

# the package by its folder, without what its __init__ imports
for entry in map(pathlib.Path, sys.path):
    if (entry / "aurora" / "model" / "swin3d.py").exists():
        package = types.ModuleType("aurora")
        package.__path__ = [str(entry / "aurora")]
        sys.modules["aurora"] = package
make_models.Stubs("aurora.batch", "huggingface_hub", "timm.data", "torchvision")
from aurora.model import encoder, swin3d  # noqa: E402

swin3d.lead_time_expansion = lambda lead_times, dim: lead_times


class Aurora(nn.Module):
    def __init__(self, dim, levels):
        super().__init__()
        self.encoder = encoder.Perceiver3DEncoder(
            surf_vars=("2t",), static_vars=None, atmos_vars=("t",), patch_size=1, latent_levels=levels, embed_dim=dim,
            num_heads=2, head_dim=dim // 2, depth=2, mlp_ratio=2.0)
        self.backbone = swin3d.Swin3DTransformerBackbone(
            embed_dim=dim, encoder_depths=(1, 2), encoder_num_heads=(2, 4), decoder_depths=(1, 2),
            decoder_num_heads=(4, 2), window_size=(2, 3, 4), mlp_ratio=2.0)
        # the package begins with numbers so small that blocks are the identity and attention the mean
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=p.shape[-1] ** -0.5)
        nn.init.normal_(self.encoder.atmos_latents)
        self.encoder.surf_level_encoding = nn.Parameter(torch.randn(1, dim))

    def forward(self, x, lead):
        h = x.flatten(3).permute(0, 2, 3, 1)  # [batch, level, point, channel]
        surface = h[:, 0] + self.encoder.surf_level_encoding
        surface = surface + self.encoder.surf_norm(self.encoder.surf_mlp(surface))
        h = torch.cat([surface[:, None], self.encoder.aggregate_levels(h[:, 1:])], 1)
        levels = h.shape[1]
        lead = lead.flatten(1)
        h = h.flatten(1, 2) + self.encoder.lead_time_embed(lead)[:, None]
        y = self.backbone(h, lead, 0, (levels, *x.shape[3:]))
        return y.transpose(1, 2).unflatten(2, (levels, *x.shape[3:]))


torch.manual_seed(3)
net = Aurora(8, 4).to(torch.float64)
used = ("backbone.", "encoder.atmos_latents", "encoder.level_agg.", "encoder.surf_level_encoding", "encoder.surf_mlp.",
        "encoder.surf_norm.", "encoder.lead_time_embed.")
unused = [name for name, _ in net.named_parameters() if not name.startswith(used)]
make_models.save("aurora", net, {"input": torch.randn(2, 8, 5, 7, 9), "lead": torch.randn(2, 8, 1, 1, 1)},
                 unused=unused)
