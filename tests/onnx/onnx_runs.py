"""Whether onnxruntime computes the logits that Lockstep computes, of every bundled model and of a net of all
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
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    assert session.get_inputs()[0].shape[0] == "N" and session.get_outputs()[-1].shape == ["N", 10]
    whole = session.run(["output"], {"input": x})[0]
    one = session.run(["output"], {"input": x[:1]})[0]
    assert numpy.abs(one - whole[:1]).max() <= TOLERANCE
    return whole


def check(program, folder, name, opset):
    side = SIDES.get(name, 32)
    subprocess.run([program, folder, name, str(side), str(opset)], check=True)
    images = numpy.fromfile(os.path.join(folder, "images.bin"), numpy.uint8).reshape(N_IMAGES, side, side, 3)
    logits = numpy.fromfile(os.path.join(folder, "logits.bin"), numpy.float32).reshape(N_IMAGES, 10)
    assert logits.std() > 1e-3, "the logits are all the same"
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
        difference = numpy.abs(run(path, x) - logits).max()
        assert difference <= TOLERANCE, (name, i, difference)
        worst = max(worst, difference)
    print(f"{name}, opset {opset}: logits to {numpy.abs(logits).max():.3g} differ by at most {worst:.2g}", flush=True)


with tempfile.TemporaryDirectory() as temporary:
    for model_name in sys.argv[2:] or MODELS:
        check(sys.argv[1], temporary, model_name, 17)
    for version in range(18, 26):
        check(sys.argv[1], temporary, "all_layers", version)
