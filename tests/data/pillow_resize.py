#!/usr/bin/python3
"""Prints the table of test_resize.c: digests of what Pillow's BILINEAR makes of draw_image().

Needs python3-pil and python3-numpy; only to make the table anew."""
import numpy
from PIL import Image

SIZES = [  # height, width -> height, width
    (1, 1, 5, 7), (5, 7, 1, 1), (8, 8, 8, 8), (16, 16, 8, 8), (7, 13, 14, 26), (32, 32, 224, 224),
    (45, 70, 31, 47), (45, 70, 45, 20), (45, 70, 90, 70), (100, 3, 10, 3), (3, 100, 3, 10),
    (333, 500, 224, 336), (480, 640, 224, 224), (640, 427, 256, 171), (1000, 10, 3, 40),
]


def draw_image(h, w, c, seed):
    state = (seed * 2654435761 + 1) & 0xFFFFFFFF
    pixels = numpy.empty((h, w, c), numpy.uint8)
    for y in range(h):
        for x in range(w):
            for i in range(c):
                state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
                smooth = (y * (3 + seed % 5) + x * (2 + i)) % 400
                value = (smooth if smooth < 200 else 400 - smooth) + (state >> 27)
                pixels[y, x, i] = min(value, 255)
    return pixels


def fnv1a(data):
    digest = 0xCBF29CE484222325
    for byte in data:
        digest = ((digest ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return digest


if __name__ == "__main__":
    for h, w, to_h, to_w in SIZES:
        image = draw_image(h, w, 3, h + w)
        resized = Image.fromarray(image).resize((to_w, to_h), Image.BILINEAR)
        print(f"{{ {h}, {w}, {to_h}, {to_w}, 0x{fnv1a(resized.tobytes()):016x} }},")
