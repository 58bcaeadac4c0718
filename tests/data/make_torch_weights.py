# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The numbers in tests/model/weights_test.cpp: spectral and weight norm by PyTorch, in double precision, on the inputs
# of that test. In the container torch: python3 tests/data/make_torch_weights.py
import torch
from torch import nn
from torch.nn.utils import spectral_norm, weight_norm

torch.set_default_dtype(torch.float64)


def field(shape, phase):
    n, c, i, j = torch.meshgrid(*[torch.arange(float(s)) for s in shape], indexing="ij")
    return torch.sin(phase + 2.1 * n + 0.7 * i * (c + 1) + 1.3 * j * (i + 1))


def wave(shape, phase):
    i = torch.arange(float(torch.Size(shape).numel()))
    return torch.sin(phase + 0.37 * i * (1 + i % 5)).reshape(shape)


def summary(values):
    values = values.detach().flatten()
    return [values[0].item(), values[-1].item(), (values * wave(values.shape, 0.2)).sum().item()]


def report(name, values):
    print(name, ", ".join(repr(v) for v in summary(values)))


def set_all(module):
    with torch.no_grad():
        for k, (name, p) in enumerate(sorted(module.named_parameters())):
            p.copy_(wave(p.shape, 0.3 + k))
        for k, (name, b) in enumerate(sorted(module.named_buffers())):
            b.copy_(wave(b.shape, 0.6 + k) / wave(b.shape, 0.6 + k).norm())


def check(name, module, steps):
    """A roll-out of some steps, its gradients, the buffers after it; then an evaluation."""
    print(name)
    set_all(module)
    x = field((2, 3, 5, 6), 0.1).requires_grad_()
    y = x
    for _ in range(steps):
        y = module(y)
    report("  y", y)
    (y * field(y.shape, 0.4)).sum().backward()
    report("  dx", x.grad)
    for p, value in sorted(module.named_parameters()):
        report("  d" + p, value.grad)
    for b, value in sorted(module.named_buffers()):
        report("  " + b, value)
    module.eval()
    report("  evaluated", module(x))


check("spectral norm, Conv", spectral_norm(nn.Conv2d(3, 3, 3, padding=1)), 3)
check("spectral norm, ConvTranspose", spectral_norm(nn.ConvTranspose2d(3, 4, 4, 2, 1)), 1)
check("weight norm, Conv", weight_norm(nn.Conv2d(3, 3, 3, padding=1)), 3)
