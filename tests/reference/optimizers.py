"""optimizers.safetensors: 100 steps of SGD, Adam, AdamW and RMSprop in PyTorch, in float64, from hashed values with hashed
gradients. NAME.N holds the values after N steps; tests/parity/test_parity_optimizers.c has the same settings under the
same names.
"""
import torch

from common import hashed, save

N_ELEMENTS, RECORDED = 40, (1, 2, 3, 10, 30, 100)
results = {}


def trajectory(name, kind, rate, momentum=0.0, dampening=0.0, nesterov=False, decay=0.0, betas=(0.9, 0.999), epsilon=1e-8,
               clip=None, clip_value=None, **options):
    value = torch.nn.Parameter(torch.tensor(hashed("value", (N_ELEMENTS,)), dtype=torch.float64))
    if kind == 0:
        optimizer = torch.optim.SGD([value], rate, momentum, dampening, decay, nesterov)
    elif kind == 3:
        optimizer = torch.optim.RMSprop([value], rate, eps=epsilon, weight_decay=decay, momentum=momentum, **options)
    else:
        optimizer = (torch.optim.Adam, torch.optim.AdamW)[kind - 1]([value], rate, betas, epsilon, decay)
    for step in range(1, max(RECORDED) + 1):
        # Some gradients are small, so that Adam's epsilon counts.
        scale = 1.0 if step % 7 else 2.0**-20
        value.grad = torch.tensor(hashed(f"gradient.{step}", (N_ELEMENTS,), scale), dtype=torch.float64)
        if clip:
            torch.nn.utils.clip_grad_norm_([value], clip)
        if clip_value:
            torch.nn.utils.clip_grad_value_([value], clip_value)
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
trajectory("sgd_clip_value", 0, 0.1, momentum=0.9, decay=1e-2, clip_value=0.25)
trajectory("adamw_clip_both", 2, 1e-2, decay=0.01, clip=3.6, clip_value=0.75)
trajectory("rmsprop", 3, 1e-3)
trajectory("rmsprop_decay", 3, 1e-3, decay=1e-2, alpha=0.9, epsilon=1e-3)
trajectory("rmsprop_momentum", 3, 1e-3, momentum=0.9)
trajectory("rmsprop_centered", 3, 1e-3, centered=True, epsilon=1e-4)
trajectory("rmsprop_all", 3, 1e-3, momentum=0.8, centered=True, decay=1e-2, alpha=0.95, epsilon=1e-4, clip_value=0.5)


def averaged(decay):
    """torchvision's ExponentialMovingAverage, after each update of SGD."""
    holder = torch.nn.Module()
    holder.value = torch.nn.Parameter(torch.tensor(hashed("value", (N_ELEMENTS,)), dtype=torch.float64))
    ema = torch.optim.swa_utils.AveragedModel(
        holder, avg_fn=lambda average, value, count: decay * average + (1 - decay) * value, use_buffers=True)
    optimizer = torch.optim.SGD(holder.parameters(), 0.1)
    for step in range(1, 31):
        holder.value.grad = torch.tensor(hashed(f"gradient.{step}", (N_ELEMENTS,), 1.0 if step % 7 else 2.0**-20),
                                         dtype=torch.float64)
        optimizer.step()
        ema.update_parameters(holder)
        if step in RECORDED:
            results[f"ema.{step}"] = ema.module.value.detach().clone()


averaged(0.9)


def grouped(name, make):
    """Three parameters in groups: head.weight ten times the learning rate and no weight decay, head.bias half the
    learning rate, body.weight the optimizer's own settings."""
    names = ("body.weight", "head.weight", "head.bias")
    values = {n: torch.nn.Parameter(torch.tensor(hashed(n, (N_ELEMENTS,)), dtype=torch.float64)) for n in names}
    lr = 1e-3
    optimizer = make([{"params": [values["body.weight"]]},
                      {"params": [values["head.weight"]], "lr": 10 * lr, "weight_decay": 0},
                      {"params": [values["head.bias"]], "lr": 0.5 * lr}], lr)
    for step in range(1, 31):
        for n in names:
            values[n].grad = torch.tensor(hashed(f"{n}.{step}", (N_ELEMENTS,)), dtype=torch.float64)
        optimizer.step()
        if step in (2, 30):
            for n in names:
                results[f"{name}.{step}.{n}"] = values[n].detach().clone()


grouped("groups_sgd", lambda groups, lr: torch.optim.SGD(groups, lr, momentum=0.9, weight_decay=0.1))
grouped("groups_adam", lambda groups, lr: torch.optim.Adam(groups, lr, weight_decay=0.1))
grouped("groups_adamw", lambda groups, lr: torch.optim.AdamW(groups, lr, weight_decay=0.1))
grouped("groups_rmsprop", lambda groups, lr: torch.optim.RMSprop(groups, lr, weight_decay=0.1))


def accumulated(name, n, make, clip=None):
    """Gradient accumulation over n of the 5 batches of an epoch. The loss of each batch is divided by the number of
    batches of its update, which is smaller at the end of the epoch, as in timm's train.py."""
    value = torch.nn.Parameter(torch.tensor(hashed("value", (N_ELEMENTS,)), dtype=torch.float64))
    optimizer = make([value])
    for step in range(1, 21):
        place = (step - 1) % 5
        first = place - place % n
        gradient = torch.tensor(hashed(f"gradient.{step}", (N_ELEMENTS,), 1.0 if step % 7 else 2.0**-20), dtype=torch.float64)
        ((value * gradient).sum() / min(n, 5 - first)).backward()
        if place + 1 == min(first + n, 5):
            if clip:
                torch.nn.utils.clip_grad_norm_([value], clip)
            optimizer.step()
            optimizer.zero_grad()
        if step in (4, 5, 20):
            results[f"{name}.{step}"] = value.detach().clone()


for n in (2, 3):
    accumulated(f"accumulate{n}_sgd", n, lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=1e-2), clip=2.3)
    accumulated(f"accumulate{n}_adamw", n, lambda p: torch.optim.AdamW(p, 1e-2, weight_decay=0.1))

save("optimizers.safetensors", results)
