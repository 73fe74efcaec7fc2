#!/usr/bin/python3
"""TrivialAugmentWide on one image: Lockstep and torchvision on PIL images, in turn, one core each.

    /usr/bin/python3 bench/versus_augment.py --rounds 5

Prints one JSON line: microseconds of processor time of each op, averaged over magnitudes and signs (median of all rounds;
Lockstep's include a copy of the image), and how many times as fast Lockstep is over all ops, with the least and largest
ratio of any round. torchvision's side is the call of an op alone, without the random choice of it.
"""
import argparse
import json
import os
import statistics
import subprocess
import time

import numpy
import torch
from PIL import Image
from torchvision.transforms import InterpolationMode, TrivialAugmentWide
from torchvision.transforms.autoaugment import _apply_op

HERE = os.path.dirname(os.path.abspath(__file__))


def draw(side):
    y, x, c = numpy.meshgrid(numpy.arange(side), numpy.arange(side), numpy.arange(3), indexing="ij")
    noise = numpy.random.default_rng(1).integers(0, 32, y.shape)
    return Image.fromarray(((x + y + 40 * c) % 200 + noise).astype(numpy.uint8))


def theirs(image):
    out = {}
    for name, (magnitudes, signed) in TrivialAugmentWide()._augmentation_space(31).items():
        values = [float(m) for m in magnitudes] if magnitudes.ndim else [0.0] * 31
        begin = time.process_time()
        for value in values:
            for sign in (1, -1):
                _apply_op(image, name, sign * value if signed else value, InterpolationMode.NEAREST, None)
        out[name] = (time.process_time() - begin) * 1e6 / 62
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bench", default=os.path.join(HERE, "..", "build", "bench", "bench_augment"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    command = [args.bench, "--image-size", str(args.image_size), "--repeat", "1"]
    image, rounds = draw(args.image_size), []
    theirs(image)
    for _ in range(args.rounds):
        ours = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["us"]
        rounds.append((ours, theirs(image)))
    medians = [{name: round(statistics.median(r[side][name] for r in rounds), 1) for name in rounds[0][0]} for side in (0, 1)]
    ratios = sorted(sum(b.values()) / sum(a.values()) for a, b in rounds)
    print(json.dumps({"bench": "versus_augment", "image_size": args.image_size, "lockstep": medians[0],
                      "torchvision": medians[1], "ratio": round(statistics.median(ratios), 2),
                      "least": round(ratios[0], 2), "largest": round(ratios[-1], 2)}))


if __name__ == "__main__":
    main()
