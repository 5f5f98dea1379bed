"""Every wrong input is refused: the error names the argument, the value and the remedy."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import csot
from helpers import Floats, make_instance

CASE = make_instance(6, 3, seed=0, dim=4)
P, F, Y = CASE.pred_probs, CASE.features, np.array([0, 1, 2, -1, 0, 1])
LOGITS = np.log(P)
BATCH = np.stack([P, P])


def changed(x: Floats, at: Any, value: float) -> Floats:
    copy = x.astype(np.float64)
    copy[at] = value
    return copy


def numbers(argument: str) -> str:
    return rf"^{argument} must be a NumPy array or torch tensor of numbers, got "


CALLS: dict[str, tuple[dict[str, Any], str]] = {
    # pred_probs
    "NaN": ({"pred_probs": changed(P, (2, 1), np.nan)}, r"^pred_probs has NaN .*row 2\).*drop"),
    "inf": ({"pred_probs": changed(P, (2, 1), np.inf)}, r"^pred_probs has NaN or infinite .*row 2"),
    "-inf": ({"pred_probs": changed(P, (5, 0), -np.inf)}, r"^pred_probs has NaN or inf.*row 5"),
    "inf and -inf": (
        {"pred_probs": changed(changed(P, (1, 1), np.inf), (1, 0), -np.inf)},
        r"^pred_probs has NaN or infinite .*row 1",
    ),
    "NaN in a batch": (
        {"pred_probs": changed(BATCH, (1, 4, 0), np.nan)},
        r"^pred_probs has NaN .*row 4 of problem 1\)",
    ),
    "negative": (
        {"pred_probs": changed(P, (1, 1), -0.25)},
        r"^pred_probs has a negative entry \(-0\.25\).*softmax",
    ),
    "rows not summing to one": (
        {"pred_probs": changed(P, 3, 0.5)},
        r"^pred_probs: row 3 sums to 1\.5 instead of 1; .*normalise",
    ),
    "rows of a batch": (
        {"pred_probs": changed(BATCH, (1, 3), 0.5)},
        r"^pred_probs: row 3 of problem 1 sums to 1\.5 instead of 1",
    ),
    "logits": ({"pred_probs": LOGITS}, r"^pred_probs has a negative entry .*apply softmax"),
    "positive logits": ({"pred_probs": -LOGITS}, r"^pred_probs: row \d sums to .*apply softmax"),
    "no rows": ({"pred_probs": P[:0]}, r"^pred_probs has shape \(0, 3\);.*at least one row"),
    "no classes": ({"pred_probs": P[:, :0]}, r"^pred_probs has shape \(6, 0\);.*two classes"),
    "no problems": ({"pred_probs": BATCH[:0]}, r"^pred_probs has shape \(0, 6, 3\);"),
    "one class": (
        {"pred_probs": np.ones((6, 1))},
        r"^pred_probs has one column: .*nothing to allocate",
    ),
    "one axis": ({"pred_probs": P[0]}, r"^pred_probs has shape \(3,\); \(N, C\), or \(B, N, C\)"),
    "four axes": ({"pred_probs": P[None, None]}, r"^pred_probs has shape \(1, 1, 6, 3\);"),
    "text": ({"pred_probs": "probs.npy"}, numbers("pred_probs") + "str"),
    "lists of text": ({"pred_probs": [["0.5", "0.5"]]}, numbers("pred_probs") + "list"),
    "ragged": ({"pred_probs": [[0.5, 0.5], [1.0]]}, numbers("pred_probs") + "list"),
    "objects": ({"pred_probs": P.astype(object)}, numbers("pred_probs") + "ndarray"),
    "complex": ({"pred_probs": P.astype(complex)}, numbers("pred_probs") + "ndarray"),
    "complex tensor": (
        {"pred_probs": torch.ones(2, 2, dtype=torch.complex64)},
        r"^pred_probs must hold real numbers, got .*complex64",
    ),
    # log_probs
    "NaN log": (
        {"log_probs": changed(LOGITS, (2, 1), np.nan)},
        r"^log_probs has NaN .*row 2\).*log_softmax",
    ),
    "+inf log": ({"log_probs": changed(LOGITS, (4, 1), np.inf)}, r"^log_probs .*\+inf .*row 4\)"),
    "logits as log_probs": (
        {"log_probs": LOGITS + 2},
        r"^log_probs: row \d has exponentials that sum to 7\.389\d+ .*log_softmax",
    ),
    "probabilities as log_probs": (
        {"log_probs": P},
        r"^log_probs: row \d has exponentials that sum to",
    ),
    "a row of zeros": (
        {"log_probs": changed(LOGITS, 1, -np.inf)},
        r"^log_probs: row 1 .* sum to 0",
    ),
    "both": (
        {"pred_probs": P, "log_probs": LOGITS},
        r"^pass either pred_probs or log_probs, and not both",
    ),
    "neither": ({}, r"^pass either pred_probs or log_probs"),
    # features
    "NaN feature": (
        {"pred_probs": P, "features": changed(F, (4, 0), np.nan)},
        r"^features .*row 4",
    ),
    "inf feature": (
        {"pred_probs": P, "features": changed(F, (4, 0), np.inf)},
        r"^features .*row 4",
    ),
    "few features": (
        {"pred_probs": P, "features": F[:5]},
        r"^features has shape \(5, 4\) but pred_probs has 6 rows",
    ),
    "features across": ({"pred_probs": P, "features": F.T}, r"^features has shape \(4, 6\) but"),
    "features of no size": (
        {"pred_probs": P, "features": F[:, :0]},
        r"^features has shape \(6, 0\)",
    ),
    "features of one axis": (
        {"pred_probs": P, "features": F[:, 0]},
        r"^features has shape \(6,\); 2 axes are needed for a single problem",
    ),
    "features without the batch": (
        {"pred_probs": BATCH, "features": F},
        r"^features has shape \(6, 4\); 3 axes are needed for a batch",
    ),
    "features of text": ({"pred_probs": P, "features": "cosine"}, numbers("features") + "str"),
    "features elsewhere": (
        {"pred_probs": torch.from_numpy(P), "features": torch.empty(6, 4, device="meta")},
        r"^features is on device meta but pred_probs is on cpu; move one with features\.to",
    ),
    # labels
    "few labels": (
        {"pred_probs": P, "labels": Y[:5]},
        r"^labels has shape \(5,\) but pred_probs has 6 rows: one label per row",
    ),
    "labels of two axes": (
        {"pred_probs": P, "labels": Y[:, None]},
        r"^labels has shape \(6, 1\); 1 axis is needed for a single problem",
    ),
    "labels without the batch": (
        {"pred_probs": BATCH, "labels": Y},
        r"^labels has shape \(6,\); 2 axes are needed for a batch",
    ),
    "label too large": (
        {"pred_probs": P, "labels": [0, 1, 2, 3, 0, 0]},
        r"^labels contains 3, but there are 3 classes: labels must lie in 0\.\.2",
    ),
    "label too small": (
        {"pred_probs": P, "labels": [0, 1, 2, -2, 0, 0]},
        r"^labels contains -2, but there are 3 classes",
    ),
    "half a label": (
        {"pred_probs": P, "labels": [0, 1, 2, 0.5, 0, 0]},
        r"^labels contains 0\.5, which is not a class",
    ),
    "NaN label": (
        {"pred_probs": P, "labels": [0, 1, 2, np.nan, 0, 0]},
        r"^labels contains nan, which is not a class",
    ),
    "labels of text": ({"pred_probs": P, "labels": ["cat"] * 6}, numbers("labels") + "list"),
    # budget
    "budget 0": ({"pred_probs": P, "budget": 0}, r"^budget must be a number in \(0, 1\].*got 0$"),
    "budget below 0": ({"pred_probs": P, "budget": -0.5}, r"^budget .*got -0\.5$"),
    "budget in per cent": ({"pred_probs": P, "budget": 50}, r"^budget .*share of samples.*got 50$"),
    "budget NaN": ({"pred_probs": P, "budget": np.nan}, r"^budget .*got nan$"),
    "budget text": ({"pred_probs": P, "budget": "half"}, r"^budget .*got 'half'$"),
    "budget None": ({"pred_probs": P, "budget": None}, r"^budget .*got None$"),
    # class_prior
    "short prior": (
        {"pred_probs": P, "class_prior": [0.5, 0.5]},
        r"^class_prior has shape \(2,\) but there are 3 classes: one share per class is needed",
    ),
    "negative prior": (
        {"pred_probs": P, "class_prior": [1.2, -0.1, -0.1]},
        r"^class_prior must be finite and not negative, got \[1\.2, -0\.1, -0\.1\]",
    ),
    "NaN prior": ({"pred_probs": P, "class_prior": [np.nan, 0.5, 0.5]}, r"^class_prior .*\[nan, "),
    "prior of counts": (
        {"pred_probs": P, "class_prior": [10, 20, 30]},
        r"^class_prior sums to 60 instead of 1; divide it by its sum",
    ),
    "prior of zeros": (
        {"pred_probs": P, "class_prior": [0, 0, 0]},
        r"^class_prior sums to 0 instead of 1",
    ),
    "unknown prior": (
        {"pred_probs": P, "class_prior": "frequency"},
        r"^class_prior must be one of 'uniform', 'labels', got 'frequency'",
    ),
    "prior of text": ({"pred_probs": P, "class_prior": ["a", "b", "c"]}, numbers("class_prior")),
    "prior from no labels": (
        {"pred_probs": P, "class_prior": "labels"},
        r'^class_prior="labels" needs labels=, but they were not given',
    ),
    "prior from missing labels": (
        {"pred_probs": P, "class_prior": "labels", "labels": np.full(6, -1)},
        r'^class_prior="labels" needs labels, but none is given \(all are -1\)',
    ),
    # row_weights
    "few weights": (
        {"pred_probs": P, "row_weights": np.ones(5)},
        r"^row_weights has shape \(5,\) but there are 6 rows: one weight per row is needed",
    ),
    "one weight": (
        {"pred_probs": P, "row_weights": 1.0},
        r"^row_weights has shape \(\) but there are 6 rows",
    ),
    "weights of a batch": (
        {"pred_probs": BATCH, "row_weights": np.ones((3, 6))},
        r"^row_weights has shape \(3, 6\) but there are 6 rows",
    ),
    "zero weight": (
        {"pred_probs": P, "row_weights": [1, 1, 0, 1, 1, 1]},
        r"^row_weights must be positive and finite, got 0 in row 2; leave out",
    ),
    "negative weight": (
        {"pred_probs": P, "row_weights": [1, 1, -3, 1, 1, 1]},
        r"^row_w.*got -3 in",
    ),
    "NaN weight": (
        {"pred_probs": P, "row_weights": [1, 1, np.nan, 1, 1, 1]},
        r"^row_w.*got nan in",
    ),
    "inf weight": (
        {"pred_probs": P, "row_weights": [1, 1, np.inf, 1, 1, 1]},
        r"^row_w.*got inf in",
    ),
    "weights of text": (
        {"pred_probs": P, "row_weights": "uniform"},
        numbers("row_weights") + "str",
    ),
    "unknown row constraint": (
        {"pred_probs": P, "row_constraint": "equality"},
        r"^row_constraint must be one of 'auto', 'inequality', got 'equality'",
    ),
    "unknown coherence scale": (
        {"pred_probs": P, "coherence_scale": "budget"},
        r"^coherence_scale must be one of 'absolute', 'classes', got 'budget'",
    ),
    # similarity
    "unknown similarity": (
        {"pred_probs": P, "features": F, "similarity": "euclidean"},
        r"^similarity must be one of 'cosine', 'knn', got 'euclidean'",
    ),
    "small matrix": (
        {"pred_probs": P, "similarity": np.eye(5)},
        r"^similarity has shape \(5, 5\) but pred_probs has 6 rows: .* \(6, 6\) is needed",
    ),
    "oblong matrix": (
        {"pred_probs": P, "similarity": np.ones((6, 5))},
        r"^similarity .*\(6, 5\) but",
    ),
    "vector": ({"pred_probs": P, "similarity": np.ones(6)}, r"^similarity has shape \(6,\) but"),
    "matrices of a batch": (
        {"pred_probs": BATCH, "similarity": np.ones((3, 6, 6))},
        r"^similarity has shape \(3, 6, 6\) but",
    ),
    "matrices without a batch": (
        {"pred_probs": P, "similarity": np.ones((2, 6, 6))},
        r"^similarity has shape \(2, 6, 6\) but",
    ),
    "small sparse matrix": (
        {"pred_probs": P, "similarity": torch.eye(5).to_sparse()},
        r"^similarity has shape \(5, 5\) but",
    ),
    "NaN in a matrix": (
        {"pred_probs": P, "similarity": changed(np.zeros((6, 6)), (0, 1), np.nan)},
        r"^similarity has NaN or infinite entries; set",
    ),
    "no similarity": ({"pred_probs": P, "similarity": None}, numbers("similarity") + "NoneType"),
    "operator of a wrong shape": (
        {"pred_probs": P, "similarity": lambda x: x[:2]},
        r"^similarity: the operator must map .*\(6, 3\) to one of the same shape.*\(2, 3\)",
    ),
    "operator to NumPy": (
        {"pred_probs": P, "similarity": lambda x: x.numpy()},
        r"^similarity: the operator must map .*returned ndarray",
    ),
    "no neighbours": (
        {"pred_probs": P, "features": F, "similarity": "knn", "neighbours": 0},
        r"^neighbours must be a whole number of at least 1, got 0",
    ),
    "half a neighbour": (
        {"pred_probs": P, "features": F, "similarity": "knn", "neighbours": 2.5},
        r"^neighbours must be a whole number of at least 1, got 2\.5",
    ),
    # numbers and choices
    "unknown method": (
        {"pred_probs": P, "method": "sinkhorn"},
        r"^method must be one of 'auto', 'newton', 'scaling', 'dykstra', got 'sinkhorn'",
    ),
    "unknown weights": (
        {"pred_probs": P, "coherence_on": "logits"},
        r"^coherence_on must be one of 'probs', 'log_probs', got 'logits'",
    ),
    "negative coherence": (
        {"pred_probs": P, "coherence": -1},
        r"^coherence must be zero or a .*-1$",
    ),
    "one negative": ({"pred_probs": P, "coherence": (1, -2)}, r"^coherence must be zero or .*-2$"),
    "three coherences": (
        {"pred_probs": P, "coherence": (1, 1, 1)},
        r"^coherence must be a number or a pair \(prediction, label\), got \(1, 1, 1\)",
    ),
    "NaN coherence": ({"pred_probs": P, "coherence": np.nan}, r"^coherence must be .*got nan$"),
    "no coherence": ({"pred_probs": P, "coherence": None}, r"^coherence must be .*got None$"),
    "zero epsilon": (
        {"pred_probs": P, "epsilon": 0},
        r"^epsilon must be a positive number, got 0$",
    ),
    "negative epsilon": ({"pred_probs": P, "epsilon": -0.1}, r"^epsilon must be .*got -0\.1$"),
    "endless epsilon": ({"pred_probs": P, "epsilon": np.inf}, r"^epsilon must be .*got inf$"),
    "epsilon text": ({"pred_probs": P, "epsilon": "small"}, r"^epsilon must be .*got 'small'$"),
    "negative tolerance": ({"pred_probs": P, "tolerance": -1}, r"^tolerance must be zero or .*-1$"),
    "NaN tolerance": ({"pred_probs": P, "tolerance": np.nan}, r"^tolerance must be .*got nan$"),
    "no outer steps": (
        {"pred_probs": P, "max_outer": 0},
        r"^max_outer must be a whole number of at least 1, got 0",
    ),
    "no inner steps": (
        {"pred_probs": P, "max_inner": 0},
        r"^max_inner must be .*at least 1, got 0",
    ),
    "half an inner step": ({"pred_probs": P, "max_inner": 1.5}, r"^max_inner must be .*got 1\.5"),
    "none exactly": (
        {"pred_probs": P, "inner_iterations": 0},
        r"^inner_iterations must be .*got 0",
    ),
    # start
    "start of other classes": (
        {"pred_probs": P, "start": partial(csot.solve, make_instance(6, 4, seed=0).pred_probs)},
        r"^start has potentials of shape .*4\) but .*3\): a plan of the same classes",
    ),
    "start of one problem": (
        {"pred_probs": BATCH, "start": partial(csot.solve, P)},
        r"^start has shape \(3,\); 2 axes are needed for a batch",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_is_refused(name: str) -> None:
    arguments, message = CALLS[name]
    # Plans are solved here: as the tests are collected, each worker of pytest would compile.
    arguments = {
        key: value() if isinstance(value, partial) else value for key, value in arguments.items()
    }
    with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)):
        csot.solve(**arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"pred_probs": P.tolist(), "labels": Y.tolist(), "features": F.tolist()},
        {"pred_probs": P, "labels": Y.astype(np.float64), "features": F},
        {"pred_probs": P[::-1], "labels": Y.astype(np.int8), "budget": np.float32(0.5)},
        {"pred_probs": P, "features": (100 * F).astype(np.int64), "coherence": [0.0, 1.0]},
        {"pred_probs": P, "class_prior": (0.2, 0.3, 0.5), "row_weights": [1, 2, 3, 4, 5, 6]},
        {"pred_probs": P, "class_prior": "labels", "labels": Y, "budget": 1},
        {"pred_probs": P.astype(np.float16)},
        {"pred_probs": np.eye(3, dtype=bool)},
        {"log_probs": changed(np.log(np.eye(3) + 1e-300), (0, 1), -np.inf)},
        {"pred_probs": P, "similarity": np.zeros((6, 6), dtype=np.int64)},
    ],
)
def test_unusual_but_right_input_is_taken(arguments: dict[str, Any]) -> None:
    plan = csot.solve(**arguments)
    assert np.isfinite(plan.coupling).all()
    assert plan.coupling.sum() == pytest.approx(arguments.get("budget", 1.0), rel=1e-5)


def test_read_only_memory_is_taken() -> None:
    probs = P.copy()
    probs.flags.writeable = False
    assert csot.solve(probs, budget=0.5).converged
