#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""golden_cases.py FILE.json FOLDER: C++ source of tests from reference values.

Writes FOLDER/golden_N.cpp, one function per case with the layer's and the fields' static types, and
FOLDER/golden_values.bin, the numbers. Prints the names of the sources. A file whose content would be
the same isn't touched. A case that isn't understood ends it: no case is left out.

Ops: conv, conv_transpose, max_pool, avg_pool with 1d, 2d or 3d; periodic_conv2d, interpolate,
group_norm, linear and activations. Parameters are PyTorch's; what isn't given has PyTorch's default.
"""
import hashlib
import json
import math
import struct
import sys
from array import array
from pathlib import Path

MODES = {"zeros": "Zero", "circular": "Periodic", "reflect": "Reflect", "replicate": "Clamp"}
ACTIVATIONS = {"relu": "ReLU", "silu": "SiLU", "gelu": "GELU", "leaky_relu": "LeakyReLU",
               "tanh": "Tanh", "sigmoid": "Sigmoid"}
FIXED = {(1, 1), (2, 2), (3, 1), (3, 2), (4, 2), (5, 1)}  # kernel and stride, in two dimensions
MAX_RANK = 6
TYPES_COST, CASE_COST = 2, 1  # compile time of a new field type against that of a case


class Malformed(Exception):
    pass


def need(condition, message):
    if not condition:
        raise Malformed(message)


def entries(value, count, what, least=0):
    """One number per dimension from a number or a list."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = [value] * count
    need(isinstance(value, list) and len(value) == count, f"{what} is not a number or {count} numbers")
    need(all(type(v) is int and v >= least for v in value), f"{what} has an entry that isn't an integer >= {least}")
    return value


def pack(name, values):
    return f"{name}<{', '.join(str(v) for v in values)}>"


class Params:
    """What is asked for is taken away; what is left at the end wasn't understood."""

    def __init__(self, params):
        need(isinstance(params, dict), "params is not an object")
        self.left = dict(params)

    def take(self, name, default=None):
        value = self.left.pop(name, None)
        if value is None:
            need(default is not None, f"there is no parameter '{name}'")
            return default
        return value

    def flag(self, name, default):
        value = self.left.pop(name, default)
        need(type(value) is bool, f"{name} is not true or false")
        return value

    def end(self):
        need(not self.left, f"not understood: parameter {', '.join(sorted(self.left))}")


class Case:
    def __init__(self, one):
        need(isinstance(one, dict) and isinstance(one.get("op"), str), "it is not an object with an op")
        self.op = one["op"]
        self.params = Params(one.get("params", {}))
        self.x, self.x_shape = self.array(one, "x")
        self.y, self.y_shape = self.array(one, "y")
        self.dy = self.gradient(one, "dy", len(self.y))
        self.dx = self.gradient(one, "dx", len(self.x))
        self.weight, self.weight_shape = self.array(one, "weight", True)
        self.dweight = self.gradient(one, "dweight", len(self.weight))
        self.bias, self.bias_shape = self.array(one, "bias", True)
        self.dbias = self.gradient(one, "dbias", len(self.bias))
        self.rank = len(self.x_shape)
        need(len(self.y_shape) == self.rank, "x and y differ in their number of dimensions")
        self.dims = self.rank - 2
        self.fixed = False
        self.checks = []

    @staticmethod
    def numbers(data, what):
        need(isinstance(data, list), f"{what} has no list of data")
        try:
            numbers = array("d", data)
        except TypeError:
            raise Malformed(f"{what} has data that aren't numbers") from None
        need(all(map(math.isfinite, numbers)), f"{what} has data that aren't finite")
        return numbers

    def array(self, one, what, may_lack=False):
        a = one.get(what)
        if a is None and may_lack:
            return array("d"), []
        need(isinstance(a, dict), f"there is no {what}")
        shape = a.get("shape")
        need(isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape), f"{what} has no shape")
        data = self.numbers(a.get("data"), what)
        need(len(data) == math.prod(shape), f"{what} has {len(data)} values, its shape {shape} asks for {math.prod(shape)}")
        return data, shape

    def gradient(self, one, what, count):
        data = one.get(what, [])
        if isinstance(data, dict):
            data = data.get("data")
        data = self.numbers(data, what)
        need(len(data) == count, f"{what} has {len(data)} values where there should be {count}")
        return data

    # ---- shapes that the parameters ask for ----------------------------------------------------

    def expect(self, what, is_shape, shape):
        need(list(is_shape) == list(shape), f"{what} has the shape {list(is_shape)}, the parameters ask for {list(shape)}")

    def field(self, least=3, most=5):
        need(least <= self.rank <= most, f"x has {self.rank} dimensions")
        self.cut = [2] if self.rank == 3 else [self.rank - 2, self.rank - 1]

    def fields(self, boundaries, y_halo=False):
        b = boundaries if len(boundaries) > 1 else boundaries * 2
        self.x_type = f"InputOf<Layer, {self.dims}, {b[0]}, {b[1]}>"
        self.y_type = f"OutputOf<{self.dims}>"

    def partitions(self, extra=""):
        self.y_partitions = f"layer.output_partitions(partitions_of<{self.rank}>(in){extra})"

    def halos(self, halos):
        self.checks.append(f"static_assert(needs_halos<Layer, {', '.join(f'Halo<{lo}, {hi}>' for lo, hi in halos)}>);")
        self.type_key = (self.rank, tuple(halos), self.x_type.split(",", 2)[-1])


def window_figures(case, stride_is_kernel=False):
    p, n = case.params, case.dims
    kernel = entries(p.take("kernel"), n, "kernel", 1)
    stride = entries(p.take("stride", kernel if stride_is_kernel else 1), n, "stride", 1)
    dilation = entries(p.take("dilation", 1), n, "dilation", 1)
    padding = p.take("padding", 0)
    if padding == "same":
        need(stride == [1] * n, "the padding 'same' is for a stride of 1")
        padding = [((d * (k - 1)) // 2, d * (k - 1) - (d * (k - 1)) // 2) for k, d in zip(kernel, dilation)]
    else:
        padding = [(v, v) for v in entries(0 if padding == "valid" else padding, n, "padding")]
    return kernel, stride, padding, dilation


def options(kernel, stride, padding, dilation):
    sides = [lo if lo == hi else f"sides<{lo}, {hi}>" for lo, hi in padding]
    return (f"{pack('Kernel', kernel)}, {pack('Stride', stride)}, {pack('Padding', sides)}, "
            f"{pack('Dilation', dilation)}")


def conv_extents(case, kernel, stride, padding, dilation):
    return [(n + lo + hi - d * (k - 1) - 1) // s + 1
            for n, k, s, (lo, hi), d in zip(case.x_shape[2:], kernel, stride, padding, dilation)]


def conv_halos(case, kernel, padding, dilation):
    """Of any partition: lo <= p_lo, hi <= max(d (k - 1) - p_lo, p_hi)."""
    case.halos([(lo, max(d * (k - 1) - lo, hi, 0)) for k, (lo, hi), d in zip(kernel, padding, dilation)])


def dims_of(case, op):
    case.field()
    need(op.endswith(f"{case.dims}d"), f"x has {case.dims} dimensions in space")


def has_kernel_of_its_own(kernel, stride, dilation):
    """As src/layers/fixed_window.hpp has them; 1x1 in any number of dimensions."""
    if {*kernel, *stride, *dilation} == {1}:
        return True
    square = len(kernel) == 2 and kernel[0] == kernel[1] and stride[0] == stride[1] and dilation == [1, 1]
    return square and (kernel[0], stride[0]) in FIXED


def conv(case):
    dims_of(case, case.op)
    window = kernel, stride, padding, dilation = window_figures(case)
    groups = entries(case.params.take("groups", 1), 1, "groups", 1)[0]
    mode = case.params.take("padding_mode", "zeros")
    need(mode in MODES, f"there is no padding_mode '{mode}'; there are {' '.join(MODES)}")
    a, b = case.y_shape[1], case.x_shape[1]
    need(a % groups == 0 and b % groups == 0, "groups don't divide the channels")
    case.expect("y", case.y_shape, [case.x_shape[0], a, *conv_extents(case, *window)])
    case.expect("weight", case.weight_shape, [a, b // groups, *kernel])
    if case.bias:
        case.expect("bias", case.bias_shape, [a])
    case.headers = ["conv"]
    case.layer = f"Conv<{options(*window)}>"
    case.object = f"layer{{{b}, {a}, {groups}, {'true' if case.bias else 'false'}}}"
    case.fields([MODES[mode]])
    case.partitions()
    case.fixed = has_kernel_of_its_own(kernel, stride, dilation)
    conv_halos(case, kernel, padding, dilation)


def conv_transpose(case):
    dims_of(case, case.op)
    window = kernel, stride, padding, dilation = window_figures(case)
    groups = entries(case.params.take("groups", 1), 1, "groups", 1)[0]
    more = entries(case.params.take("output_padding", 0), case.dims, "output_padding")
    mode = case.params.take("padding_mode", "zeros")
    need(mode == "zeros", "a transposed convolution has the padding_mode 'zeros'")
    a, b = case.y_shape[1], case.x_shape[1]
    need(a % groups == 0 and b % groups == 0, "groups don't divide the channels")
    extents = [(n - 1) * s - lo - hi + d * (k - 1) + m + 1
               for n, k, s, (lo, hi), d, m in zip(case.x_shape[2:], kernel, stride, padding, dilation, more)]
    case.expect("y", case.y_shape, [case.x_shape[0], a, *extents])
    case.expect("weight", case.weight_shape, [b, a // groups, *kernel])
    if case.bias:
        case.expect("bias", case.bias_shape, [a])
    case.headers = ["conv_transpose"]
    case.layer = f"ConvTranspose<{options(*window)}>"
    case.object = f"layer{{{b}, {a}, {groups}, {'true' if case.bias else 'false'}}}"
    case.fields(["Zero"])
    case.partitions(f", {{{', '.join(map(str, more))}}}")
    case.fixed = has_kernel_of_its_own(kernel, stride, dilation)
    # ceil((d (k - 1) - p) / s) and ceil(p / s)
    case.halos([(max(-((lo - d * (k - 1)) // s), 0), max(-(-lo // s), 0))
                for k, s, (lo, _), d in zip(kernel, stride, padding, dilation)])


def interpolate(case):
    case.field()
    p, n = case.params, case.dims
    mode = p.take("mode", "linear")
    corners = p.flag("align_corners", False)
    scale = p.left.pop("scale_factor", None)
    size = p.left.pop("size", None)
    need(size is not None or scale is not None, "there is neither a size nor a scale_factor")
    need(size is None or scale is None, "there are a size and a scale_factor")
    if scale is not None:
        scale = [float(v) for v in (scale if isinstance(scale, list) else [scale] * n)]
        need(len(scale) == n and all(v > 0 for v in scale), f"scale_factor is not a number or {n} numbers")
        size = [math.floor(k * v) for k, v in zip(case.x_shape[2:], scale)]
    size = entries(size, n, "size", 1)
    case.expect("y", case.y_shape, [*case.x_shape[:2], *size])
    linear = ["linear", "bilinear", "trilinear"]
    need(mode in (*linear, "nearest", "bicubic", "area"), f"there is no mode '{mode}'")
    need(mode != "bicubic" or n == 2, "the mode 'bicubic' is for two dimensions")
    need(not corners or mode in (*linear, "bicubic"), f"the mode '{mode}' has no align_corners")
    rule = {"nearest": ", Nearest", "bicubic": ", BicubicCorners" if corners else ", Bicubic"}.get(
        mode, ", LinearCorners" if corners else "")
    halo = {"nearest": (0, 0), "bicubic": (1, 2)}.get(mode, (0, 1))
    if mode == "area":
        ratio = max(1, *(-(-k // m) for k, m in zip(case.x_shape[2:], size)))
        rule, halo = f", Area<{ratio}>", (0, ratio)
    case.headers = ["interpolate"]
    case.layer = f"Interpolate<{n}{rule}>"
    case.object = "layer{}" if scale is None else f"layer{{.scale = {{{', '.join(map(repr, scale))}}}}}"
    case.fields(["Zero"])
    case.partitions(f", {{{', '.join(map(str, size))}}}")
    case.halos([halo] * n)


def pool_extents(case, kernel, stride, padding, dilation):
    """With ceil_mode: a last window that begins inside the world or its low padding counts."""
    extents = []
    for n, k, s, (lo, hi), d in zip(case.x_shape[2:], kernel, stride, padding, dilation):
        m = -(-(n + lo + hi - d * (k - 1) - 1) // s) + 1
        extents.append(max(0, m - 1 if (m - 1) * s >= n + lo else m))
    return extents


def pool(case):
    dims_of(case, case.op)
    average = case.op.startswith("avg")
    window = kernel, stride, padding, dilation = window_figures(case, True)
    ceil_mode = case.params.flag("ceil_mode", False)
    counted = case.params.flag("count_include_pad", True)
    extents = pool_extents(case, *window) if ceil_mode else conv_extents(case, *window)
    case.expect("y", case.y_shape, [*case.x_shape[:2], *extents])
    need(all(2 * lo <= k for k, (lo, _) in zip(kernel, padding)), "a padding of a pool is at most half its kernel")
    case.headers = ["pool"]
    need(not average or dilation == [1] * case.dims, "an average has no dilation")
    case.layer = f"{'AvgPool' if average else 'MaxPool'}<{options(kernel, stride, padding, dilation)}>"
    if average:
        case.layer = case.layer.replace(f", {pack('Dilation', dilation)}", "" if counted else ", ExcludePadding")
    if ceil_mode:
        case.layer = case.layer[:-1] + ", CeilMode>"
    case.object = "layer{}"
    case.fields(["Zero"])
    case.partitions()
    # nothing beyond the world is read
    case.halos([(lo, max(d * (k - 1) - lo, 0)) for k, (lo, _), d in zip(kernel, padding, dilation)])


def periodic_conv(case):
    need(case.rank == 4, f"x has {case.rank} dimensions")
    case.field()
    kernel = entries(case.params.take("kernel"), 2, "kernel", 1)
    padding = [(v, v) for v in entries(case.params.take("padding", 0), 2, "padding")]
    window = kernel, [1, 1], padding, [1, 1]
    a, b = case.y_shape[1], case.x_shape[1]
    case.expect("y", case.y_shape, [case.x_shape[0], a, *conv_extents(case, *window)])
    case.expect("weight", case.weight_shape, [a, b, *kernel])
    case.headers = ["periodic_conv"]
    case.layer = f"PeriodicConv<{pack('Kernel', kernel)}, {pack('Padding', [lo for lo, _ in padding])}>"
    case.object = f"layer{{{b}, {a}, 1, {'true' if case.bias else 'false'}}}"
    case.fields(["Reflect", "Periodic"])  # latitude reflects, longitude goes round
    case.partitions()
    case.fixed = has_kernel_of_its_own(kernel, [1, 1], [1, 1])
    conv_halos(case, kernel, padding, [1, 1])


def group_norm(case):
    case.field()
    groups = entries(case.params.take("groups"), 1, "groups", 1)[0]
    eps = case.params.take("eps", 1e-5)
    channels = case.x_shape[1]
    case.expect("y", case.y_shape, case.x_shape)
    need(channels % groups == 0, "groups don't divide the channels")
    need(bool(case.weight) == bool(case.bias), "there is one of weight and bias")
    if case.weight:
        case.expect("weight", case.weight_shape, [channels])
        case.expect("bias", case.bias_shape, [channels])
    case.headers = ["group_norm"]
    case.layer = "GroupNorm"
    case.object = f"layer{{{groups}, {channels}, {float(eps)!r}, {'true' if case.weight else 'false'}}}"
    case.x_type = case.y_type = f"OutputOf<{case.dims}>"
    case.y_partitions = f"partitions_of<{case.rank}>(in)"
    case.type_key = (case.rank, "no halo")


def linear(case):
    need(2 <= case.rank <= MAX_RANK, f"x has {case.rank} dimensions")
    a, b = case.y_shape[-1], case.x_shape[-1]
    case.expect("y", case.y_shape, [*case.x_shape[:-1], a])
    case.expect("weight", case.weight_shape, [a, b])
    if case.bias:
        case.expect("bias", case.bias_shape, [a])
    case.cut = [0] if case.rank == 2 else [case.rank - 3, case.rank - 2]
    case.headers = ["linear"]
    case.layer = "Linear"
    case.object = f"layer{{{b}, {a}, {'true' if case.bias else 'false'}}}"
    case.x_type = case.y_type = f"Rows<{case.rank}>"
    case.y_partitions = f"with_last(partitions_of<{case.rank}>(in), {a})"
    case.type_key = (case.rank, "rows")


def activation(case):
    case.field()
    case.expect("y", case.y_shape, case.x_shape)
    case.headers = ["activations"]
    case.layer = ACTIVATIONS[case.op]
    case.object = "layer{}"
    if case.op == "leaky_relu":
        case.object = f"layer{{{float(case.params.take('negative_slope', 0.01))!r}}}"
    if case.op == "gelu":
        form = case.params.take("approximate", "none")
        need(form in ("none", "tanh"), f"there is no approximate '{form}'")
        case.object = f"layer{{GeluForm::{'tanh' if form == 'tanh' else 'erf'}}}"
    case.x_type = case.y_type = f"OutputOf<{case.dims}>"
    case.y_partitions = f"partitions_of<{case.rank}>(in)"
    case.type_key = (case.rank, "no halo")


OPS = {f"{op}{n}d": f for n in (1, 2, 3)
       for op, f in (("conv", conv), ("conv_transpose", conv_transpose), ("max_pool", pool), ("avg_pool", pool))}
OPS |= {"periodic_conv2d": periodic_conv, "interpolate": interpolate, "group_norm": group_norm, "linear": linear}
OPS |= {op: activation for op in ACTIVATIONS}


def read_cases(path):
    try:
        file = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        sys.exit(f"golden_cases: {path}: {error}")
    cases = file.get("cases") if isinstance(file, dict) else None
    if not isinstance(cases, list) or not cases:
        sys.exit(f"golden_cases: {path}: there is no list 'cases' with anything in it")
    for number, one in enumerate(cases):
        try:
            case = Case(one)
            if case.op not in OPS:
                raise Malformed(f"there is no op '{case.op}'; there are {' '.join(OPS)}")
            text = json.dumps(one.get("params", {}))
            OPS[case.op](case)
            case.params.end()
            need(bool(case.weight) or not case.bias, "there is a bias and no weight")
        except (Malformed, TypeError, IndexError) as error:
            op = one.get("op") if isinstance(one, dict) else None
            sys.exit(f"golden_cases: {path}: case {number} ({op}): {error}")
        case.text = f"{case.op} {text}"
        case.name = f"case_{number:03d}_{case.op}"
        yield case


def share_out(cases):
    """Cases with the same field types go into the same source; the sources take about as long."""
    by_types = {}
    for case in cases:
        by_types.setdefault(case.type_key, []).append(case)
    cost = sum(TYPES_COST + CASE_COST * len(g) for g in by_types.values())
    parts = [[0, []] for _ in range(max(2, round(cost / 40)))]
    for group in sorted(by_types.values(), key=len, reverse=True):
        least = min(parts, key=lambda p: p[0])
        least[0] += TYPES_COST + CASE_COST * len(group)
        least[1] += group
    return [p[1] for p in parts if p[1]]


def number_list(values, count):
    return "{" + ", ".join(map(str, [*values, *[-1] * (count - len(values))])) + "}"


def folder_of(header):
    layers = Path(__file__).resolve().parents[2] / "include/shard/layers"
    return next(layers.glob(f"*/{header}.hpp")).parent.name


def source(part, digest):
    lines = ["// Made by golden_cases.py.", '#include "layers/golden_case.hpp"']
    lines += [f'#include "shard/layers/{folder_of(h)}/{h}.hpp"' for h in sorted({h for c in part for h in c.headers})]
    lines += ["", "namespace shard::golden {", "namespace {", ""]
    for c in part:
        lines += [f"void {c.name}(const Input& in, Output& out) {{", f"  using Layer = {c.layer};",
                  *(f"  {check}" for check in c.checks), f"  const Layer {c.object};",
                  f"  run<{c.x_type}, {c.y_type}>(in, out, layer, {c.y_partitions});", "}", ""]
    lines += ["const bool known = add_cases({"]
    for c in part:
        lines += [f"    {{{json.dumps(c.name)}, {json.dumps(c.text)}, {c.rank}, {number_list(c.x_shape, MAX_RANK)},",
                  f"     {number_list(c.y_shape, MAX_RANK)}, {number_list(c.cut, 2)}, {c.place}, {len(c.weight)}, {len(c.bias)},",
                  f"     {'true' if c.fixed else 'false'}, {c.name}}},"]
    lines += [f'}}, "{digest}");', "", "}  // namespace", "}  // namespace shard::golden", ""]
    return "\n".join(lines)


def write(path, content):
    if not path.exists() or path.read_bytes() != content:
        path.write_bytes(content)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    file, folder = sys.argv[1], Path(sys.argv[2])
    cases = list(read_cases(file))
    values = array("d")
    for c in cases:
        c.place = len(values)
        for a in (c.x, c.y, c.dy, c.dx, c.weight, c.dweight, c.bias, c.dbias):
            values.extend(a)
    layout = json.dumps([[c.text, c.x_shape, c.y_shape, c.place] for c in cases])
    digest = hashlib.sha256(layout.encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    parts = share_out(cases)
    names = [folder / f"golden_{i}.cpp" for i in range(len(parts))]
    for old in folder.glob("golden_*.cpp"):
        if old not in names:
            old.unlink()
    for name, part in zip(names, parts):
        write(name, source(part, digest).encode())
    where = str(Path(file).resolve()).encode()
    write(folder / "golden_values.bin",
          digest.encode() + struct.pack("=QQ", len(cases), len(where)) + where + values.tobytes())
    print(*names, sep=";", end="")


main()
