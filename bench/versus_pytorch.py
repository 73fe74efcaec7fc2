#!/usr/bin/python3
"""Training steps of Lockstep and of PyTorch on the same machine, in turn, so that both meet the same conditions.

    /usr/bin/python3 bench/versus_pytorch.py --model resnet18 --image-size 32 --batch 128 --threads 2 --rounds 5
    /usr/bin/python3 bench/versus_pytorch.py --device cuda --precision f16 --model resnet50 --image-size 224 --batch 256 \
        --sides eager,compile

Prints JSON lines, of which the last one counts: images per second of each side (median of all rounds), and how many times
faster Lockstep is, with the least and largest ratio of any round. Sides of PyTorch:

    contiguous, channels_last    that memory layout, as PyTorch comes
    eager                        channels_last, cudnn.benchmark
    compile                      the same through torch.compile; where PyTorch has none it is left out

SGD with momentum and weight decay; labels and u8 pictures stay where they are and are normalised inside of the step, as
ours. f16 and bf16: autocast, f16 with a GradScaler. tf32: torch's two switches. On a GPU, a round's steps are not waited
for one by one. A side whose first step takes longer than what --seconds leaves is told in "left_out".
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build", "bench", "bench_step")


class Torch:
    """A net with its optimizer and a batch; step() trains once."""

    def __init__(self, torch, options, side):
        import torchvision

        self.torch = torch
        self.on_gpu = options.torch_device.startswith("cuda")
        self.format = torch.contiguous_format if side == "contiguous" else torch.channels_last
        self.dtype = {"f16": torch.float16, "bf16": torch.bfloat16}.get(options.precision)
        classes = 10 if options.image_size < 64 else 1000
        net = getattr(torchvision.models, options.model)(num_classes=classes)
        if options.image_size < 64:
            net.conv1 = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False)
            net.maxpool = torch.nn.Identity()
        device = torch.device(options.torch_device)
        self.net = net.to(device).train().to(memory_format=self.format)
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
        self.scaler = torch.cuda.amp.GradScaler(enabled=self.on_gpu and options.precision == "f16")
        size = (options.batch, 3, options.image_size, options.image_size)
        self.images = torch.randint(0, 256, size, dtype=torch.uint8).to(device).to(memory_format=self.format)
        self.labels = (torch.arange(options.batch) % classes).to(device)
        self.mean = torch.tensor((0.485, 0.456, 0.406), device=device).reshape(1, 3, 1, 1)
        self.deviation = torch.tensor((0.229, 0.224, 0.225), device=device).reshape(1, 3, 1, 1)
        self.loss = torch.compile(self.find_loss) if side == "compile" else self.find_loss
        for _ in range(3 if self.on_gpu else 1):
            self.step()
        self.wait()

    def find_loss(self, images, labels):
        x = ((images.float() / 255 - self.mean) / self.deviation).to(memory_format=self.format)
        return self.torch.nn.functional.cross_entropy(self.net(x), labels)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        with self.torch.autocast("cuda" if self.on_gpu else "cpu", dtype=self.dtype or self.torch.bfloat16,
                                 enabled=self.dtype is not None):
            loss = self.loss(self.images, self.labels)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def wait(self):
        if self.on_gpu:
            self.torch.cuda.synchronize()

    def seconds(self, steps):
        """Of a step: on a GPU of steps in a row, else the median of steps."""
        if self.on_gpu:
            start = time.perf_counter()
            for _ in range(steps):
                self.step()
            self.wait()
            return (time.perf_counter() - start) / steps
        times = []
        for _ in range(steps):
            start = time.perf_counter()
            self.step()
            times.append(time.perf_counter() - start)
        return statistics.median(times)


def ours(options):
    command = [options.bench, "--model", options.model, "--image-size", options.image_size, "--batch", options.batch,
               "--device", options.device, "--precision", options.precision, "--threads", options.threads,
               "--steps", options.steps]
    command += ["--plan", options.plan] if options.plan else []
    command += ["--benchmark"] if options.benchmark else []
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr.strip() or "bench_step failed")
    result = json.loads(done.stdout)
    if options.device == "cpu":
        return result["step_ms_median"] / 1000, result
    return options.batch / result["throughput"], result


def first_line(error):
    return (str(error).strip() or type(error).__name__).splitlines()[0][:160]


def report(options, torch, times, last, memory, left_out):
    line = {"bench": "versus_pytorch", "pytorch": torch.__version__, "model": options.model,
            "image_size": options.image_size, "batch": options.batch, "precision": options.precision,
            "threads": options.threads, "rounds": len(times["lockstep"]), "steps": options.steps,
            "device": last["device"], "peak_bytes": last["peak_bytes"], "left_out": left_out}
    own = statistics.median(times["lockstep"])
    for name, values in times.items():
        line[name + "_images_per_second"] = round(options.batch / statistics.median(values), 2)
    best = None
    for name in times:
        if name == "lockstep":
            continue
        ratios = [theirs / here for theirs, here in zip(times[name], times["lockstep"][-len(times[name]):])]
        line["times_" + name] = {"median": round(statistics.median(times[name]) / own, 3),
                                 "least": round(min(ratios), 3), "largest": round(max(ratios), 3)}
        if best is None or statistics.median(times[name]) < statistics.median(times[best]):
            best = name
        if name in memory:
            line[name + "_peak_bytes"] = memory[name]
    if best is not None:
        line["best"] = best
        line["best_images_per_second"] = line[best + "_images_per_second"]
        line["times_best"] = line["times_" + best]["median"]
        line["best_peak_bytes"] = memory.get(best)
    print(json.dumps(line), flush=True)


def switch_precision(torch, options):
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = options.precision == "tf32"
    torch.backends.cudnn.allow_tf32 = options.precision == "tf32"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--image-size", type=int, default=32)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--device", default="cpu", help="of Lockstep")
    parser.add_argument("--torch-device", help="of PyTorch, when it is another")
    parser.add_argument("--precision", choices=("f32", "tf32", "f16", "bf16"), default="f32")
    parser.add_argument("--sides", default="channels_last,contiguous")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="of each side in a round")
    parser.add_argument("--seconds", type=float, default=1e9, help="no side is begun later")
    parser.add_argument("--plan", help="of Lockstep: its file of kernel choices")
    parser.add_argument("--benchmark", action="store_true", help="Lockstep measures its kernels first")
    parser.add_argument("--bench", default=BENCH)
    options = parser.parse_args()
    options.torch_device = options.torch_device or options.device
    end = time.monotonic() + options.seconds
    try:
        import torch
    except ImportError as error:
        sys.exit("no PyTorch: " + first_line(error))
    if options.torch_device.startswith("cuda") and not torch.cuda.is_available():
        sys.exit("no PyTorch that reaches the GPU: " + torch.__version__)
    torch.set_num_threads(options.threads)
    switch_precision(torch, options)

    times, memory, left_out = {"lockstep": []}, {}, {}
    _, last = ours(options)  # also: its plan file is there from now on
    sides = {}
    names = options.sides.split(",")
    # What starts fast is measured first, so that there is a line when time runs out.
    for stage in ([n for n in names if n != "compile"], [n for n in names if n == "compile"]):
        for name in stage:
            if time.monotonic() > end:
                left_out[name] = "no time"
                continue
            try:
                if options.torch_device.startswith("cuda"):
                    torch.cuda.reset_peak_memory_stats()
                    before = torch.cuda.memory_allocated()
                sides[name] = Torch(torch, options, name)
                if options.torch_device.startswith("cuda"):
                    memory[name] = torch.cuda.max_memory_allocated() - before
            except Exception as error:  # a side that can't be had must not hide the others
                left_out[name] = first_line(error)
        measured = any(name in sides for name in stage)
        for _ in range(options.rounds if measured else 0):
            own, last = ours(options)
            times["lockstep"].append(own)
            for name, side in sides.items():
                times.setdefault(name, []).append(side.seconds(options.steps))
        if stage and sides:
            report(options, torch, times, last, memory, left_out)
    if not sides:
        sys.exit("no side of PyTorch: " + json.dumps(left_out))


if __name__ == "__main__":
    main()
