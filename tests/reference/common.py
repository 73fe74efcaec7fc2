"""What the reference scripts share: numbers that C makes as well, and the writing of safetensors.

Run the scripts with Debian's /usr/bin/python3 (packages python3-torch, python3-torchvision). Each writes one file of
tests/fixtures; tests/parity compares. Shapes and element order in the files are Lockstep's: N,H,W,C and O,H,W,I.
"""
import json
import os
import struct

import numpy as np
import torch

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures")


def hashed(name, shape, scale=1.0, shift=0.0):
    """f32 numbers in [-scale, scale) + shift, the same bits as parity_hashed of tests/parity/parity.c."""
    seed = 2166136261  # FNV-1a over the name
    for byte in name.encode():
        seed = ((seed ^ byte) * 16777619) & 0xFFFFFFFF
    n = int(np.prod(shape))
    with np.errstate(over="ignore"):
        x = np.arange(n, dtype=np.uint32) * np.uint32(0x9E3779B1) + np.uint32(seed)
        for shift_right, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):  # lowbias32
            x = (x ^ (x >> np.uint32(shift_right))) * np.uint32(factor)
        x = x ^ (x >> np.uint32(16))
    unit = (x >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1)
    return (unit * np.float32(scale) + np.float32(shift)).reshape(shape)


def leaf(array):
    """A float64 leaf that wants its gradient."""
    return torch.tensor(array, dtype=torch.float64, requires_grad=True)


def to_nchw(x):
    return x.permute(0, 3, 1, 2)


def to_nhwc(x):
    return x.permute(0, 2, 3, 1)


def save(file_name, tensors):
    """tensors: name -> torch tensor or numpy array; floats are stored as f32, integers as i32."""
    header, blobs, offset = {}, [], 0
    for name in sorted(tensors):
        value = tensors[name]
        value = value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
        integer = np.issubdtype(value.dtype, np.integer)
        blob = np.ascontiguousarray(value, dtype="<i4" if integer else "<f4").tobytes()
        header[name] = {"dtype": "I32" if integer else "F32", "shape": list(value.shape),
                        "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    os.makedirs(FIXTURES, exist_ok=True)
    with open(os.path.join(FIXTURES, file_name), "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))
    print(file_name, 8 + len(text) + offset, "bytes")
