#!/usr/bin/python3
"""A folder of JPEG files to batches of u8 images: Lockstep and torchvision with Pillow, in turn, one core each.

    build/bench/bench_photos --out photos --count 256
    /usr/bin/python3 bench/versus_torchvision.py --data-dir photos --rounds 5

Prints one JSON line: images per second of processor time of each side (median of all rounds), and how many times as fast
Lockstep is, with the least and largest ratio of any round. Recipes: rrc, random resized crop and flip; val, resize and
centre crop. torchvision's side makes u8 batches as ours does: PILToTensor and stack, without the conversion to floats.
"""
import argparse
import glob
import json
import os
import statistics
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def ours(args):
    command = [args.bench, "--data-dir", args.data_dir, "--recipe", args.recipe, "--image-size", str(args.image_size),
               "--batch", str(args.batch), "--workers", "0", "--images", str(args.images), "--repeat", "3",
               "--decode", args.decode]
    out = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["results"][0]
    return out["per_core"], out["first_epoch_per_core"]


def make_rival(args):
    import torch
    from PIL import Image
    from torchvision import transforms
    torch.set_num_threads(1)
    size = args.image_size
    if args.recipe == "rrc":
        steps = [transforms.RandomResizedCrop(size), transforms.RandomHorizontalFlip()]
    else:
        steps = [transforms.Resize(size * 8 // 7), transforms.CenterCrop(size)]
    transform = transforms.Compose(steps + [transforms.PILToTensor()])
    paths = sorted(glob.glob(os.path.join(args.data_dir, "*", "*")))[:args.images]

    def run():
        start = time.process_time()
        for at in range(0, len(paths), args.batch):
            images = []
            for path in paths[at:at + args.batch]:
                with open(path, "rb") as file:
                    images.append(transform(Image.open(file).convert("RGB")))
            torch.stack(images)
        return len(paths) / (time.process_time() - start)
    run()
    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--recipe", choices=["rrc", "val"], default="rrc")
    parser.add_argument("--decode", choices=["exact", "fast"], default="exact")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bench", default=os.path.join(HERE, "..", "build", "bench", "bench_load"))
    args = parser.parse_args()
    rival = make_rival(args)
    rounds = [(*ours(args), rival()) for _ in range(args.rounds)]
    later, first, theirs = (statistics.median(column) for column in zip(*rounds))
    ratios = sorted(r[0] / r[2] for r in rounds)
    print(json.dumps({"bench": "versus_torchvision", "recipe": args.recipe, "decode": args.decode,
                      "lockstep": round(later, 1), "lockstep_first_epoch": round(first, 1),
                      "torchvision": round(theirs, 1), "ratio": round(later / theirs, 2),
                      "ratio_first_epoch": round(first / theirs, 2),
                      "least": round(ratios[0], 2), "largest": round(ratios[-1], 2)}))


if __name__ == "__main__":
    main()
