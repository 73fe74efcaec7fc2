"""PyTorch's side of versus_pytorch.py: the same nets, and a training step with the settings in a side's name.

A side is words joined by '+', in any order:

    channels_last, contiguous    the memory layout; the former where it says none
    eager                        PyTorch as it comes
    compile                      torch.compile of the net and its loss
    compile_step                 the same, and of the optimizer's step
    fused, foreach               that implementation of SGD
    bf16, f16, f32               autocast (or none), instead of the run's precision
    batch8                       that batch instead of the run's, where a step would take minutes
    threads1                     that many threads instead of the run's
"""
import statistics
import time

import torch
from torch import nn

ARCHITECTURES = {  # width, bottleneck, blocks of each stage; as models/resnet.c
    "resnet20": (16, False, (3, 3, 3)),
    "resnet18": (64, False, (2, 2, 2, 2)),
    "resnet34": (64, False, (3, 4, 6, 3)),
    "resnet50": (64, True, (3, 4, 6, 3)),
}


class Block(nn.Module):
    def __init__(self, before, width, stride, bottleneck):
        super().__init__()
        channels = 4 * width if bottleneck else width
        shapes = [(before, width, 1, 1), (width, width, 3, stride), (width, channels, 1, 1)] if bottleneck else \
            [(before, width, 3, stride), (width, channels, 3, 1)]
        self.convs = nn.ModuleList(nn.Conv2d(a, b, k, s, k // 2, bias=False) for a, b, k, s in shapes)
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) for _, b, _, _ in shapes)
        self.shortcut = None
        if stride != 1 or before != channels:
            self.shortcut = nn.Sequential(nn.Conv2d(before, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = x
        for i, (conv, norm) in enumerate(zip(self.convs, self.norms)):
            y = norm(conv(y))
            if i < len(self.convs) - 1:
                y = self.relu(y)
        return self.relu(y + (x if self.shortcut is None else self.shortcut(x)))


def model(name, image_size, classes):
    """A resnet of ARCHITECTURES, or a model of torchvision."""
    if name not in ARCHITECTURES:
        import torchvision  # other rows do not need it
        return getattr(torchvision.models, name)(num_classes=classes)
    return resnet(name, image_size, classes)


def resnet(name, image_size, classes):
    width, bottleneck, blocks = ARCHITECTURES[name]
    stem = nn.Conv2d(3, width, 3, 1, 1, bias=False) if image_size < 64 else nn.Conv2d(3, width, 7, 2, 3, bias=False)
    layers = [stem, nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
    if image_size >= 64:
        layers.append(nn.MaxPool2d(3, 2, 1))
    channels = width
    for stage, n in enumerate(blocks):
        for i in range(n):
            layers.append(Block(channels, width << stage, 2 if stage > 0 and i == 0 else 1, bottleneck))
            channels = (width << stage) * (4 if bottleneck else 1)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


def lenet():
    layers = []
    for before, after, padding in ((1, 6, 2), (6, 16, 0)):
        layers += [nn.Conv2d(before, after, 5, padding=padding), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                         nn.Linear(84, 10))


SMALL = {"mlp": mlp, "lenet": lenet}  # as bench_small.c; images of 28 x 28, one channel


def parse_side(side, run):
    """What a side is made of; `run` has the defaults: precision, batch, threads."""
    words = side.split("+")
    made = {"channels_last": True, "compile": False, "compile_step": False, "sgd": None, "precision": run.precision,
            "batch": run.batch, "threads": run.threads}
    for word in words:
        if word in ("contiguous", "channels_last"):
            made["channels_last"] = word == "channels_last"
        elif word == "eager":
            pass
        elif word in ("compile", "compile_step"):
            made["compile"], made["compile_step"] = True, word == "compile_step"
        elif word in ("fused", "foreach"):
            made["sgd"] = word
        elif word in ("f32", "bf16", "f16"):
            made["precision"] = word
        elif word.startswith("batch"):
            made["batch"] = int(word[len("batch"):])
        elif word.startswith("threads"):
            made["threads"] = int(word[len("threads"):])
        else:
            raise ValueError("no side of PyTorch: " + side)
    return made


class Side:
    """A net with its optimizer and a batch; step() trains once."""

    def __init__(self, run, side, steps=1):
        made = parse_side(side, run)
        self.batch, self.threads = made["batch"], made["threads"]
        self.on_gpu = run.torch_device.startswith("cuda")
        self.format = torch.channels_last if made["channels_last"] else torch.contiguous_format
        self.dtype = {"f16": torch.float16, "bf16": torch.bfloat16}.get(made["precision"])
        torch.set_num_threads(self.threads)
        classes = 10 if run.image_size < 64 else 1000
        device = torch.device(run.torch_device)
        net = SMALL[run.model]() if run.model in SMALL else model(run.model, run.image_size, classes)
        self.net = net.to(device).train().to(memory_format=self.format)
        self.parameters = sum(p.numel() for p in self.net.parameters())
        settings = {made["sgd"]: True} if made["sgd"] else {}
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, **settings)
        self.scaler = torch.cuda.amp.GradScaler(enabled=True) if self.on_gpu and made["precision"] == "f16" else None
        channels = 1 if run.model in SMALL else 3
        size = (self.batch, channels, run.image_size, run.image_size)
        self.images = torch.randint(0, 256, size, dtype=torch.uint8).to(device).to(memory_format=self.format)
        self.labels = (torch.arange(self.batch) % classes).to(device)
        self.mean = torch.tensor((0.485, 0.456, 0.406)[:channels], device=device).reshape(1, channels, 1, 1)
        self.std = torch.tensor((0.229, 0.224, 0.225)[:channels], device=device).reshape(1, channels, 1, 1)
        self.loss = torch.compile(self.find_loss) if made["compile"] else self.find_loss
        self.update = torch.compile(self.optimizer.step) if made["compile_step"] else self.optimizer.step
        for _ in range(3 if self.on_gpu else steps):
            self.step()
        self.wait()

    def find_loss(self, images, labels):
        x = ((images.float() / 255 - self.mean) / self.std).to(memory_format=self.format)
        return nn.functional.cross_entropy(self.net(x), labels)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda" if self.on_gpu else "cpu", dtype=self.dtype or torch.bfloat16,
                            enabled=self.dtype is not None):
            loss = self.loss(self.images, self.labels)
        if self.scaler is None:
            loss.backward()
            self.update()
            return
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def wait(self):
        if self.on_gpu:
            torch.cuda.synchronize()

    def seconds(self, steps):
        """Of an image: on a GPU of steps in a row, else the median of steps."""
        torch.set_num_threads(self.threads)
        if self.on_gpu:
            start = time.perf_counter()
            for _ in range(steps):
                self.step()
            self.wait()
            return (time.perf_counter() - start) / steps / self.batch
        times = []
        for _ in range(steps):
            start = time.perf_counter()
            self.step()
            times.append(time.perf_counter() - start)
        return statistics.median(times) / self.batch


def switch_precision(precision):
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
