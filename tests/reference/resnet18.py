"""resnet18 for 32x32 images: all gradients of one step in float64, and the losses of ten SGD steps in f32.

Writes resnet18_gradients.safetensors and resnet18_steps.safetensors, each in a minute or two. Weights and inputs are
hashed from their names.

The gradient of ReLU jumps at 0: where an activation falls on different sides of it in f32 and in float64, gradients are
1e-3 apart although nothing is wrong, and among 9 million activations one or two do. So the biases of batch norm are
moved a little, channel by channel, until no activation is near 0. They are the only weights that the fixture holds.
"""
import math
import sys

import numpy as np
import torch
import torchvision

from common import hashed, leaf, save, to_nchw, to_nhwc

N_CLASSES = 10
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PROJECTIONS = 32


def model():
    net = torchvision.models.resnet18(num_classes=N_CLASSES)
    net.conv1 = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False)
    net.maxpool = torch.nn.Identity()
    net = net.double().train()
    for name, p in net.named_parameters():
        if p.dim() == 4:  # He et al. 2015: variance 2 / fan_in
            shape = to_nhwc(p).shape
            p.data.copy_(to_nchw(torch.tensor(hashed(name, shape, math.sqrt(6.0 / (p.numel() // p.shape[0]))))))
        elif p.dim() == 2:  # PyTorch's default
            p.data.copy_(torch.tensor(hashed(name, p.shape, 1 / math.sqrt(p.shape[1]))))
        elif name.endswith("weight"):
            p.data.copy_(torch.tensor(hashed(name, p.shape, 0.1, 1)))
        else:
            p.data.copy_(torch.tensor(hashed(name, p.shape, 0.1)))
    return net


def labels(name, n):
    """Classes in [0, N_CLASSES)."""
    return torch.tensor(np.floor((hashed(name, (n,)) + 1) * (N_CLASSES / 2))).long()


def project(name, x):
    """[norm, p_1, ...]: the L2 norm of a tensor and its products with hashed vectors, from which parity_check_projected
    tells how far ours is from it; 11 million gradients would be 45 MB."""
    x = to_nhwc(x) if x.dim() == 4 else x
    flat = x.detach().reshape(-1).numpy()
    products = [flat @ hashed("%s projection %d" % (name, i), flat.shape).astype(np.float64) for i in range(PROJECTIONS)]
    return np.array([math.sqrt(flat @ flat)] + products)


def move_biases_from_kinks(net, x):
    """Runs the net forward; before each ReLU moves the biases of the norm before it so that 0 lies in the middle of a
    wide gap between the channel's values. Returns the smallest distance from 0 that is left, in stds."""
    norms = [net.bn1]
    for stage in (net.layer1, net.layer2, net.layer3, net.layer4):
        for block in stage:
            norms += [block.bn1, block.bn2]
    next_norm = iter(norms)
    distances = []

    def relu(z):
        norm = next(next_norm)
        for channel, values in enumerate(torch.sort(z.transpose(0, 1).flatten(1), dim=1).values):
            middle, gap = (values[1:] + values[:-1]) / 2, values[1:] - values[:-1]
            reach = max(0.02, middle.abs().min().item())
            widest = torch.argmax(torch.where(middle.abs() <= reach, gap, torch.zeros_like(gap)))
            bias = norm.bias.data[channel].clone()
            norm.bias.data[channel] = (bias - middle[widest]).float().double()
            z[:, channel] += norm.bias.data[channel] - bias
        distances.append((z.abs().min() / z.std()).item())
        return torch.relu(z)

    relus = [m for m in net.modules() if isinstance(m, torch.nn.ReLU)]
    for m in relus:
        m.forward = relu
    with torch.no_grad():
        net(x)
    for m in relus:
        del m.forward
    return min(distances)


def gradients(batch):
    net, results = model(), {}
    x = leaf(hashed("images", (batch, 32, 32, 3), 2))
    distance = move_biases_from_kinks(net, to_nchw(x.detach()))
    print("no activation is nearer to 0 than %.1e stds" % distance)
    assert distance > 5e-5
    for name, p in net.named_parameters():
        if p.dim() == 1 and name.endswith("bias") and not name.startswith("fc."):
            results[name] = p
    loss = torch.nn.functional.cross_entropy(net(to_nchw(x)), labels("labels", batch))
    loss.backward()
    results["loss"] = loss.reshape(1)
    results["gradient.input"] = project("input", x.grad.permute(0, 3, 1, 2))
    for name, p in net.named_parameters():
        results["gradient." + name] = project(name, p.grad)
    save("resnet18_gradients.safetensors", results)


def losses_of_steps(batch, memory_format):
    net = model().float().to(memory_format=memory_format)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    losses = []
    for step in range(10):
        pixels = np.floor((hashed("pixels %d" % step, (batch, 32, 32, 3)) + 1) * 128)
        x = to_nchw(torch.tensor((pixels / np.float32(255) - np.float32(MEAN)) / np.float32(DEVIATION)))
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x.contiguous(memory_format=memory_format)),
                                                 labels("labels %d" % step, batch))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def steps(batch):
    """In f32: float64 takes a quarter of an hour. How far PyTorch is from itself shows what that costs."""
    losses = losses_of_steps(batch, torch.contiguous_format)
    apart = np.abs(losses_of_steps(batch, torch.channels_last) / losses - 1)
    print("losses:", losses)
    print("PyTorch's two layouts are %.1e apart" % apart.max())
    save("resnet18_steps.safetensors", {"losses": losses})


if "steps" not in sys.argv[1:]:
    gradients(batch=16)
if "gradients" not in sys.argv[1:]:
    steps(batch=64)
