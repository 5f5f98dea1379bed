"""Rules of the rivals from their descriptions: plain loops in float64.

N rows, C classes; a label of -1 is none. Unit vectors are embeddings of length 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reference.training import Array, hot


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
