"""Writes tests/models/<name>.txt: names and shapes (O,H,W,I) of torchvision's models, in its order.

Run with Debian's python3-torchvision; the files are committed, tests need no Python."""
import os
import torchvision

here = os.path.dirname(os.path.abspath(__file__))
for name in ["resnet18", "resnet50", "wide_resnet50_2", "resnext50_32x4d", "mobilenet_v2",
             "vgg16_bn"]:
    model = getattr(torchvision.models, name)()
    with open(os.path.join(here, "..", "models", name + ".txt"), "w") as out:
        for key, value in model.state_dict().items():
            if key.endswith("num_batches_tracked"):
                continue
            shape = list(value.shape)
            if len(shape) == 4:
                shape = [shape[0], shape[2], shape[3], shape[1]]
            out.write("%s [%s]\n" % (key, ",".join(map(str, shape))))
