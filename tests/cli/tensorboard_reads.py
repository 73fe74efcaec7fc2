"""Whether TensorBoard's own reader shows what `lockstep train` has written: scalars, images and histograms of a run that was
stopped and resumed. Skipped (exit status 77) without the packages tensorboard and pillow.

    python3 tests/cli/tensorboard_reads.py build/lockstep
"""
import glob
import io
import json
import os
import subprocess
import sys
import tempfile

try:
    from PIL import Image
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)


def lockstep(*words):
    subprocess.run([os.path.abspath(sys.argv[1]), *words], check=True, capture_output=True)


def read(run):
    events = EventAccumulator(run, size_guidance={"scalars": 0, "images": 0, "histograms": 0})
    events.Reload()
    return events


def check(run):
    events = read(run)
    with open(os.path.join(run, "metrics.jsonl")) as file:
        rows = [json.loads(line) for line in file]
    for key in ("train_loss", "val_top1", "lr", "images_per_second"):
        got = [(e.step, e.value) for e in events.Scalars("epoch/" + key)]
        assert [step for step, _ in got] == [20, 40, 60], got
        assert all(abs(value - row[key]) <= 1e-6 * abs(row[key]) for (_, value), row in zip(got, rows)), got
    assert [e.step for e in events.Scalars("step/loss")] == list(range(5, 61, 5))
    images = [tag for tag in events.Tags()["images"] if tag.startswith("first_batch/image/")]
    assert len(images) == 8, images
    for tag in images:
        (image,) = events.Images(tag)
        pixels = Image.open(io.BytesIO(image.encoded_image_string))
        pixels.load()
        assert pixels.size == (image.width, image.height) == (8, 8) and pixels.mode == "RGB"
    for tag in ("weights/fc.weight", "gradients/fc.weight"):
        histograms = events.Histograms(tag)
        assert [h.step for h in histograms] == [20, 40, 60]
        assert all(sum(h.histogram_value.bucket) == h.histogram_value.num == 640 for h in histograms)


with tempfile.TemporaryDirectory() as folder:
    data, run = os.path.join(folder, "data"), os.path.join(folder, "run")
    lockstep("demo-data", data, "--train", "16", "--val", "4")
    lockstep("train", "--data-dir", data, "--image-size", "8", "-b", "8", "--epochs", "3", "--out", run,
             "--tensorboard", "all", "--log-every", "5", "--stop-at", "27")
    # The clock is set back before the run resumes.
    (first,) = glob.glob(os.path.join(run, "events.out.tfevents.*"))
    os.rename(first, os.path.join(run, "events.out.tfevents.4000000000.0"))
    lockstep("train", "--resume", run)
    check(run)
    # A record that is cut off, as after a power failure, hides nothing else.
    first = sorted(glob.glob(os.path.join(run, "events.out.tfevents.*")))[0]
    os.truncate(first, os.path.getsize(first) - 3)
    assert [e.step for e in read(run).Scalars("epoch/train_loss")] == [20, 40, 60]
print("TensorBoard reads the scalars, images and histograms of a run")
