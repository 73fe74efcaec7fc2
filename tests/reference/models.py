"""Bundled models, most against torchvision's: logits, loss and gradients of one step, and the weights and buffers after five
steps of SGD and of AdamW, in float64.

Writes model_NAME.safetensors for each name on the command line (default: all). Weights and inputs are hashed from their
names. As in resnet18.py, biases are moved so that no activation of the first step is near a kink of ReLU or ReLU6: in
f32 it could fall on the other side. The fixture holds these shifts, no weights.
"""
import copy
import math
import sys

import numpy as np
import torch
import torchvision

from common import hashed, save, to_nchw, to_nhwc

N_CLASSES, PROJECTIONS = 10, 8
# name: side of the images, learning rates of SGD and of AdamW, batch size, steps. With larger learning rates later steps have other activations at
# kinks, and PyTorch's own f32 is up to 0.1 from its float64 after five steps.
MODELS = {
    "mobilenet_v2": (64, 5e-5, 1e-5, 8, 5),
    "wide_resnet50_2": (64, 5e-6, 1e-6, 8, 5),
    "resnext50_32x4d": (64, 5e-6, 1e-6, 8, 5),
    "vgg16_bn": (224, 5e-6, 1e-6, 1, 1),  # large: 138 million parameters
    "wide_resnet28_10": (8, 2e-4, 1e-6, 8, 5),
    "mlp": (8, 5e-3, 1e-3, 8, 5),
}


class WideBlock(torch.nn.Module):
    """A pre-activation block of WideResNet; names as in github.com/xternalz/WideResNet-pytorch."""

    def __init__(self, channels, out, stride):
        super().__init__()
        conv, norm, relu = torch.nn.Conv2d, torch.nn.BatchNorm2d, torch.nn.ReLU
        self.bn1, self.relu1, self.conv1 = norm(channels), relu(), conv(channels, out, 3, stride, 1, bias=False)
        self.bn2, self.relu2, self.conv2 = norm(out), relu(), conv(out, out, 3, 1, 1, bias=False)
        self.convShortcut = conv(channels, out, 1, stride, bias=False) if channels != out else None

    def forward(self, x):
        a = self.relu1(self.bn1(x))
        y = self.conv2(self.relu2(self.bn2(self.conv1(a))))
        return y + (self.convShortcut(a) if self.convShortcut else x)


class WideResNet(torch.nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 16, 3, padding=1, bias=False)
        channels = 16
        for stage, out in enumerate((160, 320, 640)):
            blocks = torch.nn.Sequential()
            for i in range(4):
                blocks.append(WideBlock(channels, out, 2 if stage > 0 and i == 0 else 1))
                channels = out
            setattr(self, "block%d" % (stage + 1), torch.nn.ModuleDict({"layer": blocks}))
        self.bn1, self.relu, self.fc = torch.nn.BatchNorm2d(640), torch.nn.ReLU(), torch.nn.Linear(640, num_classes)

    def forward(self, x):
        x = self.conv1(x)
        for block in (self.block1, self.block2, self.block3):
            x = block["layer"](x)
        return self.fc(self.relu(self.bn1(x)).mean((2, 3)))


class Mlp(torch.nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.fc1, self.relu1 = torch.nn.Linear(3 * 8 * 8, 512), torch.nn.ReLU()
        self.fc2, self.relu2 = torch.nn.Linear(512, 512), torch.nn.ReLU()
        self.fc3 = torch.nn.Linear(512, num_classes)

    def forward(self, x):  # in memory the columns of fc1 are in the order H,W,C
        x = self.relu1(self.fc1(to_nhwc(x).flatten(1)))
        return self.fc3(self.relu2(self.fc2(x)))


def model(name):
    own = {"wide_resnet28_10": WideResNet, "mlp": Mlp}
    net = (own.get(name) or getattr(torchvision.models, name))(num_classes=N_CLASSES)
    for m in net.modules():
        if isinstance(m, torch.nn.Dropout):
            m.p = 0
    net = net.double().train()
    for key, p in net.named_parameters():
        fan_in = p.numel() // p.shape[0]
        if p.dim() == 4:  # He et al. 2015: variance 2 / fan_in
            shape = to_nhwc(p).shape
            p.data.copy_(to_nchw(torch.tensor(hashed(key, shape, math.sqrt(6.0 / fan_in)))))
        elif p.dim() == 2:
            p.data.copy_(torch.tensor(hashed(key, p.shape, 1 / math.sqrt(fan_in))))
        else:
            p.data.copy_(torch.tensor(hashed(key, p.shape, 0.1, 1 if key.endswith("weight") else 0)))
    return net


def move_biases_from_kinks(net, x):
    """Runs the net forward; before each ReLU moves the biases of the last layer before it so that no value of a channel
    is near a kink. Returns for each of these layers, by name, by how many thousandths, plus 50, and the smallest
    distance that is left, in stds."""
    last, moved, distances = [None], {}, []
    names = {m: key for key, m in net.named_modules()}

    def note(module, inputs, output):
        last[0] = module

    def activation(kinks):
        def forward(z):
            layer = last[0]
            shifts = (torch.arange(101, dtype=torch.float64) - 50) / 1000
            chosen = torch.zeros(z.shape[1], dtype=torch.uint8)
            for c, values in enumerate(z.transpose(0, 1).flatten(1)):
                margins = torch.stack([(values[None] + shifts[:, None] - k).abs().min(1).values for k in kinks])
                margins = margins.min(0).values
                chosen[c] = margins.argmax()
                bias = layer.bias.data[c].clone()
                layer.bias.data[c] = (bias + shifts[chosen[c].long()]).float().double()
                z[:, c] += layer.bias.data[c] - bias
            assert names[layer] not in moved
            moved[names[layer]] = chosen
            distances.append(min((z - k).abs().min().item() for k in kinks) / z.std().item())
            return z.clamp(min=0) if len(kinks) == 1 else z.clamp(0, kinks[1])
        return forward

    activations = [m for m in net.modules() if isinstance(m, (torch.nn.ReLU, torch.nn.ReLU6))]
    hooks = [m.register_forward_hook(note) for m in net.modules()
             if isinstance(m, (torch.nn.BatchNorm2d, torch.nn.Linear))]
    for m in activations:
        m.forward = activation((0, 6) if isinstance(m, torch.nn.ReLU6) else (0,))
    buffers = copy.deepcopy(dict(net.named_buffers()))
    with torch.no_grad():
        net(x)
        for key, b in net.named_buffers():
            b.copy_(buffers[key])
    for m in activations:
        del m.forward
    for h in hooks:
        h.remove()
    return moved, min(distances)


def projections(tensors):
    """A row [norm, p_1, ...] for each tensor, in the order of their names: its L2 norm and its products with hashed
    vectors."""
    rows = []
    for key in sorted(tensors):
        x = tensors[key].detach()
        flat = (to_nhwc(x) if x.dim() == 4 else x).reshape(-1).numpy()
        products = [flat @ hashed("%s projection %d" % (key, i), flat.shape).astype(np.float64)
                    for i in range(PROJECTIONS)]
        rows.append([math.sqrt(flat @ flat)] + products)
    return np.array(rows)


def state(net):
    return {key: v for key, v in net.state_dict().items() if not key.endswith("num_batches_tracked")}


def steps(n_steps, net, optimizer, x, labels):
    losses = []
    for _ in range(n_steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def write(name):
    side, sgd_lr, adamw_lr, batch, n_steps = MODELS[name]
    net = model(name)
    x = to_nchw(torch.tensor(hashed("images", (batch, side, side, 3), 2)).double())
    labels = torch.tensor(np.floor((hashed("labels", (batch,)) + 1) * (N_CLASSES / 2))).long()
    moved, distance = move_biases_from_kinks(net, x)
    print(name, "no activation is nearer to a kink than %.1e stds" % distance)
    assert distance > 2e-5
    biases = {key: torch.full(p.shape, 50, dtype=torch.uint8) for key, p in net.named_parameters() if "bias" in key}
    biases.update({key + ".bias": shifts for key, shifts in moved.items()})
    shifts = torch.cat([biases[key] for key in sorted(biases)]).numpy()
    results = {"shifts": np.pad(shifts, (0, -len(shifts) % 4), constant_values=50).view("<i4")}  # 4 to a number
    start = copy.deepcopy(net)
    logits = net(x)
    loss = torch.nn.functional.cross_entropy(logits, labels)
    loss.backward()
    results.update(logits=logits, loss=loss.reshape(1),
                   gradients=projections({key: p.grad for key, p in net.named_parameters()}))
    for kind in ("sgd", "adamw"):
        net = copy.deepcopy(start)
        # a small epsilon would enlarge the rounding errors of gradients near 0
        optimizer = (torch.optim.SGD(net.parameters(), lr=sgd_lr, momentum=0.9, weight_decay=1e-3) if kind == "sgd" else
                     torch.optim.AdamW(net.parameters(), lr=adamw_lr, eps=1e-3, weight_decay=0.1))
        results[kind + "_losses"] = steps(n_steps, net, optimizer, x, labels)
        results[kind] = projections(state(net))
        if kind == "sgd":
            results["evaluated"] = net.eval()(x)
        print(kind, results[kind + "_losses"])
    save("model_%s.safetensors" % name, results)


for wanted in sys.argv[1:] or MODELS:
    write(wanted)
