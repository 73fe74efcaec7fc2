#!/usr/bin/python3
"""Validation accuracy of the same training in Lockstep and in PyTorch, for several seeds.

    /usr/bin/python3 bench/versus_accuracy.py --data-dir cifar10 --model resnet20 --image-size 32 --epochs 5 --seeds 3

The folder has train/ and val/ or test/ with a folder per class. Both sides: batches of --batch images, the last incomplete one
of an epoch dropped; random crops from a border of 4 black pixels and flips; SGD with momentum 0.9 and weight decay 5e-4 on weights;
linear warm-up of an epoch from lr / 100, then a cosine to 0 by steps; label smoothing 0.1; torchvision's initial values. Images of
other sizes are resized once, by Pillow on PyTorch's side. Prints a JSON line for each run, and at the end each side's mean and spread.
"""
import argparse
import glob
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

import numpy
import torch
import torchvision
from PIL import Image
from torch import nn

from torch_side import ARCHITECTURES, resnet

HERE = os.path.dirname(os.path.abspath(__file__))
COMMAND = os.path.join(HERE, "..", "build", "lockstep")
MEAN = torch.tensor((0.485, 0.456, 0.406)).reshape(1, 3, 1, 1) * 255
STD = torch.tensor((0.229, 0.224, 0.225)).reshape(1, 3, 1, 1) * 255
PADDING = 4


def read_images(folder, size):
    classes = sorted(os.listdir(folder))
    paths = [(p, i) for i, name in enumerate(classes) for p in sorted(glob.glob(os.path.join(folder, name, "*")))]
    images = numpy.empty((len(paths), size, size, 3), numpy.uint8)
    for i, (path, _) in enumerate(paths):
        image = Image.open(path).convert("RGB")
        if image.size != (size, size):  # the shorter side, then the centre
            scale = size / min(image.size)
            image = image.resize([round(side * scale) for side in image.size], Image.BILINEAR)
            left, top = (image.width - size) // 2, (image.height - size) // 2
            image = image.crop((left, top, left + size, top + size))
        images[i] = numpy.asarray(image)
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous(), torch.tensor([i for _, i in paths])


def build(options, classes):
    if options.model in ARCHITECTURES:
        net = resnet(options.model, options.image_size, classes)
        for module in net.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    else:
        net = getattr(torchvision.models, options.model)(num_classes=classes)
    return net.to(memory_format=torch.channels_last)


def augment(images):
    n, size = len(images), images.shape[-1]
    padded = nn.functional.pad(images, (PADDING,) * 4)
    out = torch.empty_like(images)
    for i, (y, x, flip) in enumerate(zip(*(torch.randint(0, k, (n,)).tolist() for k in (2 * PADDING + 1, 2 * PADDING + 1, 2)))):
        crop = padded[i, :, y:y + size, x:x + size]
        out[i] = crop.flip(-1) if flip else crop
    return out


def normalized(images):
    return ((images.float() - MEAN) / STD).contiguous(memory_format=torch.channels_last)


def rate(options, step, steps):
    """Of a step, with `steps` in an epoch."""
    if step < steps:
        return options.lr * (0.01 + 0.99 * step / steps)
    return options.lr * (1 + math.cos(math.pi * (step - steps) / (steps * (options.epochs - 1)))) / 2


def train_pytorch(options, seed, train, val):
    torch.manual_seed(seed)
    images, labels = train
    net = build(options, int(labels.max()) + 1).train()
    weights = [p for p in net.parameters() if p.dim() > 1]
    others = [p for p in net.parameters() if p.dim() <= 1]
    optimizer = torch.optim.SGD([{"params": weights, "weight_decay": 5e-4}, {"params": others}], lr=options.lr, momentum=0.9)
    loss_function = nn.CrossEntropyLoss(label_smoothing=0.1)
    steps = len(images) // options.batch
    for epoch in range(options.epochs):
        order = torch.randperm(len(images))
        for step in range(steps):
            batch = order[step * options.batch:(step + 1) * options.batch]
            for group in optimizer.param_groups:
                group["lr"] = rate(options, epoch * steps + step, steps)
            optimizer.zero_grad(set_to_none=True)
            loss_function(net(normalized(augment(images[batch]))), labels[batch]).backward()
            optimizer.step()
    net.eval()
    with torch.no_grad():
        right = sum(int((net(normalized(x)).argmax(1) == y).sum()) for x, y in zip(val[0].split(256), val[1].split(256)))
    return right / len(val[1])


def train_lockstep(options, seed, folder):
    out = os.path.join(folder, "run-%d" % seed)
    command = [options.lockstep, "train", "--data-dir", options.data_dir, "--model", options.model, "--image-size",
               options.image_size, "--epochs", options.epochs, "-b", options.batch, "--lr", options.lr, "--lr-warmup-epochs", 1,
               "--seed", seed, "--threads", options.threads, "--crop-padding", PADDING, "--out", out]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    with open(os.path.join(out, "metrics.jsonl")) as file:
        return json.loads(file.readlines()[-1])["val_top1"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--model", default="resnet20", help="a resnet of torch_side.py, or torchvision's mobilenet_v2")
    parser.add_argument("--image-size", type=int, default=32, help="below 64, whose crops have a border")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--lockstep", default=COMMAND)
    options = parser.parse_args()
    if options.epochs < 2 or options.image_size >= 64:
        parser.error("two epochs or more, and images under 64 pixels")
    torch.set_num_threads(options.threads)
    folder = next(f for f in ("val", "validation", "test") if os.path.isdir(os.path.join(options.data_dir, f)))
    train, val = (read_images(os.path.join(options.data_dir, f), options.image_size) for f in ("train", folder))
    accuracies = {"lockstep": [], "pytorch": []}
    with tempfile.TemporaryDirectory() as runs:
        for seed in range(options.seeds):
            for side in accuracies:
                top1 = train_lockstep(options, seed, runs) if side == "lockstep" else train_pytorch(options, seed, train, val)
                accuracies[side].append(top1)
                print(json.dumps({"side": side, "model": options.model, "seed": seed, "val_top1": top1}), flush=True)
    print(json.dumps({side: {"mean": round(statistics.mean(a), 4), "least": min(a), "largest": max(a)}
                      for side, a in accuracies.items()}))


if __name__ == "__main__":
    main()
