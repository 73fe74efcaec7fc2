"""The logits of a LeNet-5 as PyTorch programs write it, for tests/parity/test_parity_lenet5.c. Writes lenet5.safetensors. Weights
and images are hashed from their names, in PyTorch's order of elements."""
import math

import torch
from torch import nn

from common import hashed, save, to_nchw


class LeNet5(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        x = torch.relu(self.fc1(torch.flatten(x, 1)))
        return self.fc3(torch.relu(self.fc2(x)))


net = LeNet5().double()
for name, p in net.named_parameters():
    scale = math.sqrt(6.0 / (p.numel() // p.shape[0])) if p.dim() > 1 else 0.1
    p.data.copy_(torch.tensor(hashed(name, p.shape, scale)))
images = torch.tensor(hashed("images", (4, 28, 28, 1), 2)).double()
save("lenet5.safetensors", {"logits": net(to_nchw(images))})
