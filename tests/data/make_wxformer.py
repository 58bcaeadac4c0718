#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes models/wxformer.safetensors as make_models.py does, with the published module of miles-credit
2026.2.0 (PyPI; also einops), in float64 with random weights. Only the module is imported: the
package's other parts need libraries that it doesn't."""
import torch

import make_models

make_models.Stubs("credit.postblock")
from credit.models.wxformer.crossformer import CrossFormer  # noqa: E402

torch.manual_seed(3)
net = CrossFormer(
    image_height=24, image_width=12, frames=1, channels=2, surface_channels=1, input_only_channels=1, levels=2,
    dim=(4, 8, 16, 32), depth=(1, 1, 1, 1), dim_head=4, local_window_size=(4, 2, 2, 1), global_window_size=(4, 2, 1, 1),
    cross_embed_kernel_sizes=((2, 4),) * 4, cross_embed_strides=(2, 2, 2, 2), interp=False, use_spectral_norm=False,
    padding_conf={"activate": True, "mode": "earth", "pad_lat": [4, 4], "pad_lon": [2, 2]})
unused = [name for name, _ in net.named_parameters() if name.startswith("cube_embedding")]
make_models.save("wxformer", net, {"input": torch.randn(2, 6, 1, 24, 12)}, unused=unused)
