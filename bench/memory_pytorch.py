#!/usr/bin/python3
"""What PyTorch holds between forward and backward of a training step, as one JSON line:

    /usr/bin/python3 bench/memory_pytorch.py --model resnet18 --image-size 32 --batch 128

saved_bytes: distinct storages that autograd has saved, parameters and buffers left out; gradient_bytes: of the parameters;
peak_rss_bytes: of this process. bench_step prints that of Lockstep.
"""
import argparse
import json
import resource

import torch
import torchvision


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="resnet18", choices=("resnet18", "resnet34", "resnet50"))
    parser.add_argument("--image-size", type=int, default=32)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    small = options.image_size < 64
    net = getattr(torchvision.models, options.model)(num_classes=10 if small else 1000)
    if small:
        net.conv1 = torch.nn.Conv2d(3, 64, 3, padding=1, bias=False)
        net.maxpool = torch.nn.Identity()
    net = net.train().to(memory_format=torch.channels_last)
    images = torch.rand(options.batch, 3, options.image_size, options.image_size)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.arange(options.batch) % 10
    own = {tensor.storage().data_ptr() for tensor in [*net.parameters(), *net.buffers()]}
    saved = {}

    def keep(tensor):
        storage = tensor.storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = torch.nn.functional.cross_entropy(net(images), labels)
    loss.backward()
    gradients = sum(parameter.grad.storage().nbytes() for parameter in net.parameters())
    print(json.dumps({"bench": "memory_pytorch", "pytorch": torch.__version__, "model": options.model,
                      "image_size": options.image_size, "batch": options.batch,
                      "saved_bytes": sum(saved.values()), "gradient_bytes": gradients,
                      "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
