"""webp.safetensors: small WebP files of every kind, with the pixels that Pillow decodes them to, in the form of
images.safetensors (images.py), and files that Lockstep refuses, with a part of the error.

Needs Pillow with WebP and numpy; to be run by hand. tests/data/test_decode_pillow.c compares.
"""
import io
import os
import struct

import numpy as np
from PIL import Image

import images

images.FIXTURE = os.path.join(os.path.dirname(images.FIXTURE), "webp.safetensors")


def encode(pixels, orientation=0, **options):
    options.update({"exif": orientation_exif(orientation)} if orientation else {})
    out = io.BytesIO()
    mode = {3: "RGB", 4: "RGBA"}[pixels.shape[2]]
    Image.fromarray(pixels.astype(np.uint8), mode).save(out, "WEBP", **options)
    return out.getvalue()


def orientation_exif(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif.tobytes()


def add_stills():
    for h, w in ((1, 1), (1, 17), (16, 16), (17, 33), (40, 23)):
        rgb = images.draw(h, w, 3)
        images.add(f"webp/lossy_{h}x{w}", encode(rgb, quality=80))
        images.add(f"webp/lossless_{h}x{w}", encode(rgb, lossless=True))
    rgba = images.draw(19, 21, 4)
    images.add("webp/low_quality", encode(images.draw(32, 31, 3), quality=3, method=6))
    images.add("webp/palette", encode(images.draw(20, 20, 3) // 128 * 255, lossless=True))
    images.add("webp/alpha_lossless", encode(rgba, lossless=True, exact=True))
    images.add("webp/alpha_lossy", encode(rgba, quality=70))
    for orientation in range(1, 9):
        images.add(f"exif/webp_{orientation}", encode(images.draw(9, 14, 3), orientation, lossless=True))


def add_refused():
    still = encode(images.draw(24, 24, 3), quality=80)
    lossless = encode(images.draw(24, 24, 3), lossless=True)
    frames = [Image.fromarray(images.draw(8, 8, 3, seed=seed).astype(np.uint8)) for seed in (1, 2)]
    out = io.BytesIO()
    frames[0].save(out, "WEBP", save_all=True, append_images=frames[1:])
    images.refuse("webp/animated", out.getvalue(), "an animated WebP file")
    images.refuse("webp/cut", still[:-20], "truncated WebP file")
    images.refuse("webp/cut_header", still[:18], "truncated WebP file")
    shorter = still[:4] + struct.pack("<I", len(still) - 40 - 8) + still[8:-40]
    images.refuse("webp/cut_pixels", shorter, "WebP")
    images.refuse("webp/no_riff", b"RIFX" + still[4:], "does not begin with RIFF")
    damaged = bytearray(lossless)
    damaged[24:40] = bytes(16)
    images.refuse("webp/damaged", bytes(damaged), "WebP")
    images.refuse("webp/empty", b"RIFF\4\0\0\0WEBP", "damaged WebP: no sound header")


if __name__ == "__main__":
    add_stills()
    add_refused()
    images.save()
