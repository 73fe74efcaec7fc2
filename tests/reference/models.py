"""Bundled models, most against torchvision's: logits, loss and gradients of one step, and the weights and buffers after five
steps of SGD and of AdamW, in float64.

Writes model_NAME.safetensors for each name on the command line (default: all), and prints how far PyTorch's own f32 is
from it. Weights and inputs are hashed from their names. Four things keep rounding errors from growing to 1e-4:

- Alternating batch norm and ReLU amplify small differences from layer to layer, in wide_resnet50_2 from 1e-6 to 2e-4. A
  residual branch that ends in a norm of small weight, and an activation that is linear for most values, amplify less
  (NORMS).
- As in resnet18.py, biases are moved so that no activation of the first step is near a kink of ReLU or ReLU6: in f32 it
  could fall on the other side. The fixture holds these shifts, no weights.
- For the same reason the largest two values of each window of VGG's max pools are kept apart: the input channels of each
  filter of the convolution before a pool are rotated. The fixture holds by how many channels.
- Later steps put activations of narrow layers at kinks, too, where processors whose kernels round differently part: with
  AdamW's learning rate of 1e-4, mobilenet_v2 did in 2 of 16 runs whose weights were moved by an ulp. With the learning
  rates below no run of MOVED does.
"""
import copy
import math
import sys

import numpy as np
import torch
import torchvision

from common import hashed, save, to_nchw, to_nhwc

N_CLASSES, N_STEPS, PROJECTIONS, ROLLS = 10, 5, 8, 32
MOVED, MAX_DISTANCE = 24, 5e-5  # runs with moved weights; half of the tolerance of test_parity_models.c
# name: side of the images, batch size, and for SGD and AdamW the learning rate and the weight decay. Larger learning rates
# put other activations at kinks in later steps. Weight decay is large enough that losses or weights show a wrong one.
MODELS = {
    "mobilenet_v2": (64, 8, (1e-3, 0.1), (1.2e-4, 2)),
    "wide_resnet50_2": (64, 8, (5e-4, 0.2), (5e-6, 40)),
    "resnext50_32x4d": (64, 8, (5e-4, 0.2), (1e-5, 20)),
    "vgg16_bn": (224, 1, (1e-3, 0.1), (1e-5, 20)),  # large: 138 million parameters
    "wide_resnet28_10": (8, 8, (2e-4, 0.5), (5e-6, 40)),
    "mlp": (8, 8, (5e-3, 0.1), (1e-3, 0.2)),
    "lenet5": (28, 8, (5e-3, 0.1), (1e-3, 0.2)),
    "resnet18": (64, 8, (5e-4, 0.2), (1e-5, 20)),
}
# name: end of a norm's name, and around what its weights and biases are. Others are around 1 and 0.
NORMS = {
    "mobilenet_v2": (".1", 2, 3),  # before ReLU6
    "wide_resnet50_2": (".bn3", 0.25, 0),
    "resnext50_32x4d": (".bn3", 0.25, 0),
    "resnet18": (".bn2", 0.25, 0),
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


class LeNet5(torch.nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.conv1, self.relu1, self.pool1 = torch.nn.Conv2d(3, 6, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2)
        self.conv2, self.relu2, self.pool2 = torch.nn.Conv2d(6, 16, 5), torch.nn.ReLU(), torch.nn.MaxPool2d(2)
        self.fc1, self.relu3 = torch.nn.Linear(16 * 5 * 5, 120), torch.nn.ReLU()
        self.fc2, self.relu4 = torch.nn.Linear(120, 84), torch.nn.ReLU()
        self.fc3 = torch.nn.Linear(84, num_classes)

    def forward(self, x):  # fc1 as Mlp's
        x = self.pool2(self.relu2(self.conv2(self.pool1(self.relu1(self.conv1(x))))))
        return self.fc3(self.relu4(self.fc2(self.relu3(self.fc1(to_nhwc(x).flatten(1))))))


def model(name):
    own = {"wide_resnet28_10": WideResNet, "mlp": Mlp, "lenet5": LeNet5}
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
            layer, kind = key.rsplit(".", 1)
            end, weight, bias = NORMS.get(name, ("", 1, 0))
            if not (isinstance(net.get_submodule(layer), torch.nn.BatchNorm2d) and layer.endswith(end)):
                weight, bias = 1, 0
            p.data.copy_(torch.tensor(hashed(key, p.shape, 0.1 * weight, weight) if kind == "weight" else
                                      hashed(key, p.shape, 0.1, bias)))
    return net


def rotate_filters(net, conv, norm, x):
    """Rotates each filter's input channels so that the largest two values of each 2x2 window of norm(conv(x)) are apart
    wherever the largest may be above 0. Returns by how many channels, and the smallest distance that is left, in stds."""
    weight, best, rolls = conv.weight.data.clone(), None, None
    for roll in range(min(ROLLS, weight.shape[1])):
        z = norm(torch.nn.functional.conv2d(x, weight.roll(roll, 1), conv.bias, conv.stride, conv.padding))
        n, channels, h, w = z.shape
        windows = z.reshape(n, channels, h // 2, 2, w // 2, 2).permute(1, 0, 2, 4, 3, 5).reshape(channels, -1, 4)
        largest = windows.topk(2).values
        gaps = torch.where(largest[..., 0] > -0.1, largest[..., 0] - largest[..., 1], math.inf).min(1).values
        if best is None:
            best, rolls = gaps, torch.zeros(channels, dtype=torch.uint8)
        rolls[gaps > best] = roll
        best = torch.maximum(gaps, best)
    conv.weight.data.copy_(torch.stack([weight[c].roll(int(roll), 0) for c, roll in enumerate(rolls)]))
    return rolls, (best.min() / z.std()).item()


def move_from_kinks(name, net, x):
    """Runs the net forward. Before each ReLU rotates filters, if it is VGG's before a max pool, and moves the biases of the
    last layer so that no value of a channel is near a kink. Returns the shifts in thousandths, plus 50, and the rotations,
    each by the parameter's name, and the smallest distance that is left, in stds."""
    ran, shifts, rolls, distances = [], {}, {}, [math.inf]
    names = {m: key for key, m in net.named_modules()}
    modules = list(net.modules())
    candidates = (torch.arange(101, dtype=torch.float64) - 50) / 1000

    def note(module, inputs, output):
        ran.append((module, inputs[0]))

    def activation(module, kinks):
        def forward(z):
            layer = ran[-1][0]
            following = modules[modules.index(module) + 1:][:1]
            if name == "vgg16_bn" and following and isinstance(following[0], torch.nn.MaxPool2d):
                conv, input = ran[-2]
                rolls[names[conv] + ".weight"], distance = rotate_filters(net, conv, layer, input)
                distances.append(distance)
                z = layer(conv(input))
            values = z.transpose(0, 1).flatten(1).sort(1).values.contiguous()
            margins = torch.full((len(values), len(candidates)), math.inf, dtype=torch.float64)
            for k in kinks:
                wanted = (k - candidates).expand(len(values), -1).contiguous()
                above = torch.searchsorted(values, wanted)
                for neighbour in (above - 1).clamp(min=0), above.clamp(max=values.shape[1] - 1):
                    margins = torch.minimum(margins, (values.gather(1, neighbour) - wanted).abs())
            chosen = margins.argmax(1)
            bias = layer.bias.data.clone()
            layer.bias.data.copy_((bias + candidates[chosen]).float())
            z = z + (layer.bias.data - bias).reshape([-1] + [1] * (z.dim() - 2))
            assert names[layer] + ".bias" not in shifts
            shifts[names[layer] + ".bias"] = chosen.byte()
            distances.append(min((z - k).abs().min().item() for k in kinks) / z.std().item())
            return z.clamp(min=0) if len(kinks) == 1 else z.clamp(0, kinks[1])
        return forward

    activations = [m for m in modules if isinstance(m, (torch.nn.ReLU, torch.nn.ReLU6))]
    hooks = [m.register_forward_hook(note) for m in modules
             if isinstance(m, (torch.nn.Conv2d, torch.nn.BatchNorm2d, torch.nn.Linear))]
    for m in activations:
        m.forward = activation(m, (0, 6) if isinstance(m, torch.nn.ReLU6) else (0,))
    buffers = copy.deepcopy(dict(net.named_buffers()))
    with torch.no_grad():
        net(x)
        for key, b in net.named_buffers():
            b.copy_(buffers[key])
    for m in activations:
        del m.forward
    for h in hooks:
        h.remove()
    return shifts, rolls, min(distances)


def projections(tensors):
    """A row [norm, p_1, ...] for each tensor, in the order of their names: its L2 norm and its products with hashed
    vectors."""
    rows = []
    for key in sorted(tensors):
        x = tensors[key].detach()
        flat = (to_nhwc(x) if x.dim() == 4 else x).reshape(-1).double().numpy()
        products = [flat @ hashed("%s projection %d" % (key, i), flat.shape).astype(np.float64)
                    for i in range(PROJECTIONS)]
        rows.append([math.sqrt(flat @ flat)] + products)
    return np.array(rows)


def state(net):
    return {key: v for key, v in net.state_dict().items() if not key.endswith("num_batches_tracked")}


def compute(name, net, x, labels):
    """All that is compared, of a net whose parameters are set."""
    start, results = copy.deepcopy(net), {}
    logits = net(x)
    loss = torch.nn.functional.cross_entropy(logits, labels)
    loss.backward()
    results.update(logits=logits.detach(), loss=loss.detach().reshape(1),
                   gradients=projections({key: p.grad for key, p in net.named_parameters()}))
    for kind, (lr, decay) in zip(("sgd", "adamw"), MODELS[name][2:]):
        net = copy.deepcopy(start)
        # a small epsilon would enlarge the rounding errors of gradients near 0
        optimizer = (torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9, weight_decay=decay) if kind == "sgd" else
                     torch.optim.AdamW(net.parameters(), lr=lr, eps=1e-3, weight_decay=decay))
        losses = []
        for _ in range(N_STEPS):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(x), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        results[kind + "_losses"] = np.array(losses)
        results[kind] = projections(state(net))
        if kind == "sgd":
            with torch.no_grad():
                results["evaluated"] = net.eval()(x)
        del optimizer
    return results


def distances(results, wanted, buffers):
    """Relative distances of results from wanted, as test_parity_models.c measures them; of many tensors the largest."""
    far = {}
    for key, b in wanted.items():
        a, b = np.asarray(results[key], dtype=np.float64), np.asarray(b, dtype=np.float64)
        if key in ("gradients", "sgd", "adamw"):
            largest = b[:, 0].max()
            norms = np.where(b[:, 0] < 1e-9 * largest, 1e-2 * largest, b[:, 0])
            apart = np.sqrt(3 * ((a - b)[:, 1:] ** 2).mean(1)) / norms
            far[key] = apart.max() if key == "gradients" else apart[~buffers].max()
            if buffers.any() and key != "gradients":
                far[key + "_buffers"] = apart[buffers].max()
        else:
            far[key] = np.linalg.norm(a - b) / np.linalg.norm(b)
    return far


def moved_by_an_ulp(net, generator):
    """A copy of a net in f32 with each parameter replaced by one of its neighbours."""
    net = copy.deepcopy(net)
    for p in net.parameters():
        up = torch.rand(p.shape, generator=generator) < 0.5
        p.data = torch.nextafter(p.data, torch.where(up, math.inf, -math.inf).float())
    return net


def write(name):
    side, batch = MODELS[name][:2]
    net = model(name)
    x = to_nchw(torch.tensor(hashed("images", (batch, side, side, 3), 2)).double())
    labels = torch.tensor(np.floor((hashed("labels", (batch,)) + 1) * (N_CLASSES / 2))).long()
    moved, rolls, distance = move_from_kinks(name, net, x)
    print(name, "no activation is nearer to a kink than %.1e stds" % distance)
    assert distance > 2e-5
    biases = {key: torch.full(p.shape, 50, dtype=torch.uint8) for key, p in net.named_parameters() if "bias" in key}
    biases.update(moved)
    fixture = {"rolls." + key: r.int() for key, r in rolls.items()}
    shifts = torch.cat([biases[key] for key in sorted(biases)]).numpy()
    fixture["shifts"] = np.pad(shifts, (0, -len(shifts) % 4), constant_values=50).view("<i4")  # 4 to a number
    single, before = copy.deepcopy(net).float(), projections(state(net))
    keys = sorted(state(net))
    results = compute(name, net, x, labels)
    save("model_%s.safetensors" % name, {**fixture, **results})
    buffers = np.array(["running" in key for key in keys])
    for kind in ("sgd", "adamw"):
        moves = np.sqrt(3 * ((results[kind] - before)[:, 1:] ** 2).mean(1)) / before[:, 0].clip(1e-30)
        print(kind, "losses", results[kind + "_losses"], "weights move by %.1e to %.1e of their norm" %
              (moves[~buffers].min(), moves[~buffers].max()))
    generator = torch.Generator().manual_seed(0)
    runs = [single] + [moved_by_an_ulp(single, generator) for _ in range(MOVED)]
    far = [distances(compute(name, run, x.float(), labels), results, buffers) for run in runs]
    print("PyTorch's f32:", ", ".join("%s %.1e" % item for item in far[0].items()))
    largest = {key: max(run[key] for run in far) for key in far[0]}
    print("with weights moved by an ulp, at most:", ", ".join("%s %.1e" % item for item in largest.items()), flush=True)
    assert max(largest.values()) < MAX_DISTANCE


for wanted in sys.argv[1:] or MODELS:
    write(wanted)
