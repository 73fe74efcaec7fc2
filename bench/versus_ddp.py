#!/usr/bin/env python3
"""Training in ranks on one machine: Lockstep by mpirun, and PyTorch's DistributedDataParallel with Gloo, in turns.

    python3 bench/versus_ddp.py --data-dir cifar10 --model resnet18 --batch 128 --ranks 2 --rounds 3

Both sides have one thread per rank and the same net, global batch and optimizer (SGD with momentum 0.9). Lockstep trains by
`lockstep train`, on the images of the folder; its time is that of a run of 2 + --steps steps minus that of a run of 2 steps.
PyTorch trains on one random batch in memory, channels last; its time is the median step's of the slowest rank. Prints one JSON
line: images per second of both, the median of the rounds, and the ratio.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
COMMAND = os.path.join(HERE, "..", "build", "lockstep")


def run_rank(run):
    """PyTorch's side, one rank: torchrun's variables name it. Rank 0 prints the seconds of a step."""
    import torch
    from torch import distributed
    from torch_side import Side

    distributed.init_process_group("gloo")
    run.precision, run.torch_device, run.threads = "f32", "cpu", 1
    run.batch //= run.ranks
    side = Side(run, "eager", 0)
    side.net = torch.nn.parallel.DistributedDataParallel(side.net)
    side.seconds(2)
    seconds = torch.tensor(side.seconds(run.steps) * side.batch)
    distributed.all_reduce(seconds, distributed.ReduceOp.MAX)
    if distributed.get_rank() == 0:
        print("seconds", float(seconds), flush=True)
    distributed.destroy_process_group()


def ddp_seconds(run):
    ranks = []
    for rank in range(run.ranks):
        env = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(run.ranks), MASTER_ADDR="127.0.0.1",
                   MASTER_PORT=str(run.port), OMP_NUM_THREADS="1")
        ranks.append(subprocess.Popen([sys.executable] + sys.argv + ["--side", "ddp"], env=env, stdout=subprocess.PIPE, text=True))
    outputs = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit("versus_ddp: PyTorch failed")
    return float(outputs[0].split("seconds")[1])


def train_seconds(run, folder, steps):
    out = os.path.join(folder, "run")
    shutil.rmtree(out, ignore_errors=True)
    start = time.perf_counter()
    made = subprocess.run(["mpirun", "-n", str(run.ranks), "--bind-to", "none", run.lockstep, "train", "--data-dir",
                           run.data_dir, "--model", run.model, "--image-size", str(run.image_size), "--batch-size",
                           str(run.batch), "--shards", str(run.shards), "--threads", "1", "--workers", "1", "--steps",
                           str(steps), "--out", out],
                          capture_output=True, text=True)
    if made.returncode:
        sys.exit("versus_ddp: " + made.stderr)
    return time.perf_counter() - start


def lockstep_seconds(run, folder):
    first = train_seconds(run, folder, 2)
    return (train_seconds(run, folder, 2 + run.steps) - first) / run.steps


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", required=True, help="a folder of images, for lockstep train")
    parser.add_argument("--lockstep", default=COMMAND, help="the command [build/lockstep]")
    parser.add_argument("--model", default="resnet18", help="a resnet [resnet18]")
    parser.add_argument("--image-size", type=int, default=32, help="pixels of a side [32]")
    parser.add_argument("--batch", type=int, default=128, help="images of all ranks [128]")
    parser.add_argument("--shards", type=int, default=4, help="parts of Lockstep's batch [4]")
    parser.add_argument("--ranks", type=int, default=2, help="processes [2]")
    parser.add_argument("--steps", type=int, default=6, help="timed steps of a round [6]")
    parser.add_argument("--rounds", type=int, default=3, help="runs of either side [3]")
    parser.add_argument("--port", type=int, default=29517, help="of PyTorch's rendezvous [29517]")
    parser.add_argument("--side", choices=["ddp"], help=argparse.SUPPRESS)
    run = parser.parse_args()
    if run.side:
        return run_rank(run)
    rates = {"lockstep": [], "ddp": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(run.rounds):
            rates["lockstep"].append(run.batch / lockstep_seconds(run, folder))
            rates["ddp"].append(run.batch / ddp_seconds(run))
    ratios = [a / b for a, b in zip(rates["lockstep"], rates["ddp"])]
    print(json.dumps({"bench": "versus_ddp", "model": run.model, "image_size": run.image_size, "batch": run.batch,
                      "shards": run.shards, "ranks": run.ranks, "rounds": run.rounds,
                      "lockstep": round(statistics.median(rates["lockstep"]), 2), "ddp": round(statistics.median(rates["ddp"]), 2),
                      "ratio": {"median": round(statistics.median(ratios), 3), "least": round(min(ratios), 3),
                                "largest": round(max(ratios), 3)}}))


if __name__ == "__main__":
    main()
