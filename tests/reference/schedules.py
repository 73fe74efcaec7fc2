"""schedules.txt: the rates of PyTorch's schedulers as exact decimals, step by step where they go by steps (4 an epoch)
and epoch by epoch where they go by epochs: lines of a name and its rates. tests/parity/test_parity_schedules.c has the
same settings under the same names.
"""
import os

import torch
from torch.optim import lr_scheduler as schedulers

from common import FIXTURES, hashed

EPOCHS, STEPS = 20, 4
results = {}


def optimizer(rate):
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], rate)


def record(name, rate, make, n):
    opt = optimizer(rate)
    scheduler = make(opt)
    rates = []
    for _ in range(n):
        rates.append(opt.param_groups[0]["lr"])
        opt.step()
        scheduler.step()
    results[name] = rates


def plateau(name, rate, metrics, **options):
    """Rates of the epochs 0, 1, ..., each after the metrics of those before."""
    opt = optimizer(rate)
    scheduler = schedulers.ReduceLROnPlateau(opt, **options)
    rates = []
    for metric in metrics:
        rates.append(opt.param_groups[0]["lr"])
        scheduler.step(float(metric))
    results[name] = rates


def after_warm_up(name, rate, make, each):
    """Two epochs of warm-up in steps, then a schedule whose clock starts after them: `each` steps share its rate."""
    warm_steps = 2 * STEPS
    warm = optimizer(rate)
    warming = schedulers.LinearLR(warm, start_factor=0.01, total_iters=warm_steps)
    rates = []
    for _ in range(warm_steps):
        rates.append(warm.param_groups[0]["lr"])
        warm.step()
        warming.step()
    opt = optimizer(rate)
    scheduler = make(opt)
    for _ in range((EPOCHS - 2) * STEPS // each):
        rates += [opt.param_groups[0]["lr"]] * each
        opt.step()
        scheduler.step()
    results[name] = rates


record("step_decay", 0.1, lambda o: schedulers.StepLR(o, 6, 0.3), EPOCHS)
record("multi_step", 0.1, lambda o: schedulers.MultiStepLR(o, [5, 9, 16], 0.2), EPOCHS)
record("exponential", 0.1, lambda o: schedulers.ExponentialLR(o, 0.85), EPOCHS)
record("cosine", 0.1, lambda o: schedulers.CosineAnnealingLR(o, EPOCHS * STEPS, 1e-3), EPOCHS * STEPS)
record("cosine_by_epoch", 0.1, lambda o: schedulers.CosineAnnealingLR(o, EPOCHS, 1e-3), EPOCHS)
record("cosine_restarts", 0.1, lambda o: schedulers.CosineAnnealingWarmRestarts(o, 3 * STEPS, 2, 1e-3), EPOCHS * STEPS)
record("cosine_restarts_by_epoch", 0.1, lambda o: schedulers.CosineAnnealingWarmRestarts(o, 6), EPOCHS)
record("polynomial", 0.1, lambda o: schedulers.PolynomialLR(o, EPOCHS, 2.0), EPOCHS)
record("one_cycle", 0.1 / 25, lambda o: schedulers.OneCycleLR(o, 0.1, EPOCHS * STEPS), EPOCHS * STEPS)
record("one_cycle_own", 0.2 / 10, lambda o: schedulers.OneCycleLR(
    o, 0.2, EPOCHS * STEPS, pct_start=0.25, div_factor=10, final_div_factor=100), EPOCHS * STEPS)
record("one_cycle_steep", 0.2 / 25, lambda o: schedulers.OneCycleLR(o, 0.2, EPOCHS * STEPS, pct_start=0.005), EPOCHS * STEPS)
record("one_cycle_rising", 0.2 / 25, lambda o: schedulers.OneCycleLR(o, 0.2, EPOCHS * STEPS, pct_start=0.99), EPOCHS * STEPS)
after_warm_up("constant_warm_up", 0.1, lambda o: schedulers.ConstantLR(o, 1.0), 1)
after_warm_up("cosine_warm_up", 0.1, lambda o: schedulers.CosineAnnealingLR(o, (EPOCHS - 2) * STEPS), 1)
after_warm_up("cosine_restarts_warm_up", 0.1, lambda o: schedulers.CosineAnnealingWarmRestarts(o, STEPS, 3), 1)
after_warm_up("step_warm_up", 0.1, lambda o: schedulers.StepLR(o, 5, 0.1), STEPS)
after_warm_up("polynomial_warm_up", 0.1, lambda o: schedulers.PolynomialLR(o, EPOCHS - 2, 0.9), STEPS)
plateau("plateau_min", 0.1, hashed("metrics", (60,), 0.05, 1), patience=3, factor=0.5)
plateau("plateau_max", 0.1, hashed("metrics", (60,), 0.05, 1), mode="max", patience=2, cooldown=2, factor=0.3, min_lr=1e-3,
        threshold=1e-2)
infinite = hashed("metrics", (60,), 0.05, 1)
infinite[[0, 9]] = float("inf")
infinite[[1, 7, 8]] = float("nan")
plateau("plateau_infinite", 0.1, infinite, patience=0, factor=0.5, eps=0)
plateau("plateau_negative", 0.1, -hashed("metrics", (60,), 0.05, 1), patience=1, factor=0.7)

with open(os.path.join(FIXTURES, "schedules.txt"), "w") as out:
    for name in results:
        print(name, *(repr(float(rate)) for rate in results[name]), file=out)
