#!/usr/bin/python3
"""Prints the tables of test_pixel_ops.c: digests of what Pillow and torchvision make of draw_image().

Needs python3-torchvision, python3-pil and python3-numpy; only to make the tables anew."""
import numpy
from PIL import Image
from pillow_resize import draw_image, fnv1a
from torchvision.transforms import RandAugment, TrivialAugmentWide
from torchvision.transforms import functional as F
from torchvision.transforms.autoaugment import _apply_op

FACTORS = (0, 0.27, 0.5, 1, 1.3, 1.99, 3.7)
HUES = (-0.5, -0.31, -0.003, 0, 0.004, 0.2, 0.5)


def picture(h, w, c):
    pixels = draw_image(h, w, c, h + w)
    return Image.fromarray(pixels if c == 3 else pixels[:, :, 0])


def colours():
    """All RGB values that are multiples of 5, 52 x 2704 pixels."""
    values = numpy.arange(0, 256, 5, dtype=numpy.uint8)
    return Image.fromarray(numpy.stack(numpy.meshgrid(values, values, values, indexing="ij"), -1).reshape(52, -1, 3))


def digest(images):
    return fnv1a(b"".join(image.tobytes() for image in images))


def space(policy, image):
    size = (image.size[1], image.size[0])
    return policy._augmentation_space(31, size) if isinstance(policy, RandAugment) else policy._augmentation_space(31)


def augmented(policy, image, name):
    """The results of an op: at all bins (RandAugment: 9), each without and with the sign."""
    magnitudes, signed = space(policy, image)[name]
    bins = [0] if magnitudes.ndim == 0 else [9] if isinstance(policy, RandAugment) else range(31)
    for i in bins:
        magnitude = float(magnitudes[i]) if magnitudes.ndim else 0.0
        for sign in (1, -1) if signed else (1,):
            yield _apply_op(image, name, sign * magnitude, interpolation=F.InterpolationMode.NEAREST, fill=None)


if __name__ == "__main__":
    for h, w, c in ((40, 53, 3), (31, 17, 1), (1, 1, 3), (2, 5, 3), (3, 3, 3)):
        image = picture(h, w, c)
        rows = [[F.adjust_brightness(image, x) for x in FACTORS], [F.adjust_contrast(image, x) for x in FACTORS],
                [F.adjust_saturation(image, x) for x in FACTORS], [F.adjust_sharpness(image, x) for x in FACTORS],
                [F.adjust_hue(image, x) for x in HUES]]
        print(f"{{ {h}, {w}, {c}, {{ {', '.join(f'0x{digest(row):016x}' for row in rows)} }} }},")
    print(f"colours 0x{digest(F.adjust_hue(colours(), x) for x in HUES):016x}")
    for policy in (TrivialAugmentWide(), RandAugment()):
        for h, w, c in ((29, 44, 3), (44, 29, 1), (64, 64, 3), (225, 225, 3)):
            if isinstance(policy, TrivialAugmentWide) and h > 64:
                continue
            image = picture(h, w, c)
            for number, name in enumerate(space(policy, image)):
                print(f"{{ {type(policy).__name__}, {h}, {w}, {c}, {number}, 0x{digest(augmented(policy, image, name)):016x} }},")
