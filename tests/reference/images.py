"""images.safetensors: small image files of every kind that Lockstep reads, with the pixels that Pillow decodes them to.

Needs Pillow 13, numpy and cjpeg of libjpeg-turbo (Debian: libjpeg-turbo-progs); to be run by hand. A case NAME is the
tensor NAME/file, the bytes of the file, and NAME/pixels, u8 [H,W,3]:
Image.open(NAME).convert("RGB"), turned by ImageOps.exif_transpose where NAME begins with "exif".
Where Lockstep differs from Pillow on purpose, the pixels are Lockstep's, computed here, and NAME in the metadata gives
the reason. Where there are no pixels, Lockstep refuses the file, and NAME in the metadata is a part of the error.
tests/data/test_decode_pillow.c compares.
"""
import io
import json
import os
import struct
import subprocess
import zlib

import numpy as np
import PIL
from PIL import Image, ImageOps

FIXTURE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures", "images.safetensors")
tensors, metadata = {}, {"pillow": PIL.__version__}


def decode_with_pillow(name, data):
    with Image.open(io.BytesIO(data)) as image:
        if name.startswith("exif"):
            image = ImageOps.exif_transpose(image)
        return np.asarray(image.convert("RGB"))


def add(name, data, pixels=None, reason=None):
    """pixels: what Lockstep decodes where Pillow decodes something else, or nothing, with the reason."""
    assert name + "/file" not in tensors, name
    try:
        pillow = decode_with_pillow(name, data)
    except OSError:
        assert pixels is not None, f"{name}: Pillow refuses it"
        pillow = None
    tensors[name + "/file"] = np.frombuffer(data, np.uint8)
    tensors[name + "/pixels"] = pillow if pixels is None else pixels.astype(np.uint8)
    if pixels is not None:
        assert not np.array_equal(pixels, pillow), f"{name}: no difference"
        metadata[name] = reason


def refuse(name, data, error):
    tensors[name + "/file"] = np.frombuffer(data, np.uint8)
    metadata[name] = error


def save():
    header, blobs, offset = {"__metadata__": metadata}, [], 0
    for name in sorted(tensors):
        blob = np.ascontiguousarray(tensors[name]).tobytes()
        header[name] = {"dtype": "U8", "shape": list(tensors[name].shape), "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(FIXTURE, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))
    print(sum(name.endswith("/file") for name in tensors), "cases,", 8 + len(text) + offset, "bytes")


def draw(h, w, c, top=255, seed=1):
    """[h,w,c] numbers 0..top: slopes with some noise, the extremes among them."""
    y, x, i = np.meshgrid(np.arange(h), np.arange(w), np.arange(c), indexing="ij")
    noise = (y * 7919 + x * 104729 + i * 1299709 + seed * 15485863) * 2654435761 % (1 << 32) / (1 << 32)
    slope = np.abs((y * (3 + i) + x * (5 - i)) / (2 * (h + w)) % 2 - 1)
    values = np.rint(np.clip(1.2 * slope - 0.1 + 0.1 * (noise - 0.5), 0, 1) * top).astype(np.int64)
    values[-1, -1, :] = top
    return values


def to_bytes(values, top):
    """0..top to 0..255, halves rounded up; [h,w,1] to three equal channels."""
    out = (values * 255 + top // 2) // top
    return np.repeat(out, 3, axis=2) if values.shape[2] == 1 else out


# ---- JPEG ----

def cjpeg(pixels, *options):
    h, w, c = pixels.shape
    ppm = b"P%d %d %d 255\n" % (6 if c == 3 else 5, w, h) + pixels.astype(np.uint8).tobytes()
    return subprocess.run(["cjpeg", *options], input=ppm, stdout=subprocess.PIPE, check=True).stdout


def segment(marker, data):
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


def with_segment(jpeg, marker, data):
    """Added before all others."""
    return jpeg[:2] + segment(marker, data) + jpeg[2:]


def without_segment(jpeg, marker):
    at = jpeg.index(bytes([0xFF, marker]))
    return jpeg[:at] + jpeg[at + 2 + struct.unpack(">H", jpeg[at + 2:at + 4])[0]:]


def adobe(transform):
    return b"Adobe" + struct.pack(">HHHB", 100, 0, 0, transform)


def with_component_ids(jpeg, ids):
    """In the frame header and the only scan header."""
    out = bytearray(jpeg)
    frame, scan = out.index(b"\xff\xc0"), out.index(b"\xff\xda")
    for i, number in enumerate(ids):
        out[frame + 10 + 3 * i] = out[scan + 5 + 2 * i] = number
    return bytes(out)


def add_jpegs():
    for n in range(1, 18):
        add(f"jpeg/sizes_{n}x{18 - n}", cjpeg(draw(n, 18 - n, 3), "-sample", "2x2"))
    for sampling in ("1x1", "2x1", "1x2", "2x2", "4x1", "1x4", "4x2"):
        for mode in ("", "progressive"):
            add(f"jpeg/sampling_{sampling}{mode}",
                cjpeg(draw(10, 21, 3), "-sample", sampling, *(["-" + mode] if mode else [])))
    colour = draw(10, 18, 3)
    add("jpeg/grey", cjpeg(draw(10, 21, 1)))
    add("jpeg/grey_progressive", cjpeg(draw(10, 21, 1), "-progressive"))
    add("jpeg/arithmetic", cjpeg(colour, "-arithmetic"))
    add("jpeg/arithmetic_progressive", cjpeg(colour, "-arithmetic", "-progressive"))
    add("jpeg/restart", cjpeg(colour, "-restart", "1B"))
    add("jpeg/restart_progressive", cjpeg(colour, "-restart", "1", "-progressive"))
    add("jpeg/optimized", cjpeg(colour, "-optimize"))
    for quality in ("1", "50", "100"):
        add("jpeg/quality_" + quality, cjpeg(colour, "-quality", quality))
    # which colours the three channels are: JFIF, else Adobe's marker, else their names
    plain = without_segment(cjpeg(colour), 0xE0)
    add("jpeg/neither_jfif_nor_adobe", plain)
    add("jpeg/adobe_transform_1", with_segment(plain, 0xEE, adobe(1)))
    add("jpeg/adobe_transform_0", with_segment(plain, 0xEE, adobe(0)))
    add("jpeg/adobe_transform_9", with_segment(plain, 0xEE, adobe(9)))
    add("jpeg/rgb", cjpeg(colour, "-rgb"))
    add("jpeg/channels_named_rgb", with_component_ids(plain, b"RGB"))
    add("jpeg/channels_named_012", with_component_ids(plain, b"\0\1\2"))
    # warnings of libjpeg that no pixel depends on
    add("jpeg/jfif_version_9", cjpeg(colour).replace(b"JFIF\0\1", b"JFIF\0\x09"))
    add("jpeg/bytes_between_segments", cjpeg(colour).replace(b"\xff\xc0", b"\0\1\xff\0\2\xff\xc0"))
    add("jpeg/bytes_before_the_end", cjpeg(colour)[:-2] + bytes(20) + b"\xff\xd9")
    add("jpeg/bytes_after_the_end", cjpeg(colour) + b"more")
    refuse("jpeg/without_end", cjpeg(colour)[:-2], "Premature end of JPEG file")
    refuse("jpeg/truncated", cjpeg(colour)[:-60], "Premature end of JPEG file")
    add_cmyk()


def add_cmyk():
    out = io.BytesIO()
    Image.fromarray(draw(10, 18, 4).astype(np.uint8), "CMYK").save(out, "JPEG", quality=95)
    inverted = out.getvalue()  # by Adobe's convention
    add("jpeg/cmyk_adobe", inverted)
    ycck = with_segment(without_segment(inverted, 0xEE), 0xEE, adobe(2))
    add("jpeg/ycck_adobe", ycck)
    plain = without_segment(inverted, 0xEE)
    with Image.open(io.BytesIO(plain)) as image:
        light = np.asarray(image).astype(np.int64)  # 255 - ink of the file's numbers taken as ink
    add("jpeg/cmyk", plain, to_bytes(light[:, :, :3] * light[:, :, 3:], 255 * 255),
        "without Adobe's marker 255 is full ink; Pillow assumes Adobe's convention, 0, in every CMYK file")


# ---- EXIF ----

def exif(order, value, kind="H", count=1):
    types = {"B": 1, "H": 3, "I": 4}
    entry = struct.pack(order + "HHI", 0x112, types[kind], count) + struct.pack(order + kind, value).ljust(4, b"\0")
    return (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IH", 8, 1) + entry + bytes(4)


def add_exif():
    jpeg, png = cjpeg(draw(5, 9, 1)), draw(5, 9, 3)

    def both(name, tiff):
        add("exif/jpeg_" + name, with_segment(jpeg, 0xE1, b"Exif\0\0" + tiff))
        add("exif/png_" + name, make_png(png, 8, 2, extra=chunk(b"eXIf", tiff)))
    for order, name in (("<", "little"), (">", "big")):
        for orientation in range(1, 9):
            both(f"{orientation}_{name}", exif(order, orientation))
        both(f"6_long_{name}", exif(order, 6, "I"))
    both("0", exif("<", 0))
    both("9", exif("<", 9))
    both("6_byte", exif(">", 6, "B"))
    both("6_twice", exif("<", 6, count=2))
    both("cut", exif("<", 6)[:15])
    add("exif/png_chunk_after_the_pixels", make_png(png, 8, 2, extra_after=chunk(b"eXIf", exif(">", 6))))
    junk = b"\0\1\xff\0\2"
    add("exif/jpeg_bytes_between_segments", jpeg[:20] + junk + segment(0xE1, b"Exif\0\0" + exif(">", 6)) + jpeg[20:])
    xmp = b'http://ns.adobe.com/xap/1.0/\0<rdf:Description tiff:Orientation="6"/>'
    add("exif/jpeg_xmp", with_segment(jpeg, 0xE1, xmp), decode_with_pillow("stored", jpeg),
        "the orientation in XMP is not read; Pillow takes it where EXIF has none")
    # the orientation counts only where it is honoured
    add("jpeg/orientation_6", with_segment(jpeg, 0xE1, b"Exif\0\0" + exif(">", 6)))
    add("png/orientation_6", make_png(png, 8, 2, extra=chunk(b"eXIf", exif(">", 6))))


# ---- PNG ----

GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def pack_rows(values, depth, big_endian=True):
    """[h,w,c] to rows of bytes, the first pixel in the highest bits."""
    h = values.shape[0]
    flat = values.reshape(h, -1)
    if depth == 16:
        return [row.astype(">u2" if big_endian else "<u2").tobytes() for row in flat]
    bits = (flat[:, :, None] >> np.arange(depth - 1, -1, -1)) & 1
    return [row.tobytes() for row in np.packbits(bits.reshape(h, -1).astype(np.uint8), axis=1)]


def filtered(rows, step, kind):
    """kind 0..4 for all rows; 5: each in turn."""
    out, above = [], bytes(len(rows[0]) if rows else 0)
    for y, row in enumerate(rows):
        k = y % 5 if kind == 5 else kind
        line = bytearray([k])
        for i, value in enumerate(row):
            left = row[i - step] if i >= step else 0
            corner = above[i - step] if i >= step else 0
            guess = left + above[i] - corner
            nearest = min((left, above[i], corner), key=lambda p: abs(guess - p))
            line.append((value - (0, left, above[i], (left + above[i]) // 2, nearest)[k]) % 256)
        out.append(bytes(line))
        above = row
    return b"".join(out)


def make_png(values, depth, colour, interlaced=False, kind=5, extra=b"", extra_after=b"", n_data=1):
    h, w, c = values.shape
    step = max(1, c * depth // 8)
    passes = [(0, 0, 1, 1)]
    if interlaced:
        passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    raw = b""
    for top, left, down, right in passes:
        part = values[top::down, left::right]
        if part.size:
            raw += filtered(pack_rows(part, depth), step, kind)
    data = zlib.compress(raw, 9)
    cuts = [len(data) * i // n_data for i in range(n_data + 1)]
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, colour, 0, 0, interlaced))
            + extra + b"".join(chunk(b"IDAT", data[a:b]) for a, b in zip(cuts, cuts[1:])) + extra_after
            + chunk(b"IEND", b""))


def add_png_kind(colour, depth):
    c = CHANNELS[colour]
    name = {GREY: "grey", RGB: "rgb", PALETTE: "palette", GREY_ALPHA: "grey_alpha", RGBA: "rgba"}[colour] + str(depth)
    palette = chunk(b"PLTE", draw(1, 1 << depth, 3).astype(np.uint8).tobytes()) if colour == PALETTE else b""
    transparent = {GREY: struct.pack(">H", 1), RGB: struct.pack(">HHH", 1, 2, 3), PALETTE: bytes([0, 128])}
    for interlaced in (False, True):
        for h, w in ((7, 9), (1, 1)) + (((9, 3),) if interlaced else ()):
            values = draw(h, w, c, (1 << depth) - 1)
            suffix = ("_interlaced" if interlaced else "") + ("" if h == 7 else f"_{w}x{h}")
            add_png(f"png/{name}{suffix}", values, depth, colour, interlaced, extra=palette)
    if colour in transparent:
        add_png(f"png/{name}_trns", draw(7, 9, c, (1 << depth) - 1), depth, colour,
                extra=palette + chunk(b"tRNS", transparent[colour]))


def add_png(name, values, depth, colour, *args, **options):
    data = make_png(values, depth, colour, *args, **options)
    if colour == GREY and depth == 16 and values.size > 1:  # a single pixel is the largest number
        add(name, data, np.repeat(values >> 8, 3, axis=2),
            "the upper 8 of 16 bits, as of the other 16-bit kinds; Pillow clips 16-bit grey at 255")
    else:
        add(name, data)


def add_pngs():
    for colour, depths in ((GREY, (1, 2, 4, 8, 16)), (RGB, (8, 16)), (PALETTE, (1, 2, 4, 8)), (GREY_ALPHA, (8, 16)),
                           (RGBA, (8, 16))):
        for depth in depths:
            add_png_kind(colour, depth)
    rgb = draw(7, 9, 3)
    for kind in range(5):
        add(f"png/filter_{kind}", make_png(rgb, 8, RGB, kind=kind))
    add("png/many_data_chunks", make_png(rgb, 8, RGB, n_data=20))
    add("png/gamma", make_png(rgb, 8, RGB, extra=chunk(b"gAMA", struct.pack(">I", 100000))))
    add("png/srgb", make_png(rgb, 8, RGB, extra=chunk(b"sRGB", b"\0")))
    add("png/chromaticities", make_png(rgb, 8, RGB, extra=chunk(b"cHRM", struct.pack(">8I", *range(1, 9)))))
    add("png/background", make_png(rgb, 8, RGB, extra=chunk(b"bKGD", bytes(6))))
    add("png/significant_bits", make_png(rgb, 8, RGB, extra=chunk(b"sBIT", b"\5\6\5")))
    add("png/text", make_png(rgb, 8, RGB, extra=chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(100000)))))
    add("png/palette_suggested", make_png(rgb, 8, RGB, extra=chunk(b"PLTE", bytes(6))))
    add("png/palette_short", make_png(draw(7, 9, 1, 2), 8, PALETTE, extra=chunk(b"PLTE", bytes(range(9)))))
    add("png/bytes_after_the_end", make_png(rgb, 8, RGB) + b"more")


# ---- BMP ----

def make_bmp(rows, w, h, bits, compression=0, palette=b"", masks=b"", header=40, top_down=False):
    rows = [row + bytes(-len(row) % 4) for row in rows]
    data = b"".join(rows if top_down else rows[::-1])
    if header == 12:
        info = struct.pack("<IHHHH", 12, w, h, 1, bits)
    else:
        info = struct.pack("<IiiHHIIiiII", header, w, -h if top_down else h, 1, bits, compression, len(data), 2835,
                           2835, len(palette) // 4, 0)
        info += masks.ljust(header - 40, b"\0") if header > 40 else b""
    tables = (masks if header == 40 else b"") + palette
    offset = 14 + len(info) + len(tables)
    return b"BM" + struct.pack("<IHHI", offset + len(data), 0, 0, offset) + info + tables + data


def masked(words, mask):
    shift = (mask & -mask).bit_length() - 1
    return (((words & mask) >> shift) * 255 + (mask >> shift) // 2) // (mask >> shift)


def add_bmps():
    h, w = 7, 9
    colours = draw(1, 256, 3).reshape(256, 3).astype(np.uint8)
    for bits in (1, 4, 8):
        n = 1 << bits
        rows = pack_rows(draw(h, w, 1, n - 1), bits)
        quads = b"".join(bytes(c) + b"\0" for c in colours[:n])
        add(f"bmp/{bits}", make_bmp(rows, w, h, bits, palette=quads))
        add(f"bmp/{bits}_top_down", make_bmp(rows, w, h, bits, palette=quads, top_down=True))
        add(f"bmp/{bits}_os2", make_bmp(rows, w, h, bits, palette=colours[:n].tobytes(), header=12))
    for bits in (24, 32):
        rows = pack_rows(draw(h, w, bits // 8), 8)
        for top_down in (False, True):
            add(f"bmp/{bits}{'_top_down' if top_down else ''}", make_bmp(rows, w, h, bits, top_down=top_down))
    add("bmp/24_os2", make_bmp(pack_rows(draw(h, w, 3), 8), w, h, 24, header=12))
    words = draw(h, w, 1, 0xFFFF)
    rows16 = pack_rows(words, 16, big_endian=False)
    reason = "5 and 6 bits are rounded to 8; Pillow rounds down"
    for name, masks, compression in (("", (0x7C00, 0x3E0, 0x1F), 0), ("_565", (0xF800, 0x7E0, 0x1F), 3),
                                     ("_555", (0x7C00, 0x3E0, 0x1F), 3)):
        table = struct.pack("<III", *masks) if compression else b""
        add("bmp/16" + name, make_bmp(rows16, w, h, 16, compression, masks=table),
            np.concatenate([masked(words, mask) for mask in masks], axis=2), reason)
    values = draw(h, w, 4)
    rows32 = pack_rows(values, 8)
    add("bmp/32_bgr0", make_bmp(rows32, w, h, 32, 3, masks=struct.pack("<III", 0xFF0000, 0xFF00, 0xFF)))
    for name, masks, first in (("rgb0", (0xFF, 0xFF00, 0xFF0000), 0), ("0rgb", (0xFF00, 0xFF0000, 0xFF000000), 1)):
        add(f"bmp/32_{name}", make_bmp(rows32, w, h, 32, 3, masks=struct.pack("<III", *masks)),
            values[:, :, first:first + 3], "any masks are read; Pillow refuses this order without a larger header")
    for header in (52, 56, 108, 124):
        masks = struct.pack("<IIII", 0xFF0000, 0xFF00, 0xFF, 0xFF000000 if header > 52 else 0)
        add(f"bmp/32_header_{header}", make_bmp(rows32, w, h, 32, 3, masks=masks[:header - 40], header=header))
    quads = b"".join(bytes(c) + b"\0" for c in colours)
    refuse("bmp/8_rle", make_bmp([bytes([w, 3, 0, 0]) for _ in range(h)], w, h, 8, 1, palette=quads),
           "compressed BMP (type 1) is not read")
    refuse("bmp/4_rle", make_bmp([bytes([w, 0x34, 0, 0]) for _ in range(h)], w, h, 4, 2, palette=quads[:64]),
           "compressed BMP (type 2) is not read")


# ---- PNM ----

def add_pnms():
    h, w = 5, 7
    for c, text, binary in ((1, 2, 5), (3, 3, 6)):
        for top in (1, 3, 100, 254, 255, 256, 1000, 4095, 65535):
            values = draw(h, w, c, top)
            header = b"P%d\n# two\n%d %d\n%d\n"
            files = {
                text: header % (text, w, h, top) + b"\n".join(b"%d" % v for v in values.flat) + b"\n",
                binary: header % (binary, w, h, top) + values.astype(">u2" if top > 255 else np.uint8).tobytes(),
            }
            for kind, data in files.items():
                differs = ()
                if c == 1 and top > 255:
                    differs = to_bytes(values, top), "0..maxval is scaled to 0..255; Pillow clips 16-bit grey at 255"
                elif c == 3 and top == 100:
                    differs = to_bytes(values, top), "halves are rounded up; Pillow rounds them to even"
                add(f"pnm/p{kind}_{top}", data, *differs)
    refuse("pnm/p1", b"P1\n2 1\n0 1\n", "a file of type PBM")
    refuse("pnm/p4", b"P4\n2 1\n\x40", "a file of type PBM")


if __name__ == "__main__":
    add_jpegs()
    add_exif()
    add_pngs()
    add_bmps()
    add_pnms()
    save()
