"""optimizers.safetensors: 100 steps of SGD, Adam and AdamW in PyTorch, in float64, from hashed values with hashed
gradients. NAME.N holds the values after N steps; tests/parity/test_parity_optimizers.c has the same settings under the
same names.
"""
import torch

from common import hashed, save

N_ELEMENTS, RECORDED = 40, (1, 2, 3, 10, 30, 100)
results = {}


def trajectory(name, kind, rate, momentum=0.0, dampening=0.0, nesterov=False, decay=0.0, betas=(0.9, 0.999), epsilon=1e-8,
               clip=None):
    value = torch.nn.Parameter(torch.tensor(hashed("value", (N_ELEMENTS,)), dtype=torch.float64))
    if kind == 0:
        optimizer = torch.optim.SGD([value], rate, momentum, dampening, decay, nesterov)
    else:
        optimizer = (torch.optim.Adam, torch.optim.AdamW)[kind - 1]([value], rate, betas, epsilon, decay)
    for step in range(1, max(RECORDED) + 1):
        # Some gradients are small, so that Adam's epsilon counts.
        scale = 1.0 if step % 7 else 2.0**-20
        value.grad = torch.tensor(hashed(f"gradient.{step}", (N_ELEMENTS,), scale), dtype=torch.float64)
        if clip:
            torch.nn.utils.clip_grad_norm_([value], clip)
        optimizer.step()
        if step in RECORDED:
            results[f"{name}.{step}"] = value.detach().clone()


trajectory("sgd", 0, 0.1)
trajectory("sgd_momentum", 0, 0.01, momentum=0.9)
trajectory("sgd_decay", 0, 0.1, decay=5e-4)
trajectory("sgd_dampening", 0, 0.05, momentum=0.9, dampening=0.5)
trajectory("sgd_nesterov_decay", 0, 0.01, momentum=0.9, nesterov=True, decay=1e-2)
trajectory("sgd_clip", 0, 0.1, momentum=0.9, decay=1e-2, clip=1.0)
trajectory("adam", 1, 1e-3)
trajectory("adam_decay", 1, 1e-2, decay=1e-2)
trajectory("adam_betas", 1, 3e-3, betas=(0.8, 0.95), epsilon=1e-4)
trajectory("adamw", 2, 1e-3, decay=0.01)
trajectory("adamw_decay", 2, 1e-2, decay=0.1)
trajectory("adamw_clip", 2, 1e-2, decay=0.01, clip=3.6)

save("optimizers.safetensors", results)
