"""Whether onnxruntime computes the outputs that Lockstep computes, of every bundled model and of a net of all
layers, with batch norms folded or not and either input. Skipped (exit status 77) without the packages onnx and onnxruntime.

    python3 tests/onnx/onnx_runs.py build/tests/onnx/export_models [MODEL...]
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy
    import onnx
    import onnxruntime
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)

# The sides of the images: 32, or the smallest that the model has.
SIDES = {"vgg16_bn": 224}
MODELS = """resnet20 resnet32 resnet44 resnet56 resnet110 resnet18 resnet34 resnet50 resnet101 resnet152 wide_resnet50_2
resnext50_32x4d mobilenet_v2 vgg16_bn wide_resnet28_10 mlp lenet5 all_layers""".split()
TOLERANCE = 1e-4
N_IMAGES = 16


def run(path, x):
    """The outputs by name, of all images, which are those of each image alone."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    outputs = session.get_outputs()
    assert session.get_inputs()[0].shape[0] == "N" and all(output.shape[0] == "N" for output in outputs)
    names = [output.name for output in outputs]
    whole = session.run(names, {"input": x})
    for several, one in zip(whole, session.run(names, {"input": x[:1]})):
        assert numpy.abs(one - several[:1]).max() <= TOLERANCE
    return dict(zip(names, whole))


def expected(folder, name, shape):
    """What Lockstep computed, images as [N,C,H,W]."""
    values = numpy.fromfile(os.path.join(folder, name + ".bin"), numpy.float32)
    if len(shape) == 4:
        return values.reshape(shape[0], shape[2], shape[3], shape[1]).transpose(0, 3, 1, 2)
    return values.reshape(shape)


def check(program, folder, name, opset):
    side = SIDES.get(name, 32)
    subprocess.run([program, folder, name, str(side), str(opset)], check=True)
    images = numpy.fromfile(os.path.join(folder, "images.bin"), numpy.uint8).reshape(N_IMAGES, side, side, 3)
    worst = 0
    for i in range(4):
        path = os.path.join(folder, f"{i}.onnx")
        onnx.checker.check_model(path, full_check=True)
        model = onnx.load(path)
        assert model.opset_import[0].version == opset
        metadata = {p.key: p.value for p in model.metadata_props}
        assert json.loads(metadata["classes"])[0] == '"a"' and json.loads(metadata["classes"])[9] == "\u00e9"
        x = images
        if i < 2:
            mean, std = (numpy.array(json.loads(metadata[key])) for key in ("mean", "std"))
            x = ((images / 255.0 - mean) / std).transpose(0, 3, 1, 2).astype(numpy.float32)
        outputs = run(path, x)
        assert len(outputs) == (5 if name == "all_layers" else 1) and outputs["output"].shape == (N_IMAGES, 10)
        assert outputs["output"].std() > 1e-3, "the logits are all the same"
        for output, values in outputs.items():
            difference = numpy.abs(values - expected(folder, output, values.shape)).max()
            assert difference <= TOLERANCE, (name, i, output, difference)
            worst = max(worst, difference)
    largest = numpy.abs(outputs["output"]).max()
    print(f"{name}, opset {opset}: {len(outputs)} outputs, logits to {largest:.3g}, differ by at most {worst:.2g}", flush=True)


with tempfile.TemporaryDirectory() as temporary:
    for model_name in sys.argv[2:] or MODELS:
        check(sys.argv[1], temporary, model_name, 17)
    for version in range(18, 26):
        check(sys.argv[1], temporary, "all_layers", version)
