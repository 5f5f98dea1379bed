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


# Rules of other methods, from their descriptions.


def nearest(features: Array, i: int, count: int, among: Sequence[int] | None = None) -> list[int]:
    """The rows of largest cosine with row i, which is one of them unless `among` leaves it out."""
    rows = range(len(features)) if among is None else among
    units = [row / np.sqrt(sum(row**2)) for row in features]
    return sorted(rows, key=lambda j: -sum(units[i] * units[j]))[:count]


def balanced_votes(features: Array, labels: Sequence[int], count: int, classes: int) -> Array:
    """SSR: votes of the `count` nearest rows, divided by class frequencies, normalised.

    A label of -1 has no vote; no votes at all are a uniform row.
    """
    rows = np.zeros((len(labels), classes))
    for i in range(len(labels)):
        for j in nearest(features, i, count):
            if labels[j] >= 0:
                rows[i, labels[j]] += 1 / list(labels).count(labels[j])
        rows[i] = rows[i] / sum(rows[i]) if sum(rows[i]) else 1 / classes
    return rows


def mentor_weight(loss: float, average: float, percent: float, gamma: float = 1.0) -> float:
    """MentorNet's predefined curriculum: burn-in, then a threshold, then a linear decrease."""
    if percent <= 18:
        return 1.0
    if percent <= 90:
        return 1.0 if loss - average <= 0 else 0.0
    return min(1.0, max(0.0, 1 - (loss - average) / gamma))


def even_selection(
    divergence: Sequence[float], labels: Sequence[int], classes: int
) -> tuple[set[int], float]:
    """UniCon: R, the share of labelled rows below their mean; the int(R N / C) smallest per class.

    Rows with a label of -1 are not counted.
    """
    rows = [i for i, label in enumerate(labels) if label >= 0]
    mean = sum(divergence[i] for i in rows) / len(rows)
    below = sum(divergence[i] < mean for i in rows)
    kept: set[int] = set()
    for c in range(classes):
        members = sorted((i for i in rows if labels[i] == c), key=lambda i: divergence[i])
        kept |= set(members[: below // classes])
    return kept, below / len(rows)


def pair_contrast(first: Array, second: Array, temperature: float, *, both: bool = True) -> float:
    """SimCLR of unit vectors: one positive, the other view, and 2B - 2 negatives.

    Without `both`, over the rows of the first view only.
    """
    rows, count = [*first, *second], len(first)
    losses = []
    for i in range(2 * count if both else count):
        scores = {j: np.exp(sum(rows[i] * z) / temperature) for j, z in enumerate(rows) if j != i}
        losses.append(-np.log(scores[(i + count) % (2 * count)] / sum(scores.values())))
    return float(np.mean(losses))


def twice_voted(
    features: Array, labels: Sequence[int], count: int, classes: int
) -> tuple[set[int], list[int]]:
    """MOIT: trusted rows, and the winner of each row's second vote. -1 is no label, and no vote."""
    total = len(labels)

    def vote(ballots: Sequence[int]) -> list[list[int]]:
        votes = []
        for i in range(total):
            chosen = nearest(features, i, count, [j for j in range(total) if j != i])
            votes.append([sum(ballots[j] == c for j in chosen) for c in range(classes)])
        return votes

    def winners(votes: list[list[int]]) -> list[int]:
        return [row.index(max(row)) if max(row) else -1 for row in votes]

    second = vote(winners(vote(labels)))
    voted = winners(second)
    members = [[i for i in range(total) if labels[i] == c] for c in range(classes)]
    wins = sorted(sum(voted[i] == c for i in rows) for c, rows in enumerate(members))
    middle = wins[(classes - 1) // 2]
    trusted = set()
    for c, rows in enumerate(members):
        trusted |= set(sorted(rows, key=lambda i: -second[i][c])[:middle])
    return trusted, voted


def interpolated_contrast(
    units: Sequence[Array],
    labels: Sequence[int],
    mixes: Sequence[tuple[float, Sequence[int]]],
    temperature: float,
    memory: Sequence[Array],
    memory_labels: Sequence[int],
) -> float:
    """MOIT: 2B unit vectors, of both views; for each view the weight of a row and its partners.

    Keys are the memory and the other 2B - 1 rows. A row's other view is its positive whatever its
    label; the same holds for the views of its partner.
    """
    count = len(labels)
    keys = [*memory, *units]
    owners = [-1] * len(memory) + [*range(count)] * 2
    named = [*memory_labels, *labels, *labels]
    total = 0.0
    for m, z in enumerate(units):
        keep, partners = mixes[m // count]
        others = [k for k in range(len(keys)) if k != m + len(memory)]
        scores = {k: np.exp(sum(z * keys[k]) / temperature) for k in others}
        for weight, i in ((keep, m % count), (1 - keep, partners[m % count])):
            same = [k for k in others if owners[k] == i or (named[k] == labels[i] >= 0)]
            logs = [np.log(scores[k] / sum(scores.values())) for k in same]
            total -= weight * float(np.mean(logs))
    return total / (2 * count)


def keep_given(soft: Array, labels: Sequence[int], low: float) -> Array:
    """RRL: a given label (-1 for none) whose score exceeds `low` becomes one-hot."""
    rows = soft.copy()
    for i, label in enumerate(labels):
        if label >= 0 and soft[i, label] > low:
            rows[i] = hot([label], soft.shape[1])[0]
    return rows


def soft_votes(units: Array, soft: Array, count: int, temperature: float) -> Array:
    """RRL: mean of the soft labels of the `count` nearest other rows, weights exp(cos / tau)."""
    rows = np.zeros_like(soft)
    for i in range(len(soft)):
        chosen = nearest(units, i, count, [j for j in range(len(soft)) if j != i])
        weights = [np.exp(sum(units[i] * units[j]) / temperature) for j in chosen]
        rows[i] = sum(w * soft[j] for w, j in zip(weights, chosen, strict=True)) / sum(weights)
    return rows


def propagated(features: Array, seeds: Array, count: int) -> Array:
    """NGC: (I - W/2) Z = Y by a dense solve; edges of weight cos^3 to the `count` nearest rows."""
    total = len(features)
    graph = np.zeros((total, total))
    for i in range(total):
        for j in nearest(features, i, count, [j for j in range(total) if j != i]):
            norms = np.sqrt(sum(features[i] ** 2)) * np.sqrt(sum(features[j] ** 2))
            graph[i, j] = max(0.0, sum(features[i] * features[j]) / norms) ** 3
    graph = graph + graph.T
    degrees = graph.sum(1)
    degrees[degrees == 0] = 1
    graph = graph / np.sqrt(np.outer(degrees, degrees))
    found = np.linalg.solve(np.eye(total) - graph / 2, seeds / seeds.sum(0))
    return np.asarray(found / found.sum(1, keepdims=True))


def component_sizes(
    neighbours: Sequence[Sequence[int]], labels: Sequence[int], chosen: Sequence[bool]
) -> dict[int, list[set[int]]]:
    """NGC: components of the chosen rows of each label; edges join mutual neighbours."""
    left = {i for i, is_chosen in enumerate(chosen) if is_chosen}
    found: dict[int, list[set[int]]] = {}
    while left:
        start = left.pop()
        component, border = {start}, [start]
        while border:
            i = border.pop()
            for j in neighbours[i]:
                if j in left and labels[j] == labels[i] and i in neighbours[j]:
                    left.remove(j)
                    component.add(j)
                    border.append(j)
        found.setdefault(labels[start], []).append(component)
    return found


def supervised_contrast(
    first: Array, second: Array, labels: Sequence[int], clean: Sequence[bool]
) -> float:
    """NGC: first views as queries, both views as keys, without a temperature.

    Positives are the row's other view, and for a clean row all clean rows of its label.
    """
    rows, count, total = [*first, *second], len(first), 0.0
    for i in range(count):
        scores = {k: np.exp(sum(rows[i] * z)) for k, z in enumerate(rows) if k != i}
        positives = []
        for k in scores:
            j = k % count
            is_same = clean[i] and clean[j] and labels[i] == labels[j]
            if j == i or is_same:
                positives.append(np.log(scores[k] / sum(scores.values())))
        total -= float(np.mean(positives))
    return total / count
