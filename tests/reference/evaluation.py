"""evaluation.txt: scikit-learn's and torchmetrics' measures of hashed predictions: lines of a name and its numbers.
tests/parity/test_parity_evaluation.c makes the same predictions. Needs scikit-learn 1.3 and torchmetrics beside PyTorch.
"""
import os
import warnings

import numpy as np
import torch
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support, top_k_accuracy_score
from torchmetrics.classification import MulticlassCalibrationError

from common import FIXTURES, hashed

warnings.filterwarnings("ignore")
IMAGES, CLASSES = 400, 8


def make(lacking):
    """Probabilities f32 [IMAGES,CLASSES], whose rows need no sum of 1, and labels. lacking: no image is of class 2,
    none is predicted as class 5, and neither of class 6."""
    columns = hashed("columns", (IMAGES, CLASSES), 0.5, 0.5)
    probabilities = columns * hashed("rows", (IMAGES, 1), 0.45, 0.55)
    if lacking:
        probabilities[:, 5:7] = 0
    labels = ((hashed("labels", (IMAGES,)) + 1) * (CLASSES / 2)).astype(np.int64)
    labels = np.where(hashed("right", (IMAGES,)) < 0.2, probabilities.argmax(1), labels)
    if lacking:
        labels[(labels == 2) | (labels == 6)] = 0
    return probabilities, labels


with open(os.path.join(FIXTURES, "evaluation.txt"), "w") as out:
    def put(name, values):
        print(name, *(repr(float(value)) for value in np.ravel(values)), file=out)

    for case in ("all", "lacking"):
        p, labels = make(case == "lacking")
        predicted, classes = p.argmax(1), list(range(CLASSES))
        put(f"{case}_confusion", confusion_matrix(labels, predicted, labels=classes))
        put(f"{case}_top", [top_k_accuracy_score(labels, p, k=k, labels=classes) for k in (1, 5)])
        error = MulticlassCalibrationError(CLASSES, n_bins=15, norm="l1")
        put(f"{case}_ece", error(torch.tensor(p.astype(np.float64)), torch.tensor(labels)))
        for name, zero in (("0", 0.0), ("1", 1.0), ("nan", np.nan)):
            scores = precision_recall_fscore_support(labels, predicted, labels=classes, zero_division=zero)
            put(f"{case}_scores_{name}", scores[:3])
            for average in ("macro", "weighted"):
                scores = precision_recall_fscore_support(labels, predicted, labels=classes, average=average,
                                                         zero_division=zero)
                put(f"{case}_{average}_{name}", scores[:3])
