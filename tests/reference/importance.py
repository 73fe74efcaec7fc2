"""importance.txt: the importance of parameters by SciPy's H test, for each case a line of its name, a line of values, a
line of metrics (nan = failed, worse than all others), and a line of the share and the chance. tests/train/
test_search_importance.c reads it. Made with SciPy 1.17.1 and NumPy 2.4.6.
"""
import math
import os

import numpy as np
from scipy import stats

FIXTURES = os.path.join(os.path.dirname(__file__), "..", "fixtures")


def groups_of(values, is_list):
    """The number of each value's group. Ranges: places in order, times groups, divided by trials."""
    if is_list:
        return list(np.unique(values, return_inverse=True)[1])
    n_groups = min(len(values) // 4, 5)
    first_place = {x: i for i, x in reversed(list(enumerate(sorted(values))))}
    return [first_place[x] * n_groups // len(values) for x in values]


def importance(values, metrics, is_list, maximize):
    scores = np.array([math.inf if math.isnan(m) else -m if maximize else m for m in metrics])
    groups = np.array(groups_of(values, is_list))
    parts = [stats.rankdata(scores)[groups == g] for g in np.unique(groups)]
    n, k = len(values), len(parts)
    h = stats.kruskal(*parts).statistic
    return max(0.0, (h - k + 1) / (n - k)), (stats.chi2.ppf(0.95, k - 1) - k + 1) / (n - k)


def main():
    draw = np.random.default_rng(7)
    cases = []
    for n in (12, 19, 27, 200):
        x = np.round(draw.uniform(-3, 0, n), 3)
        bowl = np.round((x + 1.2) ** 2 + draw.normal(0, 0.3, n), 3)
        choice = draw.integers(0, 3, n)
        whole = draw.integers(1, 5, n)
        cases += [("range", x, bowl), ("range-max", x, -bowl), ("list", choice, np.round(bowl + (choice == 1), 2))]
        cases += [("range", whole, np.round(bowl, 1)), ("range", np.round(draw.uniform(0, 1, n), 3), bowl)]
        cases += [("list-max", choice, np.where(x < -2.5, np.nan, -bowl))]
    with open(os.path.join(FIXTURES, "importance.txt"), "w") as out:
        for name, values, metrics in cases:
            results = importance(list(values), metrics, name.startswith("list"), name.endswith("max"))
            out.write(name + "\n")
            for line in (values, metrics, results):
                out.write(" ".join(repr(float(x)) for x in line) + "\n")


main()
