"""The training losses from the equations alone: plain loops in float64, and no autograd.

B rows, C classes. The paper's Appendix (L_mix, L_lab, L_simsiam) gives the variant `paper`; the
differences 4 and 7 to 14 of the published code are written from their description. Gradients are
central differences; a stopped gradient is a value computed from other, fixed parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Parameters = dict[str, Array]


def softmax(logits: Array) -> Array:
    shifted = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(shifted / shifted.sum(1, keepdims=True))


def hot(labels: Sequence[int], classes: int) -> Array:
    """One-hot rows; a label of -1 is a row of zeros."""
    rows = np.zeros((len(labels), classes))
    for i, label in enumerate(labels):
        if label >= 0:
            rows[i, label] = 1.0
    return rows


def cross_entropy(logits: Array, targets: Array, weights: Sequence[float] | None = None) -> float:
    """-(1/B) sum_i w_i sum_k t_ik log p_ik."""
    probs, total = softmax(logits), 0.0
    for i in range(len(logits)):
        weight = 1.0 if weights is None else weights[i]
        for k in range(logits.shape[1]):
            if targets[i, k]:
                total -= weight * targets[i, k] * np.log(probs[i, k])
    return total / len(logits)


def negative_entropy(logits: Array) -> float:
    probs = softmax(logits)
    return float(sum(p * np.log(p) for p in probs.ravel()) / len(probs))


def prior_penalty(logits: Array) -> float:
    """sum_k pi_k log(pi_k / mean_i p_ik), pi uniform."""
    mean, classes = softmax(logits).mean(0), logits.shape[1]
    return float(sum(1 / classes * np.log(1 / classes / value) for value in mean))


def sharpen(probs: Array, temperature: float) -> Array:
    powered = probs ** (1 / temperature)
    return np.asarray(powered / powered.sum(1, keepdims=True))


def refine(labels: Sequence[int], probs: Array, weights: Sequence[float], t: float) -> Array:
    trust = np.array(weights)[:, None]
    return sharpen(trust * hot(labels, probs.shape[1]) + (1 - trust) * probs, t)


def negative_cosine(predicted: Array, target: Array) -> float:
    return -float(
        np.mean(
            [
                sum(p * z) / (np.sqrt(sum(p**2)) * np.sqrt(sum(z**2)))
                for p, z in zip(predicted, target, strict=True)
            ]
        )
    )


def simsiam(predicted: tuple[Array, Array], stopped: tuple[Array, Array]) -> float:
    """(l(p1, z2) + l(p2, z1)) / 2."""
    crossed = negative_cosine(predicted[0], stopped[1]), negative_cosine(predicted[1], stopped[0])
    return sum(crossed) / 2


def mixed(values: Array, keep: float, partners: Sequence[int]) -> Array:
    rows = [keep * values[i] + (1 - keep) * values[j] for i, j in enumerate(partners)]
    return np.array(rows)


def gradient(function: Callable[[Array], float], at: Array, step: float = 1e-6) -> Array:
    """By central differences."""
    slopes = np.zeros_like(at)
    for place in np.ndindex(at.shape):
        up, down = at.copy(), at.copy()
        up[place] += step
        down[place] -= step
        slopes[place] = (function(up) - function(down)) / (2 * step)
    return slopes


# One step of CSOT, with a network small enough to differentiate by hand.


def network(theta: Parameters, inputs: Array) -> tuple[Array, Array]:
    """(B, D) -> logits (B, C) and features (B, F), as `tiny.TinyNetwork`."""
    features = np.tanh(inputs @ theta["networks.0.first"].T)
    return features @ theta["networks.0.last"].T, features


def predictor(theta: Parameters, features: Array) -> Array:
    """linear, ReLU, linear; no normalisation."""
    inner = np.maximum(features @ theta["predictor.layers.0.weight"].T, 0)
    return np.asarray(
        inner @ theta["predictor.layers.3.weight"].T + theta["predictor.layers.3.bias"]
    )


@dataclass
class Clean:
    """Of the clean rows of a step."""

    labels: list[int]
    weak: list[Array]
    """One or two weak views."""
    strong: Array
    keep: float
    partners: list[int]
    """Among the rows of all weak views, one below the other."""
    confidence: list[float]
    """w, from the last plan."""
    probs: Array
    """The predictions of the last relabelling."""


@dataclass
class Corrupted:
    plan_labels: list[int]
    selected: list[bool]
    first: Array
    """A weak view."""
    second: Array
    """The other view of SimSiam."""
    strong: Array


@dataclass
class Rules:
    """The paper's, where nothing else is said."""

    refined: bool = False
    from_epoch: bool = False
    weighted: bool = False
    stop_weak: bool = True
    temperature: float = 0.5
    penalty: float = 0.0
    lambda_1: float = 1.0
    lambda_2: float = 1.0
    simsiam_in_semi: bool = False
    gate: str = "all"
    cutoff: float = 0.95


def step_losses(
    theta: Parameters,
    still: Parameters,
    clean: Clean,
    corrupted: Corrupted,
    rules: Rules,
    stage: int,
) -> dict[str, float]:
    """Eq. 9 (stage 1) or Eq. 10 (stage 2), term by term; gradients stop at `still`."""
    losses = clean_losses(theta, still, clean, rules)
    if stage == 1 or rules.simsiam_in_semi:
        views = corrupted.first, corrupted.second
        moved = [predictor(theta, network(theta, view)[1]) for view in views]
        stopped = [network(still, view)[1] for view in views]
        losses["simsiam"] = rules.lambda_1 * simsiam((moved[0], moved[1]), (stopped[0], stopped[1]))
    if stage == 2:
        losses["semi"] = rules.lambda_2 * semi(theta, still, corrupted, rules)
    return losses


def clean_losses(
    theta: Parameters, still: Parameters, clean: Clean, rules: Rules
) -> dict[str, float]:
    classes = len(theta["networks.0.last"])
    to_mix = to_match = hot(clean.labels, classes)
    if rules.refined:
        trust = clean.confidence if rules.weighted else [1.0] * len(clean.labels)
        if rules.from_epoch:
            mean = first = clean.probs
        else:
            # Guessed from all views, without a gradient; blended again with the first view, which
            # has one in the published code.
            mean = sum(softmax(network(still, view)[0]) for view in clean.weak) / len(clean.weak)
            first = softmax(network(still if rules.stop_weak else theta, clean.weak[0])[0])
        to_mix = refine(clean.labels, mean, trust, rules.temperature)
        share = np.array(trust)[:, None]
        to_match = share * to_mix + (1 - share) * first
    inputs = mixed(np.concatenate(clean.weak), clean.keep, clean.partners)
    targets = mixed(np.concatenate([to_mix] * len(clean.weak)), clean.keep, clean.partners)
    logits = network(theta, inputs)[0]
    losses = {
        "mix": cross_entropy(logits, targets),
        "lab": cross_entropy(network(theta, clean.strong)[0], to_match),
    }
    if rules.penalty:
        losses["penalty"] = rules.penalty * prior_penalty(logits)
    return losses


def semi(theta: Parameters, still: Parameters, corrupted: Corrupted, rules: Rules) -> float:
    """L_lab on corrupted rows, a mean over all of them."""
    labels = list(corrupted.plan_labels)
    counted = [1.0] * len(labels)
    weak = softmax(network(still, corrupted.first)[0])
    for i, label in enumerate(labels):
        if rules.gate == "gated":
            counted[i] = float(corrupted.selected[i] and weak[i, label] >= rules.cutoff)
        if rules.gate == "confident":
            labels[i] = int(weak[i].argmax())
            counted[i] = float(weak[i].max() >= rules.cutoff)
    logits = network(theta, corrupted.strong)[0]
    return cross_entropy(logits, hot(labels, logits.shape[1]), counted)


def step_gradients(theta: Parameters, total: Callable[[Parameters], float]) -> Mapping[str, Array]:
    """Of a function of all parameters, by name."""

    def one(name: str) -> Callable[[Array], float]:
        return lambda value: total({**theta, name: value})

    return {name: gradient(one(name), value) for name, value in theta.items()}
