"""ops.safetensors: every op forward and backward, computed by PyTorch in float64.

A case is KIND/NAME. KIND/NAME.config holds the integers from which tests/parity/test_parity_ops.c builds the same small net;
inputs and parameters are hashed from their names. The loss is the output's sum weighted by hashed numbers, but for
the ops that are losses themselves.
"""
import numpy as np
import torch
import torch.nn.functional as F

from common import hashed, leaf, save, to_nchw, to_nhwc

results = {}


class Case:
    def __init__(self, name, config, shape):
        self.name = name
        self.leaves = {}
        results[name + ".config"] = np.array(config, dtype=np.int32)
        self.input = self.leaf("input", shape)

    def leaf(self, name, shape, scale=1.0, shift=0.0):
        value = leaf(hashed(f"{self.name}.{name}", shape, scale, shift))
        self.leaves[name] = value
        return value

    def finish(self, output, is_loss=False):
        self.put("output", output)
        weights = 1 if is_loss else torch.tensor(hashed(self.name + ".weights", tuple(output.shape)))
        (output * weights).sum().backward()
        for name, value in self.leaves.items():
            self.put("gradient." + name, value.grad)

    def put(self, name, value):
        results[f"{self.name}.{name}"] = value


def conv2d(name, n, h, w, c, out, kernel, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1, bias=False):
    case = Case("conv2d/" + name, [n, h, w, c, out, *kernel, *stride, *padding, *dilation, groups, bias], (n, h, w, c))
    weight = case.leaf("weight", (out, *kernel, c // groups), 0.5)
    b = case.leaf("bias", (out,)) if bias else None
    case.finish(to_nhwc(F.conv2d(to_nchw(case.input), to_nchw(weight), b, stride, padding, dilation, groups)))


def batch_norm(name, n, h, w, c, epsilon=1e-5, momentum=0.1, relu=False, relu6=False, add=False):
    shape = (n, h, w, c) if h else (n, c)
    # epsilon in units of 1e-6, momentum in thousandths
    case = Case("batch_norm/" + name, [n, h, w, c, round(epsilon * 1e6), round(momentum * 1e3), relu + 2 * relu6, add], shape)
    weight, bias = case.leaf("weight", (c,), 0.5, 1), case.leaf("bias", (c,))
    residual = case.leaf("residual", shape) * (8 if relu6 else 1) if add else 0
    mean = torch.tensor(hashed(case.name + ".running_mean", (c,)), dtype=torch.float64)
    var = torch.tensor(hashed(case.name + ".running_var", (c,), 0.5, 1), dtype=torch.float64)
    x = to_nchw(case.input) if h else case.input
    order = to_nhwc if h else (lambda y: y)
    activate = torch.relu if relu else F.relu6 if relu6 else (lambda y: y)
    normalise = lambda training: activate(  # noqa: E731
        order(F.batch_norm(x, mean, var, weight, bias, training, momentum, epsilon)) + residual)
    case.finish(normalise(True))
    case.put("running_mean", mean.clone())
    case.put("running_var", var.clone())
    case.put("evaluated", normalise(False))


def group_norm(name, n, h, w, c, groups, epsilon=1e-5):
    """groups 0: layer norm."""
    shape = (n, h, w, c) if h else (n, c)
    kind = "group_norm" if groups else "layer_norm"
    case = Case(f"{kind}/{name}", [n, h, w, c, groups, round(epsilon * 1e6)], shape)
    weight, bias = case.leaf("weight", (c,), 0.5, 1), case.leaf("bias", (c,))
    if not groups:
        case.finish(F.layer_norm(case.input, (c,), weight, bias, epsilon))
    elif h:
        case.finish(to_nhwc(F.group_norm(to_nchw(case.input), groups, weight, bias, epsilon)))
    else:
        case.finish(F.group_norm(case.input, groups, weight, bias, epsilon))


def linear(name, n, c, out, bias=True):
    case = Case("linear/" + name, [n, c, out, bias], (n, c))
    weight = case.leaf("weight", (out, c), 0.5)
    case.finish(F.linear(case.input, weight, case.leaf("bias", (out,)) if bias else None))


def pool(kind, name, n, h, w, c, kernel, stride, padding):
    case = Case(f"{kind}/{name}", [n, h, w, c, kernel, stride, padding], (n, h, w, c))
    function = F.max_pool2d if kind == "max_pool" else F.avg_pool2d
    case.finish(to_nhwc(function(to_nchw(case.input), kernel, stride, padding)))


def plain(kind, shape, function):
    """An op of one input without options."""
    case = Case(kind + "/plain", [*shape], shape)
    case.finish(function(case.input))


def add(n, h, w, c):
    case = Case("add/plain", [n, h, w, c], (n, h, w, c))
    case.finish(case.input + case.leaf("residual", (n, h, w, c)))


def mul(name, n, h, w, c, square=False):
    case = Case("mul/" + name, [n, h, w, c, square], (n, h, w, c))
    case.finish(case.input * (case.input if square else case.leaf("residual", (n, h, w, c))))


def concat(name, n, h, w, c, parts):
    """Each part is the input (0), the residual (1), the input's sigmoid (2), or the input with 5 channels of zeros (3)."""
    shape = (n, h, w, c) if h else (n, c)
    case = Case("concat/" + name, [n, h, w, c, len(parts), *parts], shape)
    x = case.input
    residual = case.leaf("residual", shape) if 1 in parts else None
    case.finish(torch.cat([(x, residual, torch.sigmoid(x), F.pad(x, (0, 5)))[part] for part in parts], -1))


def cross_entropy(name, n, k, smoothing=0.0, weighted=False, every=0):
    """Every `every`-th label is -1: left out."""
    case = Case("cross_entropy/" + name, [n, k, round(smoothing * 1000), weighted, every], (n, k))
    labels = np.arange(n) * 7 % k
    if every:
        labels[::every] = -1
    weights = torch.tensor(hashed(case.name + ".class_weights", (k,), 0.75, 1), dtype=torch.float64) if weighted else None
    # The C side hands the smoothing over as a float.
    case.finish(F.cross_entropy(case.input * 4, torch.tensor(labels), weights, ignore_index=-1,
                                label_smoothing=float(np.float32(smoothing))).reshape(1), is_loss=True)
    case.put("labels", labels.astype(np.int32))


def target_loss(name, n, k, function, smoothing=0.0, weighted=False):
    """A loss of targets in [0, 1); those of soft_cross_entropy are not divided by their sum, as PyTorch allows."""
    case = Case(name, [n, k, round(smoothing * 1000), weighted], (n, k))
    targets = torch.tensor(hashed(case.name + ".targets", (n, k), 0.5, 0.5), dtype=torch.float64)
    weights = torch.tensor(hashed(case.name + ".class_weights", (k,), 0.75, 1), dtype=torch.float64) if weighted else None
    case.finish(function(case.input * 4, targets, weights).reshape(1), is_loss=True)


def soft_cross_entropy(name, n, k, smoothing=0.0, weighted=False):
    target_loss("soft_cross_entropy/" + name, n, k, lambda x, t, w: F.cross_entropy(
        x, t, w, label_smoothing=float(np.float32(smoothing))), smoothing, weighted)


def binary_cross_entropy(name, n, k, weighted=False):
    target_loss("binary_cross_entropy/" + name, n, k,
                lambda x, t, w: F.binary_cross_entropy_with_logits(x, t, pos_weight=w), weighted=weighted)


conv2d("1x1", 2, 5, 7, 16, 24, (1, 1))
conv2d("1x1_stride2", 2, 8, 8, 32, 16, (1, 1), (2, 2))
conv2d("1x1_bias", 3, 4, 4, 5, 7, (1, 1), bias=True)
conv2d("3x3", 2, 9, 8, 16, 32, (3, 3), padding=(1, 1))
conv2d("3x3_first", 2, 12, 12, 3, 16, (3, 3), padding=(1, 1))
conv2d("3x3_wide", 2, 8, 8, 64, 64, (3, 3), padding=(1, 1))
conv2d("3x3_stride2", 2, 9, 10, 16, 32, (3, 3), (2, 2), (1, 1))
conv2d("3x3_odd_channels", 2, 7, 7, 10, 13, (3, 3), padding=(1, 1), bias=True)
conv2d("3x3_valid", 1, 6, 6, 8, 8, (3, 3), bias=True)
conv2d("3x3_dilation2", 2, 9, 9, 8, 16, (3, 3), padding=(2, 2), dilation=(2, 2))
conv2d("3x3_dilation_uneven", 1, 11, 9, 4, 4, (3, 3), (1, 2), (3, 1), (3, 1))
conv2d("3x3_groups", 2, 8, 8, 32, 64, (3, 3), padding=(1, 1), groups=4)
conv2d("3x3_groups_bias", 2, 6, 6, 12, 18, (3, 3), padding=(1, 1), groups=3, bias=True)
conv2d("3x3_depthwise", 2, 8, 8, 16, 16, (3, 3), (2, 2), (1, 1), groups=16)
conv2d("7x7_stride2", 1, 20, 20, 3, 16, (7, 7), (2, 2), (3, 3))
conv2d("5x3_uneven", 2, 9, 11, 6, 8, (5, 3), (2, 1), (2, 1), bias=True)

batch_norm("plain", 4, 5, 6, 16)
batch_norm("odd_channels", 3, 7, 5, 13, epsilon=1e-3, momentum=0.3)
batch_norm("matrix", 32, 0, 0, 20)
batch_norm("relu", 4, 6, 6, 32, relu=True)
batch_norm("add", 4, 4, 4, 16, add=True)
batch_norm("add_relu", 4, 6, 5, 32, relu=True, add=True)
batch_norm("add_relu_odd", 5, 3, 3, 7, momentum=0.5, relu=True, add=True)
batch_norm("add_relu6", 4, 6, 5, 32, relu6=True, add=True)

group_norm("image", 2, 4, 5, 24, 0, epsilon=1e-6)
group_norm("matrix", 6, 0, 0, 20, 0)
group_norm("plain", 3, 4, 5, 24, 4)
group_norm("one_group", 3, 4, 5, 10, 1, epsilon=1e-3)
group_norm("instances", 2, 5, 5, 6, 6)
group_norm("matrix", 6, 0, 0, 20, 5)

linear("bias", 8, 48, 10)
linear("no_bias", 5, 33, 17, bias=False)
linear("wide", 16, 128, 96)

pool("max_pool", "3_stride2_padding1", 2, 12, 11, 16, 3, 2, 1)
pool("max_pool", "2", 2, 8, 8, 5, 2, 2, 0)
pool("max_pool", "3_stride1", 2, 7, 6, 8, 3, 1, 0)
pool("avg_pool", "3_stride2_padding1", 2, 12, 11, 16, 3, 2, 1)
pool("avg_pool", "2", 2, 8, 8, 5, 2, 2, 0)

plain("global_avg_pool", (3, 7, 5, 24), lambda x: x.mean((1, 2)))
plain("relu", (2, 5, 5, 9), torch.relu)
plain("sigmoid", (2, 5, 5, 9), lambda x: torch.sigmoid(x))
for kind, function in (("relu6", F.relu6), ("tanh", torch.tanh), ("silu", F.silu), ("gelu", F.gelu)):
    plain(kind, (2, 5, 5, 9), lambda x, function=function: function(x * 8))
for kind, function in (("leaky_relu", lambda x: F.leaky_relu(x, 0.2)), ("hard_sigmoid", F.hardsigmoid), ("hard_swish", F.hardswish),
                       ("exp", torch.exp), ("log", lambda x: torch.log(torch.sigmoid(x))),
                       ("sqrt", lambda x: torch.sqrt(torch.sigmoid(x))), ("abs", torch.abs)):
    plain(kind, (2, 5, 5, 9), lambda x, function=function: function(x * 8))
plain("softmax", (2, 3, 4, 10), lambda x: F.softmax(x * 8, -1))
plain("flatten", (3, 4, 5, 6), lambda x: x.flatten(1))
plain("pad_channels", (2, 4, 3, 6), lambda x: F.pad(x, (0, 5)))  # 5 more, as test_parity_ops.c
add(2, 5, 4, 16)
mul("plain", 2, 5, 4, 16)
mul("square", 3, 4, 5, 7, square=True)  # one node twice
concat("plain", 2, 5, 4, 16, [0, 1])
concat("one_channel", 3, 4, 4, 1, [0, 1, 0])
concat("odd_channels", 2, 4, 3, 7, [3, 0, 1])
concat("twice", 2, 3, 3, 8, [0, 0])
concat("many", 2, 3, 4, 3, [0, 1, 2, 3, 0, 2, 1, 1, 3])
concat("matrix", 6, 0, 0, 5, [1, 2, 0])

cross_entropy("plain", 12, 10)
cross_entropy("smoothing", 12, 10, smoothing=0.1)
cross_entropy("weights", 9, 7, weighted=True)
cross_entropy("weights_smoothing", 16, 7, smoothing=0.2, weighted=True)
cross_entropy("ignored", 15, 5, every=4)
cross_entropy("ignored_weights_smoothing", 15, 12, smoothing=0.1, weighted=True, every=3)

soft_cross_entropy("plain", 12, 10)
soft_cross_entropy("smoothing", 12, 10, smoothing=0.1)
soft_cross_entropy("weights", 9, 7, weighted=True)
soft_cross_entropy("weights_smoothing", 16, 37, smoothing=0.2, weighted=True)
binary_cross_entropy("plain", 12, 10)
binary_cross_entropy("weights", 9, 37, weighted=True)
target_loss("mse/plain", 9, 21, lambda x, t, w: F.mse_loss(x, t))

save("ops.safetensors", results)
