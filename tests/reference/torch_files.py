"""PyTorch files for tests/io/test_torch_file.c and tests/checkpoint/test_load_weights.c, into tests/fixtures/torch. Element i of a
tensor is i / 4 - 3, which all element types hold exactly. An argument writes the one file of PyTorch 2 instead:

    /usr/bin/python3 tests/reference/torch_files.py
    python3 tests/reference/torch_files.py torch2      # with PyTorch 2.1 or later
"""
import argparse
import collections
import datetime
import os
import pathlib
import sys

import numpy
import torch

from common import FIXTURES

FOLDER = os.path.join(FIXTURES, "torch")


def numbers(*shape, dtype=torch.float32):
    n = 1
    for size in shape:
        n *= size
    return (torch.arange(n, dtype=torch.float64) / 4 - 3).reshape(shape).to(dtype)


def state_dict(dtype=torch.float32, n_classes=4):
    """Of the model of tests/checkpoint/checkpoint_support.c, in PyTorch's order of channels."""
    d = collections.OrderedDict()
    d["conv1.weight"] = numbers(8, 3, 3, 3, dtype=dtype)
    for name in ("weight", "bias", "running_mean", "running_var"):
        d["bn1." + name] = numbers(8, dtype=dtype)
    d["bn1.num_batches_tracked"] = torch.tensor(7)
    d["conv2.weight"] = numbers(6, 8, 3, 1, dtype=dtype)
    d["conv2.bias"] = numbers(6, dtype=dtype)
    d["fc.weight"] = numbers(n_classes, 6, dtype=dtype)
    d["fc.bias"] = numbers(n_classes, dtype=dtype)
    return d


def module():
    """A state dict of a module has an attribute _metadata, and its values are detached."""
    return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).state_dict()


def layouts():
    base = numbers(4, 6)
    return {
        "base": base,
        "rows": base[1:3],  # a view at an offset of the same storage
        "columns": base[:, 1::2],
        "transposed": base.t(),
        "channels_last": numbers(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "expanded": numbers(3).expand(5, 3),
        "scalar": torch.tensor(1.5),
        "empty": torch.zeros(0, 3),
        "parameter": torch.nn.Parameter(numbers(3)),
        "seven_dims": torch.zeros(1, 1, 1, 1, 1, 1, 1),
    }


def types():
    kinds = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
    d = {name: numbers(5, dtype=dtype) for name, dtype in kinds.items()}
    for name in ("int64", "int32", "int16", "int8", "uint8", "bool"):
        d[name] = torch.arange(5).to(getattr(torch, name))
    return d


def prefixed(prefix):
    return {prefix + name: value for name, value in state_dict().items()}


def optimizer():
    """The state after a step: tensors by number."""
    parameter = torch.nn.Parameter(numbers(4))
    parameter.grad = numbers(4)
    optimizer = torch.optim.Adam([parameter])
    optimizer.step()
    return optimizer.state_dict()


def values():
    """What training scripts save beside the weights."""
    per_class = collections.defaultdict(list)
    per_class["cat"].append(0.5)
    return {"args": argparse.Namespace(lr=0.1, model="small"), "accuracy": numpy.float64(0.5), "mean": numpy.zeros(3),
            "size": torch.Size([3, 224, 224]), "device": torch.device("cpu"), "dtype": torch.float16, "classes": {"cat", "dog"},
            "bytes": b"abc", "begun": datetime.datetime(2026, 1, 1), "folder": pathlib.PurePosixPath("data"),
            "per_class": per_class, "seed": 1 << 80, "rng": torch.get_rng_state()[:16], "norm": {"std": numbers(3)}}


def save(name, value):
    torch.save(value, os.path.join(FOLDER, name))


os.makedirs(FOLDER, exist_ok=True)
if sys.argv[1:] == ["torch2"]:
    save("torch2.pt", state_dict())
    sys.exit()
save("state_dict.pt", state_dict())
save("f64.pt", state_dict(torch.float64))
save("bf16.pt", state_dict(torch.bfloat16))
save("five_classes.pt", state_dict(n_classes=5))
save("nested.pt", {"epoch": 3, "best": 0.5, "arch": "small", "state_dict": prefixed("module."),
                   "optimizer": {"state": {}, "param_groups": [{"lr": 0.1, "betas": (0.9, 0.999), "params": [0, 1]}]}})
save("model.pt", {"model": state_dict(), "none": None, "flag": True})
save("module.pt", module())
save("layouts.pt", layouts())
save("types.pt", types())
save("whole_model.pt", torch.nn.Linear(2, 2))
save("model_object.pt", {"model": torch.nn.Linear(2, 2), "epoch": 3})
torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), os.path.join(FOLDER, "script.pt"))
averaged = {"n_averaged": torch.tensor(5), **prefixed("module.")}
other = {name: value + 1 for name, value in state_dict().items()}
save("checkpoint.pt", {"model": other, "model_ema": averaged, "optimizer": optimizer(), **values()})
save("unusual_key.pt", {"weights of the small net": state_dict(), **values()})
save("lightning.pt", {"state_dict": {**prefixed("model."), "criterion.weight": numbers(4)}, "hyper_parameters": values()})
shared = state_dict()
save("shared.pt", {"state_dict": shared, "model_ema": shared})
save("mean_inside.pt", {**state_dict(), "norm": {"mean": numbers(3)}})
save("two_nets.pt", {"student": other, "teacher": state_dict()})
save("two_prefixes.pt", {**prefixed("teacher."), **{"student." + name: value for name, value in other.items()}})
save("key_in_prefix.pt", {"model": {**prefixed("model.teacher."), **{"model.student." + name: value for name, value in other.items()}}})
save("no_tensor.pt", {"epoch": 3})
torch.save(state_dict(), os.path.join(FOLDER, "before_1.6.pt"), _use_new_zipfile_serialization=False)
torch.save({"model": prefixed("_orig_mod."), "optimizer": optimizer(), **values()},
           os.path.join(FOLDER, "checkpoint_before_1.6.pt"), _use_new_zipfile_serialization=False)
