# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cases of benchmarks/device in PyTorch on the same card, a line of JSON each.

Products in float32 without and with TF32 and in bfloat16: "fp32", "tf32", "bf16" at the end of the
name. Seconds by events, the median of five batches of ten calls.
"""
import json

import torch
import torch.nn.functional as F

DEVICE = "cuda"


def report(name, call, flops=0.0, data=0.0):
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(5):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(10):
            call()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 10e3)
    seconds = sorted(times)[2]
    row = dict(name=name, seconds=seconds, tflops=flops / seconds * 1e-12, gbytes_per_s=data / seconds * 1e-9)
    print(json.dumps(row), flush=True)


def precisions():
    for tag in ("fp32", "tf32", "bf16"):
        torch.backends.cudnn.allow_tf32 = tag == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = tag == "tf32"
        torch.backends.cudnn.benchmark = True
        yield tag, torch.bfloat16 if tag == "bf16" else torch.float32


def text(shape):
    return "x".join(map(str, shape))


def conv(kind, k, shape, stride=1, groups=1, transposed=False):
    n, c, h, w = shape
    pad = 1 if transposed else k // 2
    for tag, dtype in precisions():
        x = torch.randn(shape, device=DEVICE, dtype=dtype)
        weight = torch.randn(c, c // groups, k, k, device=DEVICE, dtype=dtype)
        if transposed:
            forward = lambda: F.conv_transpose2d(x, weight, stride=stride, padding=pad)
        else:
            forward = lambda: F.conv2d(x, weight, stride=stride, padding=pad, groups=groups)
        dy = torch.randn_like(forward())
        flops = 2.0 * k * k * c // groups * min(x.numel(), dy.numel())
        backward = lambda mask: torch.ops.aten.convolution_backward(
            dy, x, weight, None, [stride] * 2, [pad] * 2, [1, 1], transposed, [0, 0], groups, mask)
        name = f"{kind} {text(shape)}"
        report(f"{name} forward {tag}", forward, flops)
        report(f"{name} input gradient {tag}", lambda: backward([True, False, False]), flops)
        report(f"{name} weight gradient {tag}", lambda: backward([False, True, False]), flops)


def elementwise(kind, forward, backward, shape):
    x = torch.randn(shape, device=DEVICE)
    dy = torch.randn_like(x)
    data = 4.0 * x.numel()
    report(f"{kind} {text(shape)} forward", lambda: forward(x), 0, 2 * data)
    report(f"{kind} {text(shape)} backward", lambda: backward(dy, x), 0, 3 * data)


def group_norm(shape, groups):
    n, c, h, w = shape
    x = torch.randn(shape, device=DEVICE)
    dy = torch.randn_like(x)
    weight, bias = torch.ones(c, device=DEVICE), torch.zeros(c, device=DEVICE)
    _, mean, rstd = torch.native_group_norm(x, weight, bias, n, c, h * w, groups, 1e-5)
    data = 4.0 * x.numel()
    report(f"groupnorm {text(shape)} forward", lambda: F.group_norm(x, groups, weight, bias), 0, 2 * data)
    report(f"groupnorm {text(shape)} backward", lambda: torch.ops.aten.native_group_norm_backward(
        dy, x, mean, rstd, weight, n, c, h * w, groups, [True] * 3), 0, 3 * data)


def layer_norm(shape):
    """Over channels, as models of images have it: channels last and back."""
    c = shape[1]
    x = torch.randn(shape, device=DEVICE, requires_grad=True)
    weight, bias = (torch.ones(c, device=DEVICE, requires_grad=True) for _ in range(2))
    forward = lambda: F.layer_norm(x.permute(0, 2, 3, 1), (c,), weight, bias).permute(0, 3, 1, 2)
    y = forward()
    dy = torch.randn(shape, device=DEVICE)
    data = 4.0 * x.numel()
    report(f"layernorm {text(shape)} forward", forward, 0, 2 * data)
    report(f"layernorm {text(shape)} backward",
           lambda: torch.autograd.grad(y, (x, weight, bias), dy, retain_graph=True), 0, 3 * data)


def losses(shape):
    x, y, d = (torch.randn(shape, device=DEVICE) for _ in range(3))
    data = 4.0 * x.numel()
    one = torch.ones((), device=DEVICE)
    report(f"mean square {text(shape)} forward", lambda: F.mse_loss(x, y), 0, 2 * data)
    report(f"mean square {text(shape)} backward", lambda: torch.ops.aten.mse_loss_backward(one, x, y, 1), 0, 3 * data)
    report(f"copy {text(shape)} forward", lambda: d.copy_(x), 0, 2 * data)
    report(f"dot {text(shape)} forward", lambda: torch.dot(x.view(-1), y.view(-1)), 0, 2 * data)


def adam(count):
    p = torch.nn.Parameter(torch.randn(count, device=DEVICE))
    p.grad = torch.randn(count, device=DEVICE)
    optimiser = torch.optim.Adam([p], fused=True)
    report(f"adam {count} forward", optimiser.step, 0, 28.0 * count)


def linear(tokens, n_in, n_out):
    for tag, dtype in precisions():
        x = torch.randn(tokens, n_in, device=DEVICE, dtype=dtype)
        weight = torch.randn(n_out, n_in, device=DEVICE, dtype=dtype)
        bias = torch.randn(n_out, device=DEVICE, dtype=dtype)
        dy = torch.randn(tokens, n_out, device=DEVICE, dtype=dtype)
        flops = 2.0 * tokens * n_in * n_out
        name = f"linear {tokens}x{n_in}x{n_out}"
        report(f"{name} forward {tag}", lambda: F.linear(x, weight, bias), flops)
        report(f"{name} backward {tag}", lambda: (dy @ weight, dy.t() @ x, dy.sum(0)), 2 * flops)


def attention(shape, size=16, heads=4):
    n, c, h, w = shape
    windows = n * (h // size) * (w // size)
    flops = 4.0 * size * size * n * c * h * w
    for tag, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        q, k, v = (torch.randn(windows, heads, size * size, c // heads, device=DEVICE, dtype=dtype, requires_grad=True)
                   for _ in range(3))
        y = F.scaled_dot_product_attention(q, k, v)
        dy = torch.randn_like(y)
        name = f"window attention {text(shape)}"
        report(f"{name} forward {tag}", lambda: F.scaled_dot_product_attention(q, k, v), flops)
        report(f"{name} backward {tag}",
               lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True), 2.5 * flops)


def resampling(shape):
    x = torch.randn(shape, device=DEVICE, requires_grad=True)
    kinds = {"average pool 2": lambda: F.avg_pool2d(x, 2), "max pool 2": lambda: F.max_pool2d(x, 2),
             "bilinear 2": lambda: F.interpolate(x, scale_factor=2, mode="bilinear")}
    for kind, forward in kinds.items():
        y = forward()
        dy = torch.randn_like(y)
        data = 4.0 * (x.numel() + y.numel())
        report(f"{kind} {text(shape)} forward", forward, 0, data)
        report(f"{kind} {text(shape)} backward", lambda: torch.autograd.grad(y, x, dy, retain_graph=True), 0, data)


def sparse(n):
    """The five-point Laplacian of a square by cuSPARSE."""
    i = torch.arange(n * n, device=DEVICE)
    near = [(i >= n, i - n, -1.0), (i % n > 0, i - 1, -1.0), (i >= 0, i, 4.0), (i % n < n - 1, i + 1, -1.0),
            (i < n * (n - 1), i + n, -1.0)]
    rows = torch.cat([i[there] for there, _, _ in near])
    columns = torch.cat([j[there] for there, j, _ in near])
    values = torch.cat([torch.full_like(i[there], v, dtype=torch.float64) for there, _, v in near])
    a = torch.sparse_coo_tensor(torch.stack([rows, columns]), values, (n * n, n * n)).coalesce().to_sparse_csr()
    x = torch.randn(n * n, device=DEVICE, dtype=torch.float64)
    report(f"sparse product 5 x {n}^2 forward", lambda: a @ x, 0, 12.0 * values.numel() + 24.0 * n * n)


def u_net_step(channels, w, rows, columns):
    """A training step of the network in benchmarks/device/training.cpp."""

    def unit(n_in, n_out, stride=1):
        return torch.nn.Sequential(torch.nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False),
                                   torch.nn.GroupNorm(4, n_out), torch.nn.SiLU())

    class UNet(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.enter, self.refine = unit(channels, w), unit(w, w)
            self.down1, self.refine1 = unit(w, 2 * w, 2), unit(2 * w, 2 * w)
            self.down2, self.refine2 = unit(2 * w, 4 * w, 2), unit(4 * w, 4 * w)
            self.up2 = torch.nn.ConvTranspose2d(4 * w, 2 * w, 3, 2, 1)
            self.merge1 = unit(4 * w, 2 * w)
            self.up1 = torch.nn.ConvTranspose2d(2 * w, w, 3, 2, 1)
            self.merge, self.head = unit(2 * w, w), torch.nn.Conv2d(w, channels, 1)

        def forward(self, x):
            fine = self.refine(self.enter(x))
            middle = self.refine1(self.down1(fine))
            up = self.up2(self.refine2(self.down2(middle)), output_size=middle.shape[2:])
            up = self.up1(self.merge1(torch.cat([middle, up], 1)), output_size=fine.shape[2:])
            return x + self.head(self.merge(torch.cat([fine, up], 1)))

    for tag, dtype in precisions():
        if dtype != torch.float32:
            continue
        net = UNet().to(DEVICE)
        adam = torch.optim.Adam(net.parameters(), lr=1e-6, fused=True)
        x, target = (torch.randn(1, channels, rows, columns, device=DEVICE) for _ in range(2))

        def step():
            adam.zero_grad(set_to_none=True)
            F.mse_loss(net(x), target).backward()
            adam.step()

        name = f"1x{channels}x{rows}x{columns}"
        if tag == "fp32":
            with torch.no_grad():
                report(f"u-net {name} forward", lambda: net(x))
        report(f"u-net step {name} step {tag}", step)


FINE, MANY = (1, 64, 181, 360), (8, 64, 181, 360)
elementwise("silu", F.silu, torch.ops.aten.silu_backward, FINE)
elementwise("silu", F.silu, torch.ops.aten.silu_backward, MANY)
elementwise("gelu", F.gelu, torch.ops.aten.gelu_backward, MANY)
elementwise("softmax", lambda x: torch.softmax(x, 1),
            lambda dy, x: torch.ops.aten._softmax_backward_data(dy, x, 1, torch.float32), FINE)
group_norm(FINE, 8)
group_norm(MANY, 8)
layer_norm(FINE)
losses(FINE)
losses(MANY)
adam(16 << 20)
conv("conv1", 1, FINE)
conv("conv3", 3, FINE)
conv("conv3", 3, (1, 128, 181, 360))
conv("conv3 stride 2", 3, FINE, stride=2)
conv("conv transposed 4 stride 2", 4, (1, 64, 90, 180), stride=2, transposed=True)
conv("conv3 depthwise", 3, FINE, groups=64)
conv("conv3", 3, (1, 64, 721, 1440))
conv("conv3", 3, (1, 128, 721, 1440))
linear(4096, 512, 2048)
attention((1, 128, 192, 384))
resampling(FINE)
sparse(1024)
u_net_step(6, 64, 181, 360)
