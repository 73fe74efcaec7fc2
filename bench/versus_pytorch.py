#!/usr/bin/python3
"""Training steps of Lockstep and of PyTorch on the same machine, in turn, so that both meet the same conditions.

    /usr/bin/python3 bench/versus_pytorch.py --model resnet18 --image-size 32 --batch 128 --threads 2 --rounds 5

Prints one JSON line: images per second of each side (median of all steps), and how many times faster Lockstep is, with the
least and largest ratio of any round. PyTorch: f32 on the CPU, model in contiguous and in channels_last memory, SGD with
momentum and weight decay, labels and u8 pictures normalised inside of the step, as ours.
"""
import argparse
import json
import os
import statistics
import subprocess
import time

import torch
import torchvision

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build", "bench", "bench_step")


class Torch:
    def __init__(self, options, memory_format):
        self.format = memory_format
        classes = 10 if options.image_size < 64 else 1000
        net = getattr(torchvision.models, options.model)(num_classes=classes)
        if options.image_size < 64:
            net.conv1 = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False)
            net.maxpool = torch.nn.Identity()
        self.net = net.train().to(memory_format=memory_format)
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
        size = (options.batch, 3, options.image_size, options.image_size)
        self.images = torch.randint(0, 256, size, dtype=torch.uint8)
        self.labels = torch.arange(options.batch) % classes
        self.mean = torch.tensor((0.485, 0.456, 0.406)).reshape(1, 3, 1, 1)
        self.deviation = torch.tensor((0.229, 0.224, 0.225)).reshape(1, 3, 1, 1)
        self.step()

    def step(self):
        x = ((self.images.float() / 255 - self.mean) / self.deviation).to(memory_format=self.format)
        self.optimizer.zero_grad()
        torch.nn.functional.cross_entropy(self.net(x), self.labels).backward()
        self.optimizer.step()

    def seconds(self, steps):
        times = []
        for _ in range(steps):
            start = time.perf_counter()
            self.step()
            times.append(time.perf_counter() - start)
        return times


def ours(options, bench):
    command = [bench, "--model", options.model, "--image-size", options.image_size, "--batch", options.batch,
               "--threads", options.threads, "--steps", options.steps]
    result = json.loads(subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout)
    return result["step_ms_median"] / 1000, result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--image-size", type=int, default=32)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="of each side in a round")
    parser.add_argument("--bench", default=BENCH)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    sides = {"channels_last": Torch(options, torch.channels_last), "contiguous": Torch(options, torch.contiguous_format)}

    times = {"lockstep": []}
    for _ in range(options.rounds):
        median, last = ours(options, options.bench)
        times["lockstep"].append(median)
        for name, side in sides.items():
            times.setdefault(name, []).append(statistics.median(side.seconds(options.steps)))

    line = {"bench": "versus_pytorch", "pytorch": torch.__version__, "model": options.model,
            "image_size": options.image_size, "batch": options.batch, "threads": options.threads,
            "rounds": options.rounds, "steps": options.steps, "peak_bytes": last["peak_bytes"]}
    for name, values in times.items():
        line[name + "_images_per_second"] = round(options.batch / statistics.median(values), 2)
    for name in sides:
        ratios = [theirs / own for theirs, own in zip(times[name], times["lockstep"])]
        line["times_" + name] = {"median": round(statistics.median(times[name]) / statistics.median(times["lockstep"]), 3),
                                 "least": round(min(ratios), 3), "largest": round(max(ratios), 3)}
    print(json.dumps(line))


if __name__ == "__main__":
    main()
