#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes by_hand.safetensors by what the format's description says, with nothing but struct: keys
in another order than ours, blanks, escapes, four dtypes, data in another order than the names."""
import pathlib
import struct

arrays = [  # name, dtype, shape, values
    ("module.last.weight", "F64", [2, 1], [0.1, -1e-300]),
    ("module.stem.conv.weight", "F32", [2, 3], [0.0, 0.25, -1.5, 3.0, 1e-3, -7e8]),
    ("module.stem.conv.bias", "F16", [2], [65504.0, -5.960464477539063e-08]),
    ("module.last.bias", "BF16", [3], [1.0, -2.5, 3.3895313892515355e38]),
    ("other.steps", "I64", [], [12]),
]
data, places = b"", {}
for name, dtype, _, values in arrays:
    begin = len(data)
    for v in values:
        if dtype == "BF16":
            data += struct.pack("<f", v)[2:]
        else:
            data += struct.pack({"F64": "<d", "F32": "<f", "F16": "<e", "I64": "<q"}[dtype], v)
    places[name] = (begin, len(data))
entries = []
for name, dtype, shape, _ in sorted(arrays):
    escaped = name.replace("stem", "st\\u0065m")
    begin, end = places[name]
    entries.append(f'"{escaped}" : {{"data_offsets":[{begin}, {end}], "shape":{shape}, "dtype":"{dtype}"}}')
entries.insert(2, '"__metadata__": {"made by": "\\u00dcbung \\ud83d\\ude00 \\"1\\"\\n"}')
header = ("{ " + " ,\n".join(entries) + " }").encode()
path = pathlib.Path(__file__).with_name("by_hand.safetensors")
path.write_bytes(struct.pack("<Q", len(header)) + header + data)
