#!/usr/bin/python3
"""Training steps of Lockstep and of PyTorch on the same machine, in turn, so that both meet the same conditions.

    /usr/bin/python3 bench/versus_pytorch.py --model resnet18 --image-size 32 --batch 128 --threads 2 --rounds 5
    /usr/bin/python3 bench/versus_pytorch.py --device cuda --precision f16 --model resnet50 --image-size 224 --batch 256 \
        --sides eager,compile
    /usr/bin/python3 bench/versus_pytorch.py --table [--rows resnet18_32_f32,resnet20_32_f32] [--out FILE]

Prints JSON lines, of which the last one counts: images per second of each side (median of all rounds), and how many times
faster Lockstep is, with the least and largest ratio of any round. Sides of PyTorch are settings to try, named as
bench/torch_side.py says; the best is the fastest of those that compute in the run's precision.

SGD with momentum and weight decay; labels and u8 images stay where they are and are normalised inside of the step, as
ours. f16 and bf16: autocast, f16 with a GradScaler. tf32: torch's two switches. On a GPU, a round's steps are not waited
for one by one. "left_out" names the sides that were not measured, and the reason: too little of --seconds was left, or their second
step took much longer than another's.

--table runs every row that the project has a goal for on CPUs, prints it as Markdown, and with --out puts its line into that file
(in the place of the same row's with the same PyTorch and processor). A row has a time limit; what it does not reach is left out.
"""
import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.join(HERE, "..", "build", "bench", "bench_step")

LAYOUTS = "channels_last,contiguous"
COMPILED = "compile,contiguous+compile"
SMALL_SIDES = LAYOUTS + ",contiguous+fused,contiguous+foreach,contiguous+compile,contiguous+compile_step"
SMALL = ("lenet", "mlp")  # bench_small's nets
SLOW = 1.3  # a side that takes so many times as long as another is not measured further
# A row's options; "goals": the required speedup over PyTorch, by PyTorch's precision.
ROWS = {
    "resnet18_32_f32": {"model": "resnet18", "image_size": 32, "batch": 128, "goals": {"f32": 3.3, "bf16": 1.1},
                        "sides": LAYOUTS + ",channels_last+bf16+batch4,compile", "steps": 2},
    "resnet18_32_bf16": {"model": "resnet18", "image_size": 32, "batch": 128, "precision": "bf16", "goals": {"bf16": 1.15},
                         "sides": "channels_last+batch4,contiguous+batch4,compile+batch4", "steps": 2},
    "resnet18_224_f32": {"model": "resnet18", "image_size": 224, "batch": 32, "goals": {"f32": 1.7},
                         "sides": LAYOUTS + ",compile", "steps": 2},
    "resnet50_224_f32": {"model": "resnet50", "image_size": 224, "batch": 16, "goals": {"f32": 2.3},
                         "sides": LAYOUTS + ",compile", "steps": 2},
    "mobilenet_v2_224_f32": {"model": "mobilenet_v2", "image_size": 224, "batch": 16, "goals": {"f32": 2.0},
                             "sides": LAYOUTS + ",compile", "steps": 2},
    "resnet20_32_f32": {"model": "resnet20", "image_size": 32, "batch": 128, "goals": {"f32": 3.3},
                        "sides": LAYOUTS + "," + COMPILED},
    "lenet": {"model": "lenet", "image_size": 28, "batch": 64, "threads": 1, "goals": {"f32": 3.7}, "steps": 100,
              "sides": SMALL_SIDES},
    "mlp": {"model": "mlp", "image_size": 28, "batch": 32, "threads": 1, "goals": {"f32": 3.1}, "steps": 500,
            "sides": SMALL_SIDES},
    "first_step": {"model": "resnet18", "image_size": 32, "batch": 128, "goals": {}, "first_step": True,
                   "sides": "channels_last"},
}
FIRST_STEP_GOAL = 0.3  # seconds beside a step
ROW_SECONDS = 135  # the nine rows take at most about 20 minutes (9 x 135 s)


def first_line(error):
    return (str(error).strip() or type(error).__name__).splitlines()[0][:160]


def run_json(command, library_path=None):
    environment = {**os.environ, "LD_LIBRARY_PATH": library_path} if library_path else None
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(done.stderr.strip() or "%s failed" % command[0])
    return json.loads(done.stdout)


def ours(options):
    """Seconds of an image, and bench_step's line, or bench_small's."""
    if options.model in SMALL:
        result = run_json([os.path.join(os.path.dirname(options.bench), "bench_small"), "--model", options.model, "--batch",
                           options.batch, "--threads", options.threads, "--steps", options.steps])
        return result["step_ms_median"] / 1000 / options.batch, result
    command = [options.bench, "--model", options.model, "--image-size", options.image_size, "--batch", options.batch,
               "--device", options.device, "--precision", options.precision, "--threads", options.threads,
               "--steps", options.steps]
    command += ["--algorithm-cache", options.algorithm_cache] if options.algorithm_cache else []
    command += ["--benchmark"] if options.benchmark else []
    result = run_json(command, options.library_path)
    if options.device == "cpu":
        return result["step_ms_median"] / 1000 / options.batch, result
    return 1 / result["throughput"], result


def spread(theirs, ours_):
    ratios = [a / b for a, b in zip(theirs, ours_[-len(theirs):])]
    return {"median": round(statistics.median(theirs) / statistics.median(ours_), 3),
            "least": round(min(ratios), 3), "largest": round(max(ratios), 3)}


def report(options, version, times, precisions, extra):
    line = {"bench": "versus_pytorch", "pytorch": version, "model": options.model, "image_size": options.image_size,
            "batch": options.batch, "precision": options.precision, "threads": options.threads,
            "rounds": len(times["lockstep"]), "steps": options.steps, "date": time.strftime("%Y-%m-%d"), **extra}
    best = {}
    for name, values in times.items():
        line[name + "_images_per_second"] = round(1 / statistics.median(values), 2)
        if name == "lockstep":
            continue
        line["times_" + name] = spread(values, times["lockstep"])
        precision = precisions[name]
        if precision not in best or statistics.median(values) < statistics.median(times[best[precision]]):
            best[precision] = name
    for precision, name in best.items():
        suffix = "" if precision == options.precision else "_" + precision
        line["best" + suffix] = name
        line["best%s_images_per_second" % suffix] = line[name + "_images_per_second"]
        line["times_best" + suffix] = line["times_" + name]["median"]
        line["best%s_peak_bytes" % suffix] = line.get(name + "_peak_bytes")
    print(json.dumps(line), flush=True)


def drop_slow(sides, precisions, trials, left_out):
    """Leaves those that may be the fastest of their precision."""
    for name in list(sides):
        least = min(trials[other] for other in sides if precisions[other] == precisions[name])
        if trials[name] > SLOW * least:
            left_out[name] = "%.2f images/s in its second step" % (1 / trials[name])
            del sides[name]


def compare(options):
    end = float("inf") if options.seconds is None else time.monotonic() + options.seconds
    try:
        import torch
        import torch_side
    except ImportError as error:
        sys.exit("no PyTorch for %s: %s" % (sys.executable, first_line(error)))
    on_gpu = options.torch_device.startswith("cuda")
    if on_gpu and not torch.cuda.is_available():
        sys.exit("no PyTorch that reaches the GPU: " + torch.__version__)
    torch_side.switch_precision(options.precision)

    times, left_out, memory, sides, precisions, trials = {"lockstep": []}, {}, {}, {}, {}, {}
    _, last = ours(options)  # also: its algorithm cache is there from now on
    names = options.sides.split(",")
    # What starts fast is measured first, so that there is a line when time runs out.
    stages = [n for n in names if "compile" not in n], [n for n in names if "compile" in n]
    for stage in stages:
        for name in stage:
            if time.monotonic() > end:
                left_out[name] = "no time"
                continue
            try:
                precisions[name] = torch_side.parse_side(name, options)["precision"]
                if on_gpu:
                    torch.cuda.reset_peak_memory_stats()
                    before = torch.cuda.memory_allocated()
                sides[name] = torch_side.Side(options, name)
                if on_gpu:
                    memory[name + "_peak_bytes"] = torch.cuda.max_memory_allocated() - before
                trials[name] = sides[name].seconds(1)
            except Exception as error:  # a side that can't be had must not hide the others
                left_out[name] = first_line(error)
                sides.pop(name, None)
        drop_slow(sides, precisions, trials, left_out)
        measured = [name for name in stage if name in sides]
        for i in range(options.rounds if measured else 0):
            if i > 0 and time.monotonic() > end:
                break
            own, last = ours(options)
            times["lockstep"].append(own)
            for name, side in sides.items():
                times.setdefault(name, []).append(side.seconds(options.steps))
        if measured:
            report(options, torch.__version__, times, precisions,
                   {"device": last["device"], "peak_bytes": last.get("peak_bytes"), **memory, "left_out": left_out})
    if not sides:
        sys.exit("no side of PyTorch: " + json.dumps(left_out))


# ---- From a process's start to its first step's end. ----

def torch_first_step(options):
    """The child: a line when the step is done."""
    import torch
    import torch_side

    side = torch_side.Side(options, options.sides)
    print(json.dumps({"pytorch": torch.__version__, "parameters": side.parameters}), flush=True)


def compare_first_steps(options):
    with tempfile.TemporaryDirectory() as folder:
        if options.device != "cpu":  # times kernels and writes the algorithm cache
            options.algorithm_cache = options.algorithm_cache or os.path.join(folder, "kernels.json")
            options.benchmark = True
            ours(options)
        firsts, steps, theirs = [], [], []
        for _ in range(options.rounds):
            per_image, result = ours(options)
            steps.append(per_image * options.batch)
            firsts.append(result["first_step_seconds"])
            command = [sys.executable, os.path.abspath(__file__), "--torch-first-step", "--model", options.model,
                       "--image-size", options.image_size, "--batch", options.batch, "--threads", options.threads,
                       "--precision", options.precision, "--sides", options.sides]
            start = time.monotonic()
            child = run_json(command)
            theirs.append(time.monotonic() - start)
    line = {"bench": "versus_pytorch_first_step", "pytorch": child["pytorch"], "model": options.model,
            "image_size": options.image_size, "batch": options.batch, "precision": options.precision,
            "threads": options.threads, "rounds": options.rounds, "date": time.strftime("%Y-%m-%d"), "parameters": child["parameters"],
            "step_seconds": statistics.median(steps), "first_step_seconds": statistics.median(firsts),
            "beside_a_step_seconds": statistics.median(f - s for f, s in zip(firsts, steps)),
            "pytorch_first_step_seconds": statistics.median(theirs), "times": spread(theirs, firsts)}
    print(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in line.items()}), flush=True)


# ---- All rows. ----

def goal_of(name, line):
    """Markdown's cells: what is compared, the goal, what came out."""
    if line.get("bench") == "versus_pytorch_first_step":
        return [(name, "<= %.1f s beside a step" % FIRST_STEP_GOAL,
                 "%.2f s of which %.2f s beside a step" % (line["first_step_seconds"], line["beside_a_step_seconds"]),
                 "%.2f s" % line["pytorch_first_step_seconds"], line["beside_a_step_seconds"] <= FIRST_STEP_GOAL)]
    cells = []
    for precision, factor in ROWS[name]["goals"].items():
        suffix = "" if precision == line["precision"] else "_" + precision
        best = line.get("best" + suffix)
        if best is None:
            cells.append((name, ">= %.2f x its %s" % (factor, precision), "not measured", "", None))
            continue
        ratio = line["times_" + best]
        cells.append((name, ">= %.2f x its %s" % (factor, precision),
                      "%.2f (%.2f to %.2f)" % (ratio["median"], ratio["least"], ratio["largest"]),
                      "%s, %.2f images/s beside %.2f" % (best, line[best + "_images_per_second"],
                                                         line["lockstep_images_per_second"]),
                      ratio["median"] >= factor))
    return cells


def processor_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            text = file.read().split("\n\n")[0]
    except OSError:
        return platform.machine()
    fields = dict([word.strip() for word in line.partition(":")[::2]] for line in text.splitlines())
    if "model name" in fields:
        return "%s, family %s, model %s" % (fields["model name"], fields.get("cpu family"), fields.get("model"))
    if "CPU part" in fields:
        return "%s, implementer %s, part %s, revision %s" % (platform.machine(), fields.get("CPU implementer"),
                                                             fields["CPU part"], fields.get("CPU revision"))
    return platform.machine()


def key_of(line):
    return [line.get(word, "") for word in ("row", "pytorch", "processor")]


def keep(path, name, processor, line):
    lines = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            lines = [json.loads(text) for text in file if text.strip()]
    line = {"row": name, "processor": processor, **line}
    lines = [old for old in lines if key_of(old) != key_of(line)] + [line]
    order = list(ROWS)
    lines.sort(key=lambda l: (order.index(l["row"]) if l["row"] in ROWS else len(order), key_of(l)))
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(l) + "\n" for l in lines)


def table(options):
    names = options.rows.split(",") if options.rows else list(ROWS)
    for name in names:
        if name not in ROWS:
            sys.exit("no row '%s'; there are %s" % (name, ", ".join(ROWS)))
    if not importlib.util.find_spec("torch"):
        sys.exit("%s has no PyTorch: run this with a Python that imports torch" % sys.executable)
    empty, processor = [], processor_name()
    seconds = ROW_SECONDS if options.seconds is None else options.seconds
    print("| work | goal | Lockstep by PyTorch | PyTorch | |\n|---|---|---|---|---|", flush=True)
    for name in names:
        row = ROWS[name]
        command = [sys.executable, os.path.abspath(__file__), "--bench", options.bench, "--threads",
                   row.get("threads", options.threads), "--rounds", options.rounds, "--seconds", seconds / 1.7,
                   "--steps", row.get("steps", options.steps),
                   "--sides", row["sides"], "--model", row["model"], "--image-size", row["image_size"],
                   "--batch", row["batch"], "--precision", row.get("precision", "f32")]
        command += ["--first-step"] if row.get("first_step") else []
        with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) as child:
            try:
                text = child.communicate(timeout=seconds)[0]
            except subprocess.TimeoutExpired:
                child.kill()
                text = child.communicate()[0]
        found = [line for line in text.splitlines() if line.startswith("{")]
        if not found:
            print("| %s | | nothing in %d s | | |" % (name, seconds), flush=True)
            empty.append(name)
            continue
        line = json.loads(found[-1])
        for side in row["sides"].split(","):
            if side + "_images_per_second" not in line and not row.get("first_step"):
                line["left_out"].setdefault(side, "no time")
        if options.out:
            keep(options.out, name, processor, line)
        for cells in goal_of(name, line):
            met = {True: "met", False: "missed", None: ""}[cells[-1]]
            print("| " + " | ".join(cells[:-1]) + " | %s |" % met, flush=True)
    if empty:
        sys.exit("nothing was measured of " + ", ".join(empty))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--image-size", type=int, default=32)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--device", default="cpu", help="of Lockstep")
    parser.add_argument("--torch-device", help="of PyTorch, when it is another")
    parser.add_argument("--precision", choices=("f32", "tf32", "f16", "bf16"), default="f32")
    parser.add_argument("--sides", default=LAYOUTS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="of each side in a round")
    parser.add_argument("--seconds", type=float, help="seconds after which no side and no round begins [no limit]; "
                        "with --table, the limit of each row [%d]" % ROW_SECONDS)
    parser.add_argument("--algorithm-cache", help="Lockstep's algorithm cache file")
    parser.add_argument("--benchmark", action="store_true", help="Lockstep measures its kernels first")
    parser.add_argument("--bench", default=BENCH)
    parser.add_argument("--library-path", help="LD_LIBRARY_PATH of Lockstep alone: PyTorch finds its own libraries")
    parser.add_argument("--first-step", action="store_true", help="from a process's start to its first step's end")
    parser.add_argument("--torch-first-step", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--table", action="store_true", help="every row that has a goal")
    parser.add_argument("--rows", help="of the table: these of " + ", ".join(ROWS))
    parser.add_argument("--out", help="of the table: a file of JSON lines, such as bench/results/versus_pytorch_cpu.json")
    options = parser.parse_args()
    options.torch_device = options.torch_device or options.device
    if options.table:
        table(options)
    elif options.torch_first_step:
        torch_first_step(options)
    elif options.first_step:
        compare_first_steps(options)
    else:
        compare(options)


if __name__ == "__main__":
    main()
