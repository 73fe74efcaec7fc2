"""tpe.txt: scores of Optuna's TPESampler, log l(x) - log g(x), from given results: for each case a line of its name, a
line of the observed values, a line of points and a line of their scores. tests/experiment/test_search_tpe.c has the same
cases under the same names. Made with Optuna 5.0.0.
"""
import functools
import math
import os

import numpy as np
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers._tpe.parzen_estimator import _ParzenEstimator, _ParzenEstimatorParameters
from optuna.samplers._tpe.sampler import default_gamma, default_weights

# Equal values in the order of trials; NumPy's default order of equal values depends on the processor.
np.argsort = functools.partial(np.argsort, kind="stable")

FIXTURES = os.path.join(os.path.dirname(__file__), "..", "fixtures")
PARAMETERS = _ParzenEstimatorParameters(
    prior_weight=1.0, consider_magic_clip=True, consider_endpoints=False, weights=default_weights, multivariate=False
)


def share(i, seed):
    """A fraction in [0, 1) that every language computes alike."""
    return (i * 7919 + seed * 104729) % 1009 / 1009


def score_of(i):
    """The result of trial i: smaller is better; there are equal ones."""
    return i * 37 % 23


def case(name, distribution, values, points):
    order = sorted(range(len(values)), key=score_of)
    below = sorted(order[: default_gamma(len(values))])
    above = sorted(order[default_gamma(len(values)) :])

    def density(trials):
        observed = {"x": np.array([values[i] for i in trials], dtype=float)}
        return _ParzenEstimator(observed, {"x": distribution}, PARAMETERS).log_pdf({"x": np.array(points, dtype=float)})

    scores = density(below) - density(above)
    lines = [values, points, [float(score) for score in scores]]
    return "\n".join([name] + [" ".join(repr(float(x)) for x in line) for line in lines]) + "\n"


def main():
    text = ""
    for n in (1, 2, 11, 60, 300):
        x = [share(i, 1) for i in range(n)]
        text += case("linear", FloatDistribution(-2, 3), [-2 + 5 * v for v in x], [-2, -1.5, 0, 0.3, 2.9, 3])
        text += case("log", FloatDistribution(1e-4, 1, log=True), [10 ** (-4 * v) for v in x], [1e-4, 0.003, 0.1, 0.9])
        text += case("integer", IntDistribution(2, 9), [2 + math.floor(8 * v) for v in x], [2, 3, 5, 8, 9])
        text += case("list", CategoricalDistribution([0, 1, 2]), [math.floor(3 * v) for v in x], [0, 1, 2])
    with open(os.path.join(FIXTURES, "tpe.txt"), "w") as out:
        out.write(text)


main()
