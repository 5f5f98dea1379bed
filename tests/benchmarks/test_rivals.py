"""Each rival against its equations, written out in loops, on small data."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score
from sklearn.model_selection import StratifiedKFold

from rivals.aum import area_under_margin, margins, training_margins
from rivals.by_probe import judge_by_probe, judge_probabilities
from rivals.hoc import NoiseModel, consensus, estimate, moments
from rivals.judge import NAMES, judge_all
from rivals.knn_vote import judge_by_vote, votes, winner
from rivals.neighbours import nearest
from rivals.probe import Axes, CrossValidated, LinearProbe, cross_validate, fit_softmax
from rivals.simifeat import lowest_of_each_class, soft_labels
from rivals.verdict import Task, Verdict

CLASSES = 3

# cleanlab says this of every CleanLearning.fit with both; features are used all the same.
pytestmark = pytest.mark.filterwarnings("ignore:When X and pred_probs are both provided")


def blobs(n: int, seed: int, spread: float = 0.7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % CLASSES
    centres = 3 * np.eye(CLASSES, 6)
    rows = centres[truth] + spread * rng.normal(size=(n, 6)) + 5
    return rows.astype(np.float32), truth


@pytest.fixture(scope="session")
def task() -> tuple[Task, np.ndarray]:
    """300 rows of three classes, every tenth label wrong; the truth."""
    rows, truth = blobs(300, 0)
    given = np.where(np.arange(300) % 10 == 0, (truth + 1) % CLASSES, truth)
    test, _ = blobs(90, 1)
    return Task(rows, given, test, CLASSES, 0), truth


@pytest.fixture(scope="session")
def fitted(task: tuple[Task, np.ndarray]) -> CrossValidated:
    with torch.no_grad():
        return cross_validate(task[0].features, task[0].given, CLASSES, 0)


# The probe ----------------------------------------------------------------------------------------


def test_axes_are_uncorrelated_and_of_mean_variance_one() -> None:
    rows, _ = blobs(200, 2)
    turned = Axes(rows)(rows).numpy().astype(np.float64)
    covariance = np.cov(turned[:, :-1].T, bias=True)
    np.testing.assert_allclose(covariance - np.diag(np.diag(covariance)), 0, atol=1e-4)
    assert np.trace(covariance) / len(covariance) == pytest.approx(1, rel=1e-4)
    assert (turned[:, -1] == 1).all()


def test_a_probe_is_the_ridge_optimum(task: tuple[Task, np.ndarray]) -> None:
    labels, ridge = task[0].given, 1e-2
    axes = Axes(task[0].features)
    rows = axes(task[0].features)
    found = fit_softmax(
        rows, axes.variance, labels, torch.ones(300, 1), ridge,
        torch.zeros(rows.shape[1], 1, CLASSES), steps=500, tolerance=1e-12,
    )[:, 0].double()  # fmt: skip
    # At the optimum X'(softmax(XW) - Y)/n + ridge W vanishes, the constant hardly penalised.
    error = (rows.double() @ found).softmax(1) - torch.eye(CLASSES)[labels]
    slope = rows.double().T @ error / 300 + ridge * found
    assert float(slope[:-1].abs().max()) < 2e-4
    assert float((slope[-1] - ridge * found[-1]).abs().max()) < 2e-4


def test_held_out_probabilities_are_those_of_scikit_learn(
    task: tuple[Task, np.ndarray], fitted: CrossValidated
) -> None:
    rows, labels = fitted.rows[:, :-1].numpy(), task[0].given
    expected = np.empty((300, CLASSES))
    for train, held in StratifiedKFold(5, shuffle=True, random_state=0).split(rows, labels):
        model = LogisticRegression(C=1 / (fitted.ridge * len(train)), max_iter=1000)
        expected[held] = model.fit(rows[train], labels[train]).predict_proba(rows[held])
    np.testing.assert_allclose(fitted.probs, expected, atol=0.03)
    assert np.abs(fitted.probs - expected).mean() < 5e-3


def test_a_weight_of_two_is_a_row_twice(task: tuple[Task, np.ndarray]) -> None:
    rows, labels = task[0].features[:60], task[0].given[:60]
    weights = np.where(np.arange(60) < 20, 2.0, 1.0)
    weighted = LinearProbe(1e-1, CLASSES).fit(rows, labels, weights)
    axes = weighted.axes_
    twice = np.concatenate([np.arange(20), np.arange(60)])
    doubled = fit_softmax(
        axes(rows[twice]), axes.variance, labels[twice], torch.ones(80, 1), 1e-1,
        torch.zeros(len(axes.variance), 1, CLASSES), steps=80, tolerance=1e-7,
    )[:, 0]  # fmt: skip
    expected = (axes(rows) @ doubled).softmax(1).numpy()
    np.testing.assert_allclose(weighted.predict_proba(rows), expected, atol=2e-3)


# cleanlab and disagreement ------------------------------------------------------------------------


def test_scores_of_the_probe_are_their_formulas(
    task: tuple[Task, np.ndarray], fitted: CrossValidated
) -> None:
    judged = judge_probabilities(task[0].given, fitted.probs)
    for i, (row, label) in enumerate(zip(fitted.probs, task[0].given, strict=True)):
        margin = (row[label] - np.delete(row, label).max() + 1) / 2
        assert judged["self_confidence"][0][i] == pytest.approx(row[label])
        assert judged["normalized_margin"][0][i] == pytest.approx(margin)
        assert judged["probe"][1][i] == (row.argmax() != label)


def test_features_and_probabilities_are_judged_alike(
    task: tuple[Task, np.ndarray], fitted: CrossValidated
) -> None:
    with torch.no_grad():
        verdicts = judge_by_probe(task[0], fitted, 1.0)
    for name, (score, flagged) in judge_probabilities(task[0].given, fitted.probs).items():
        np.testing.assert_allclose(verdicts[name].score, score)
        np.testing.assert_array_equal(verdicts[name].flagged, flagged)
        assert verdicts[name].seconds > 1.0


def test_only_flagged_labels_are_replaced() -> None:
    flagged = np.array([True, False])
    verdict = Verdict(np.zeros(2), flagged, np.array([2, 2]), 0.5, None, 0.0)
    np.testing.assert_array_equal(verdict.corrected(np.array([0, 1])), [2, 1])


# Neighbours ---------------------------------------------------------------------------------------


def test_neighbours_are_those_of_the_full_cosine_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rivals.neighbours.BLOCK", 7)
    rows, _ = blobs(40, 3)
    centred = rows.astype(np.float64) - rows.astype(np.float64).mean(0)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -np.inf)
    expected = np.argsort(-cosine, axis=1)[:, :5]
    found = nearest(rows, rows, 5, leave_one_out=True)
    np.testing.assert_array_equal(found.index, expected)
    np.testing.assert_allclose(found.similarity, np.take_along_axis(cosine, expected, 1), atol=1e-5)


def test_a_query_finds_itself_unless_left_out() -> None:
    rows, _ = blobs(20, 4)
    np.testing.assert_array_equal(nearest(rows, rows, 1).index[:, 0], np.arange(20))
    assert nearest(rows, rows, 50, leave_one_out=True).index.shape == (20, 19)


def test_votes_are_counts() -> None:
    labels = np.array([[0, 1, 1, 2], [2, 2, 2, 2]])
    np.testing.assert_allclose(votes(labels, None, 3), [[0.25, 0.5, 0.25], [0, 0, 1]])
    weights = np.array([[2.0, 1.0, 1.0, 4.0], [1.0, 1.0, 1.0, 1.0]])
    np.testing.assert_allclose(votes(labels, weights, 3)[0], [0.25, 0.25, 0.5])


def test_a_tie_leaves_the_given_label() -> None:
    shares = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]])
    np.testing.assert_array_equal(winner(shares, np.array([1, 2])), [1, 0])


def test_a_vote_finds_planted_errors(task: tuple[Task, np.ndarray]) -> None:
    given, truth = task[0].given, task[1]
    own = nearest(task[0].features, task[0].features, 15, leave_one_out=True)
    verdict = judge_by_vote(task[0], own, nearest(task[0].test, task[0].features, 15), 15)
    assert f1_score(given != truth, verdict.flagged) > 0.9
    assert verdict.noise_rate == pytest.approx(0.1, abs=0.03)


# HOC and SimiFeat ---------------------------------------------------------------------------------

NOISE = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.0, 0.4, 0.6]])
PRIOR = np.array([0.5, 0.3, 0.2])


def test_consensus_counts_triples() -> None:
    triples = np.random.default_rng(0).integers(0, CLASSES, (50, 3))
    first, second, third = np.zeros(3), np.zeros((3, 3)), np.zeros((3, 3, 3))
    for a, b, c in triples:
        first[a] += 1 / 50
        second[a, b] += 1 / 50
        third[a, b, c] += 1 / 50
    for found, expected in zip(consensus(triples, CLASSES), (first, second, third), strict=True):
        np.testing.assert_allclose(found.numpy(), expected)


def test_moments_are_sums_over_the_true_class() -> None:
    found = moments(torch.from_numpy(PRIOR), torch.from_numpy(NOISE))
    for a in range(CLASSES):
        expected = sum(PRIOR[k] * NOISE[k, a] for k in range(CLASSES))
        assert float(found[0][a]) == pytest.approx(expected)
        for b in range(CLASSES):
            expected = sum(PRIOR[k] * NOISE[k, a] * NOISE[k, b] for k in range(CLASSES))
            assert float(found[1][a, b]) == pytest.approx(expected)
            for c in range(CLASSES):
                expected = sum(PRIOR[k] * NOISE[k, [a, b, c]].prod() for k in range(CLASSES))
                assert float(found[2][a, b, c]) == pytest.approx(expected)


def test_hoc_recovers_the_noise_of_perfect_neighbours() -> None:
    rng = np.random.default_rng(1)
    truth = rng.choice(CLASSES, 60_000, p=PRIOR)
    drawn = rng.random((len(truth), 3, 1)) > NOISE[truth].cumsum(1)[:, None, :-1]
    model = estimate(drawn.sum(2), CLASSES, steps=600)
    np.testing.assert_allclose(model.noise, NOISE, atol=0.05)
    np.testing.assert_allclose(model.prior, PRIOR, atol=0.03)
    assert model.noise_rate == pytest.approx(1 - (PRIOR * np.diag(NOISE)).sum(), abs=0.02)


def test_share_wrong_is_bayes() -> None:
    joint = PRIOR[:, None] * NOISE
    expected = [1 - joint[j, j] / joint[:, j].sum() for j in range(CLASSES)]
    found = NoiseModel(NOISE, PRIOR).share_wrong(joint.sum(0))
    np.testing.assert_allclose(found, expected)


def test_soft_labels_weigh_by_similarity_and_count_the_row_itself() -> None:
    rows, _ = blobs(30, 5)
    given = np.random.default_rng(5).integers(0, CLASSES, 30)
    own = nearest(rows, rows, 9, leave_one_out=True)
    found = soft_labels(given, own, CLASSES, k=4)
    for i in range(30):
        s = own.similarity[i].astype(np.float64)
        counted = np.zeros(CLASSES)
        counted[given[i]] += max(2 * s[0] - s[1], 1e-6)
        for j in range(3):
            counted[given[own.index[i, j]]] += max(s[j], 1e-6)
        np.testing.assert_allclose(found[i], counted / counted.sum(), atol=1e-9)


def test_the_lowest_scores_of_each_class_are_flagged() -> None:
    score = np.array([0.1, 0.9, 0.5, 0.3, 0.2, 0.8])
    given = np.array([0, 0, 0, 0, 1, 1])
    flagged = lowest_of_each_class(score, given, np.array([0.5, 0.0, 0.0]))
    np.testing.assert_array_equal(flagged, [True, False, False, True, False, False])


# AUM ----------------------------------------------------------------------------------------------


def test_a_margin_is_over_the_largest_other_logit() -> None:
    logits = torch.tensor([[1.0, 3.0, 2.0], [5.0, 0.0, 4.0]])
    np.testing.assert_allclose(margins(logits, torch.tensor([1, 2])), [1.0, -1.0])


def test_a_threshold_sample_is_judged_by_the_other_run(fitted: CrossValidated) -> None:
    rows, given, seed = fitted.rows[:80], fitted.labels[:80], 3
    order = np.random.default_rng(seed).permutation(80)
    samples = [set(order[:20].tolist()), set(order[20:40].tolist())]
    found, thresholds = [], []
    for run, chosen in enumerate(samples):
        labels = np.array([CLASSES if i in chosen else y for i, y in enumerate(given)])
        found.append(training_margins(rows, labels, CLASSES + 1, seed + run))
        thresholds.append(np.percentile([found[run][i] for i in sorted(chosen)], 99))
    score, flagged = area_under_margin(rows, given, CLASSES, seed)
    for i in range(80):
        first = 1 if i in samples[0] else 0
        assert flagged[i] == (found[first][i] <= thresholds[first])
        runs = [run for run in range(2) if i not in samples[run]]
        assert score[i] == pytest.approx(np.mean([found[run][i] for run in runs]))


def test_aum_finds_planted_errors(task: tuple[Task, np.ndarray], fitted: CrossValidated) -> None:
    given, truth = task[0].given, task[1]
    score, flagged = area_under_margin(fitted.rows, given, CLASSES, 0)
    again, _ = area_under_margin(fitted.rows, given, CLASSES, 0)
    assert np.isfinite(score).all()
    np.testing.assert_array_equal(score, again)
    assert average_precision_score(given != truth, -score) > 0.8
    assert flagged[given != truth].mean() > 0.8


def test_all_rivals_judge_one_task(task: tuple[Task, np.ndarray]) -> None:
    rows, test = task[0].features, task[0].test
    own, seen = nearest(rows, rows, 50, leave_one_out=True), []
    verdicts, _ = judge_all(task[0], own, nearest(test, rows, 50), seen.append)
    assert tuple(verdicts) == NAMES
    assert seen
    for name, verdict in verdicts.items():
        ranked = average_precision_score(task[0].given != task[1], -verdict.score)
        assert ranked > 0.8, name
        assert verdict.test is not None
        assert (verdict.test == np.arange(90) % CLASSES).mean() > 0.85, name
