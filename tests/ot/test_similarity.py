"""Similarity operators against dense matrices, and the coherence terms against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import csot
from csot.ot.coherence.cosine import CosineCoherence
from csot.ot.coherence.similarity import FunctionSimilarity, MatrixSimilarity, neighbour_graph
from csot.ot.coherence.terms import Coherence, OperatorCoherence, Terms
from csot.ot.execution import Execution, OneShard
from csot.ot.numerics import csr_matrix
from helpers import Floats, make_instance, plan_error
from reference import transport as reference


def _features(batch: int, n: int, dim: int, seed: int) -> Floats:
    """Random, with a zero vector and a pair of twins in every problem."""
    features = np.random.default_rng(seed).normal(size=(batch, n, dim))
    features[:, 0] = 0.0
    features[:, 1] = features[:, 2]
    return features


def _dense(features: Floats) -> Floats:
    return np.stack([reference.cosine_similarity(problem) for problem in features])


def _within(S: Floats, x: Floats, labels: Any) -> Floats:
    """sum_j S_ij [y_i = y_j >= 0] x_j, as it is written."""
    same = (labels[:, :, None] == labels[:, None, :]) & (labels >= 0)[:, None, :]
    return np.einsum("bij,bj->bi", S * same, x)


@pytest.mark.parametrize("kind", ["matrix", "function"])
@pytest.mark.parametrize(("batch", "n_classes"), [(1, 3), (1, 100), (3, 7)])
def test_operators_equal_the_dense_matrix(kind: str, batch: int, n_classes: int) -> None:
    n = 50
    features = _features(batch, n, 5, seed=n_classes)
    S = _dense(features)
    dense = torch.from_numpy(S)
    operator = {
        "matrix": MatrixSimilarity(dense),
        "function": FunctionSimilarity(
            lambda x: dense @ x if batch > 1 else dense[0] @ x, batched=batch > 1
        ),
    }[kind]
    rng = np.random.default_rng(0)
    x = rng.random((batch, n_classes, n))
    applied = operator.apply(torch.from_numpy(x)).numpy()
    assert np.abs(applied - np.einsum("bij,bkj->bki", S, x)).max() < 1e-12
    labels = rng.integers(-1, n_classes, (batch, n))
    one = rng.random((batch, n))
    within = operator.apply_within(torch.from_numpy(one), torch.from_numpy(labels), n_classes)
    assert np.abs(within.numpy() - _within(S, one, labels)).max() < 1e-12


def _graph_by_brute_force(features: Floats, k: int) -> Floats:
    """Half the positive cosine for each time that one is among the other's k nearest."""
    S = reference.cosine_similarity(features)
    nearest = np.zeros_like(S)
    for i, row in enumerate(S):
        others = [j for j in np.argsort(-row, kind="stable") if j != i]
        nearest[i, others[:k]] = 1.0
    return np.maximum(S, 0.0) / 2 * (nearest + nearest.T)


@pytest.mark.parametrize("k", [1, 4, 39, 1000])
def test_neighbour_graph_has_the_right_neighbours(k: int) -> None:
    features = np.random.default_rng(k).normal(size=(2, 40, 3))
    operator = neighbour_graph(torch.from_numpy(features), k)
    S = operator.apply(torch.eye(40, dtype=torch.float64).expand(2, 40, 40)).numpy()
    assert np.abs(S - S.swapaxes(1, 2)).max() < 1e-14
    assert np.abs(np.diagonal(S, axis1=1, axis2=2)).max() == 0
    for got, problem in zip(S, features, strict=True):
        assert np.abs(got - _graph_by_brute_force(problem, min(k, 39))).max() < 1e-12


def test_neighbours_by_blocks_and_within_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    features = np.random.default_rng(0).normal(size=(1, 40, 3))
    monkeypatch.setattr("csot.ot.coherence.similarity.BLOCK", 9)
    operator = neighbour_graph(torch.from_numpy(features), 5)
    S = _graph_by_brute_force(features[0], 5)[None]
    rng = np.random.default_rng(1)
    x, labels = rng.random((1, 40)), rng.integers(-1, 3, (1, 40))
    within = operator.apply_within(torch.from_numpy(x), torch.from_numpy(labels), 3)
    assert np.abs(within.numpy() - _within(S, x, labels)).max() < 1e-12


def test_neighbours_of_twins_and_zeros() -> None:
    """Zero rows and duplicates never become their own neighbours."""
    features = _features(1, 12, 3, seed=2)
    features[0, 3:6] = features[0, 6]
    S = neighbour_graph(torch.from_numpy(features), 2).apply(torch.eye(12)[None].double())[0]
    assert float(S.diagonal().abs().max()) == 0
    assert float(S[0].abs().max()) == 0
    assert bool(S.isfinite().all())


def _as(form: str, S: Floats) -> Any:
    """The same S, in one of the forms that ``similarity=`` takes."""
    tensor = torch.from_numpy(S)
    if form == "CSR":
        rows, columns = tensor.nonzero(as_tuple=True)
        return csr_matrix(rows, columns, tensor[rows, columns], S.shape)
    return {
        "NumPy": S,
        "tensor": tensor,
        "COO": tensor.to_sparse(),
        "function": lambda x: tensor @ x,
    }[form]


@pytest.mark.parametrize("form", ["NumPy", "tensor", "COO", "CSR", "function"])
@pytest.mark.parametrize("n_classes", [4, 70])
def test_every_form_of_the_same_similarity_gives_the_same_plan(
    form: str, n_classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four classes: both terms in one product. Seventy: the label term by class."""
    monkeypatch.setattr("csot.ot.coherence.cosine.STACKED_CLASSES", 48)
    case = make_instance(120, n_classes, seed=5)
    arguments = {"labels": case.labels, "budget": 0.5, "coherence": (2.0, 1.0), "max_outer": 50}
    expected = csot.solve(case.pred_probs, features=case.features, **arguments)
    S = reference.cosine_similarity(case.features)
    plan = csot.solve(case.pred_probs, similarity=_as(form, S), **arguments)
    plain = csot.solve(case.pred_probs, **arguments)
    assert plan_error(plan.coupling, expected.coupling, plan.row_weights) < 1e-7
    assert plan_error(plan.coupling, plain.coupling, plan.row_weights) > 1e-3


def test_matrices_and_functions_of_a_batch() -> None:
    cases = [make_instance(30, 3, seed) for seed in range(3)]
    probs = np.stack([case.pred_probs for case in cases])
    features = np.stack([case.features for case in cases])
    S = _dense(features)
    arguments = {"labels": np.stack([case.labels for case in cases]), "budget": 0.5}
    expected = csot.solve(probs, features=features, max_outer=50, **arguments)
    dense = torch.from_numpy(S)
    for similarity in (S, lambda x: dense @ x):
        plan = csot.solve(probs, similarity=similarity, max_outer=50, **arguments)
        for i in range(3):
            got, wanted = plan.coupling[i], expected.coupling[i]
            assert plan_error(got, wanted, plan.row_weights[i]) < 1e-7
    # One matrix for all problems.
    shared = csot.solve(probs, similarity=S[1], max_outer=50, **arguments)
    assert plan_error(shared.coupling[1], expected.coupling[1], shared.row_weights[1]) < 1e-7


def test_neighbours_of_a_batch_are_those_of_its_problems() -> None:
    cases = [make_instance(30, 3, seed) for seed in range(2)]
    arguments = {"similarity": "knn", "neighbours": 4, "budget": 0.5, "max_outer": 50}
    batch = csot.solve(
        np.stack([case.pred_probs for case in cases]),
        features=np.stack([case.features for case in cases]),
        **arguments,
    )
    for i, case in enumerate(cases):
        single = csot.solve(case.pred_probs, features=case.features, **arguments)
        assert plan_error(batch.coupling[i], single.coupling, single.row_weights) < 1e-6
        by_matrix = csot.solve(
            case.pred_probs,
            similarity=_graph_by_brute_force(case.features, 4),
            budget=0.5,
            max_outer=50,
        )
        assert plan_error(single.coupling, by_matrix.coupling, single.row_weights) < 1e-6


@pytest.mark.parametrize("kind", ["cosine", "matrix"])
@pytest.mark.parametrize("n_classes", [4, 70])
@pytest.mark.parametrize("kappa", [(1.5, 0.0), (0.0, 0.7), (1.5, 0.7)])
def test_value_and_gradient_of_coherence(
    kind: str, n_classes: int, kappa: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against the reference, and against central differences of the reference's value."""
    monkeypatch.setattr("csot.ot.coherence.cosine.STACKED_CLASSES", 48)
    case = make_instance(20, n_classes, seed=6)
    features = case.features.copy()
    features[3] = 0.0
    case.labels[5] = -1
    S = reference.cosine_similarity(features)
    L = reference.one_hot(case.labels, n_classes)
    Q = np.random.default_rng(0).random((20, n_classes)) / 20

    def value(Q: Floats) -> float:
        return kappa[0] * reference.coherence_value(S, case.pred_probs, Q) + kappa[
            1
        ] * reference.coherence_value(S, L, Q)

    probs = torch.from_numpy(case.pred_probs.T.copy())[None]
    terms = Terms(probs, kappa[0], torch.from_numpy(case.labels)[None], kappa[1])
    vectors = torch.from_numpy(features)[None]
    coherence: Coherence = {
        "cosine": CosineCoherence(vectors, vectors.norm(dim=-1), terms, Execution()),
        "matrix": OperatorCoherence(MatrixSimilarity(torch.from_numpy(S)[None]), terms, OneShard()),
    }[kind]
    plan = torch.from_numpy(Q.T.copy())[None]
    moments = coherence.moments(plan)
    assert (coherence.moments(2 * plan) - 2 * moments).abs().max() < 1e-12
    assert float(coherence.value(moments, plan)) == pytest.approx(value(Q), abs=1e-12)
    gradient = coherence.gradient(moments, plan)[0].numpy().T
    expected = kappa[0] * reference.coherence_gradient(S, case.pred_probs, Q)
    expected += kappa[1] * reference.coherence_gradient(S, L, Q)
    assert np.abs(gradient - expected).max() < 1e-12
    rng = np.random.default_rng(1)
    for _ in range(20):
        i, k = rng.integers(20), rng.integers(n_classes)
        nudge = np.zeros_like(Q)
        nudge[i, k] = 1e-4
        difference = (value(Q + nudge) - value(Q - nudge)) / 2e-4
        assert gradient[i, k] == pytest.approx(difference, abs=1e-9)


@pytest.mark.parametrize("weights", ["probabilities", "their logarithms"])
def test_bound_of_the_coherence_holds(weights: str) -> None:
    """Tight where all samples are alike; for an operator of the user's own there is none."""
    rng = np.random.default_rng(0)
    n, n_classes, kappa = 30, 5, (1.5, 0.7)
    probs = rng.dirichlet(np.ones(n_classes), n)
    P = probs if weights == "probabilities" else -np.log(probs)
    labels = rng.integers(-1, n_classes, n)
    L = reference.one_hot(labels, n_classes)
    terms = Terms(
        torch.from_numpy(P.T.copy())[None], kappa[0], torch.from_numpy(labels)[None], kappa[1]
    )
    for features in (rng.normal(size=(n, 3)), np.ones((n, 3))):
        S = reference.cosine_similarity(features)
        vectors = torch.from_numpy(features)[None]
        coherence = CosineCoherence(vectors, vectors.norm(dim=-1), terms, Execution())
        for shift in (0.0, 1.0):
            D = rng.normal(size=(n, n_classes)) + shift
            value = kappa[0] * reference.coherence_value(S, P, D)
            value += kappa[1] * reference.coherence_value(S, L, D)
            sizes = torch.from_numpy(np.abs(D).sum(0))[None]
            assert abs(value) <= float(coherence.upper_bound(sizes))
    operator = OperatorCoherence(MatrixSimilarity(torch.from_numpy(S)[None]), terms, OneShard())
    assert float(operator.upper_bound(sizes)) == np.inf


def test_cosine_in_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_instance(60, 140, seed=3)
    arguments = {"features": case.features, "labels": case.labels, "budget": 0.5}
    whole = csot.solve(case.pred_probs, **arguments)
    monkeypatch.setattr("csot.ot.numerics.CHUNK", 7)
    assert np.abs(csot.solve(case.pred_probs, **arguments).coupling - whole.coupling).max() < 1e-9


@pytest.mark.parametrize("layout", ["dense", "sparse", "csr", "batch"])
def test_a_matrix_that_is_not_symmetric_is_symmetrised_with_a_warning(layout: str) -> None:
    case = make_instance(30, 3, seed=0)
    S = np.random.default_rng(0).random((30, 30)) * (1 - np.eye(30))
    probs = torch.from_numpy(case.pred_probs)
    labels = torch.from_numpy(case.labels)
    matrix = torch.from_numpy(S)
    if layout == "batch":
        probs, labels, matrix = probs[None], labels[None], matrix[None]
    given = {"sparse": matrix.to_sparse, "csr": matrix.to_sparse_csr}.get(layout, lambda: matrix)()
    options: dict[str, Any] = {"labels": labels, "budget": 0.5, "max_outer": 100}
    with pytest.warns(UserWarning, match="similarity is not symmetric .*is used") as caught:
        plan = csot.solve(probs, similarity=given, **options)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    expected = csot.solve(probs, similarity=(matrix + matrix.mT) / 2, **options)
    assert float((plan.coupling - expected.coupling).abs().max()) < 1e-12
    # Stationary: the plan solves its own linearised problem.
    coupling = plan.coupling.reshape(30, 3).numpy()
    L = reference.one_hot(case.labels, 3)
    gradient = reference.cost_matrix(case.pred_probs)
    for weights in (case.pred_probs, L):
        gradient = gradient + reference.coherence_gradient(S, weights, coupling)
    linearised = reference.scaling(gradient, np.full(30, 1 / 30), np.full(3, 0.5 / 3), 0.1, 20_000)
    assert np.abs(linearised - coupling).max() * 30 < 1e-5


def test_rounding_is_not_asymmetry() -> None:
    case = make_instance(30, 3, seed=0)
    units = case.features / np.linalg.norm(case.features, axis=1, keepdims=True)
    S = (units @ units.T).astype(np.float32)
    S[0, 1] = np.nextafter(S[0, 1], np.float32(2))
    csot.solve(case.pred_probs.astype(np.float32), similarity=S, budget=0.5)
