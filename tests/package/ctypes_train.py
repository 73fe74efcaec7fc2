"""Trains five steps through the shared library and ctypes, twice with other numbers of threads and workers: the same losses. The
structs are written down here as a binding would have them, so it also shows that the interface has nothing that only C can use.

    python3 tests/package/ctypes_train.py build/liblockstep.so
"""
import ctypes
import os
import random
import sys
import tempfile
from ctypes import POINTER, Structure, byref, c_bool, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_uint64, c_void_p

STEPS, SIZE = 5, 16
VERSION = 100  # of the headers that these structs are of: 0.1.0
CROSS_ENTROPY = 1


class ContextConfig(Structure):
    _fields_ = [("device", c_char_p), ("seed", c_uint64), ("deterministic", c_int), ("arithmetic", c_int), ("benchmark", c_int),
                ("shards", c_int), ("sync_batch_norm", c_bool), ("threads", c_int), ("communicator", c_char_p),
                ("communication_timeout_seconds", c_double), ("partition_optimizer", c_bool), ("audit_every", c_int64),
                ("memory_limit_bytes", c_size_t), ("nvtx", c_bool), ("allocator", c_void_p), ("log", c_void_p), ("log_user", c_void_p),
                ("reserved", c_uint64 * 16)]


class LoaderConfig(Structure):
    _fields_ = [("batch_size", c_int64), ("workers", c_int), ("prefetch", c_int), ("shuffle", c_bool), ("sampler", c_int),
                ("drop_last", c_bool), ("honour_exif", c_bool), ("decode", c_int), ("on_bad_image", c_int), ("max_pixels", c_int64),
                ("seeding", c_int), ("grey", c_bool), ("alpha", c_int), ("depth", c_int), ("resize", c_int64), ("resize_mode", c_int),
                ("crop", c_int64), ("crop_width", c_int64), ("crop_padding", c_int64), ("random_resized_crop", c_bool),
                ("scale_min", c_float), ("scale_max", c_float), ("ratio_min", c_float), ("ratio_max", c_float),
                ("flip_probability", c_float), ("vertical_flip_probability", c_float), ("auto_augment", c_int), ("brightness", c_float),
                ("contrast", c_float), ("saturation", c_float), ("hue", c_float), ("random_erase", c_float), ("mixup_alpha", c_float),
                ("cutmix_alpha", c_float), ("mean", c_float * 3), ("std", c_float * 3), ("reserved", c_uint64 * 16)]


class Shape(Structure):
    _fields_ = [("n_dims", c_int), ("dims", c_int64 * 6)]


class Spec(Structure):
    _fields_ = [("dtype", c_int), ("shape", Shape)]


class InputSpec(Structure):
    _fields_ = [("image", Spec), ("mean", c_float * 4), ("std", c_float * 4), ("n_classes", c_int), ("n_targets", c_int),
                ("reserved", c_uint64 * 4)]


class LossConfig(Structure):
    _fields_ = [("kind", c_int), ("label_smoothing", c_float), ("class_weights", POINTER(c_float)), ("soft_targets", c_bool),
                ("reserved", c_uint64 * 8)]


class LossScaleConfig(Structure):
    _fields_ = [("initial", c_float), ("growth_interval", c_int64), ("reserved", c_uint64 * 4)]


class NetConfig(Structure):
    _fields_ = [("input", InputSpec), ("loss", LossConfig), ("precision", c_int), ("loss_scale", LossScaleConfig), ("recompute", c_int),
                ("max_execution_plans", c_int), ("steps", c_int64), ("inference", c_bool), ("reserved", c_uint64 * 16)]


class Conv2dConfig(Structure):
    _fields_ = [(name, c_int) for name in ("kernel", "kernel_w", "stride", "stride_w", "padding", "padding_w", "dilation", "dilation_w",
                                           "groups")] + [("bias", c_bool), ("init", c_int), ("bias_init", c_int),
                                                         ("reserved", c_uint64 * 4)]


class Batch(Structure):
    _fields_ = [("images", c_void_p), ("labels", c_void_p), ("samples", POINTER(c_int64)), ("n", c_int64), ("epoch", c_int64),
                ("step", c_int64), ("targets", c_void_p), ("is_last", c_bool), ("reserved", c_uint64 * 8)]


MODEL = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_void_p)  # graph, input, options -> node


def load(path):
    library = ctypes.CDLL(path)
    pointer, text = c_void_p, c_char_p
    for name, result, *arguments in (
            ("ls_context_open_for", pointer, c_int, POINTER(ContextConfig)), ("ls_context_close", None, POINTER(pointer)),
            ("ls_context_status", c_int, pointer), ("ls_context_message", text, pointer), ("ls_image_folder_open", pointer, pointer, text),
            ("ls_loader_open", pointer, pointer, POINTER(LoaderConfig)), ("ls_loader_input_spec", InputSpec, pointer),
            ("ls_loader_start", c_int, pointer, c_int64), ("ls_loader_next", c_bool, pointer, POINTER(Batch)),
            ("ls_net_build", pointer, pointer, MODEL, pointer, POINTER(NetConfig)), ("ls_sgd", pointer, pointer, pointer),
            ("ls_net_step", c_int, pointer, pointer, POINTER(Batch), c_double), ("ls_net_loss", c_int, pointer, POINTER(c_double)),
            ("ls_conv2d", pointer, pointer, text, pointer, c_int64, POINTER(Conv2dConfig)), ("ls_relu", pointer, pointer, pointer),
            ("ls_global_avg_pool", pointer, pointer, pointer), ("ls_linear", pointer, pointer, text, pointer, c_int64, pointer)):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def train(library, folder, threads, workers):
    @MODEL
    def model(graph, x, _options):
        x = library.ls_conv2d(graph, b"conv", x, 8, byref(Conv2dConfig(kernel=3, padding=1, stride=2)))
        x = library.ls_global_avg_pool(graph, library.ls_relu(graph, x))
        return library.ls_linear(graph, b"fc", x, 2, None)

    context = c_void_p(library.ls_context_open_for(VERSION, byref(ContextConfig(seed=7, threads=threads))))
    data = library.ls_image_folder_open(context, folder.encode())
    loader = library.ls_loader_open(data, byref(LoaderConfig(batch_size=4, workers=workers, shuffle=True, crop=SIZE, crop_padding=2)))
    net = library.ls_net_build(context, model, None,
                               byref(NetConfig(input=library.ls_loader_input_spec(loader), loss=LossConfig(kind=CROSS_ENTROPY))))
    optimizer = library.ls_sgd(net, None)
    library.ls_loader_start(loader, 0)
    batch, loss, losses = Batch(), c_double(), []
    while len(losses) < STEPS and library.ls_loader_next(loader, byref(batch)):
        library.ls_net_step(net, optimizer, byref(batch), 0.1)
        library.ls_net_loss(net, byref(loss))
        losses.append(loss.value)
    assert library.ls_context_status(context) == 0, library.ls_context_message(context).decode()
    library.ls_context_close(byref(context))
    assert context.value is None
    return losses


def main():
    library = load(sys.argv[1])
    generator = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        for label, level in (("dark", 60), ("light", 200)):
            os.mkdir(os.path.join(folder, label))
            for i in range(12):
                pixels = bytes(level + generator.randrange(40) for _ in range(SIZE * SIZE * 3))
                with open(os.path.join(folder, label, "%d.ppm" % i), "wb") as file:
                    file.write(b"P6 %d %d 255\n" % (SIZE, SIZE) + pixels)
        first, second = train(library, folder, 1, 0), train(library, folder, 3, 2)
    assert first == second and len(first) == STEPS and len(set(first)) == STEPS, (first, second)
    print("five steps by ctypes: losses", " ".join("%.6f" % loss for loss in first))


main()
