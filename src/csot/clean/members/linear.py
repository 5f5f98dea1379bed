"""Linear probes: the first members, which decide first which labels are believable."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from csot.clean.explanation import Explanation, find_explanation
from csot.clean.features import Basis
from csot.clean.folds import Folds
from csot.clean.likelihood import Evidence, softmax_rows
from csot.clean.members.member import FirstPass, Member, TrainingSet
from csot.clean.members.probe import (
    MEMBERS_PER_KIND,
    RELEARN_STEPS,
    Probe,
    ProbePredictor,
    held_out_logits,
    probe_path,
    relearn,
    settle,
)
from csot.clean.overlap import measure_overlap
from csot.clean.stacking import SCORING_ROWS, stack

FIRST_ROWS = 15_000
"""Rows on which the first linear probes are found."""


class LinearProbes:
    """Ridge probes on the features themselves; they come first and are always there."""

    name = "linear"
    stage = "probes"

    def fit(self, training: TrainingSet, noise: Tensor) -> FirstPass:
        """Fit the probes, and explain where labels disagree with them.

        Later members do not train on labels that are explained as mistakes here. With many rows
        a sample decides first; then the probes train on all rows that they trust.
        """
        basis, folds, evidence = training.basis, training.folds, training.evidence
        n = len(evidence)
        some = evidence.sample(FIRST_ROWS) if n > FIRST_ROWS else torch.arange(n)
        part = basis.take(some), folds.take(some), evidence.take(some)
        weights, noise = settle(*part, noise, rounds=2)
        # With many rows neighbouring ridges differ little.
        path = probe_path(*part, noise, weights)[: MEMBERS_PER_KIND if len(some) == n else 1]
        # The ridge is a prior of fixed strength: its share of a mean falls as rows are added.
        probes = [
            replace(
                probe,
                ridge=probe.ridge * len(some) / n,
                logits=held_out_logits(basis, folds, probe.weights),
            )
            for probe in path
        ]
        judged = stack([probe.logits for probe in probes], evidence, probes[0].noise)
        overlap = measure_overlap(judged.probs, training.seed, training.spread)
        explanation = find_explanation(judged.probs, evidence, judged.noise, overlap, training.seed)
        trusted = trusted_rows(basis, folds, evidence, probes[0], explanation)
        if len(some) < n or not bool(trusted.all()):
            probes = relearn(basis, folds, evidence, probes, trusted, steps=RELEARN_STEPS)
        return FirstPass(probes, judged, explanation, trusted)

    def members(self, training: TrainingSet, first: FirstPass) -> list[Member]:
        """The probes of the first pass, as members."""
        return [
            Member(
                f"linear ridge {probe.ridge:.3g}",
                probe.logits,
                ProbePredictor(training.light, probe.weights.mean(1)),
            )
            for probe in first.probes
        ]


def trusted_rows(
    basis: Basis, folds: Folds, evidence: Evidence, probe: Probe, explanation: Explanation
) -> Tensor:
    """(N, K): whether fold k's own probe finds row i's label believable under an explanation.

    False where the label would pass as its class by the noise matrix alone, but is more likely
    wrong once the overlap is explained by noise. Judged by fold k's probe, which has seen none of
    the labels that it is going to judge.
    """
    scale = stack(
        [probe.logits], evidence, probe.noise, torch.ones(1), rounds=10, max_rows=SCORING_ROWS
    ).weights
    trusted = torch.ones(len(evidence), folds.n_folds, dtype=torch.bool)
    if explanation.power == 1.0 and explanation.guess == 0.0:
        return trusted
    regular = Evidence.of_labels(evidence.given, evidence.n_classes)
    labelled = ((evidence.given >= 0) & (evidence.verified < 0)).nonzero()[:, 0]
    given = regular.given[labelled, None]
    part = regular.take(labelled)
    likelihood = part.likelihood(explanation.noise)
    for k in range(folds.n_folds):
        probs = softmax_rows(scale * (basis.rows @ probe.weights[:, k]))[labelled]
        joint = probs * likelihood
        by_noise_matrix = joint.gather(1, given)[:, 0] / joint.sum(1)
        by_explanation = explanation.posterior(probs, part).gather(1, given)[:, 0]
        trusted[labelled, k] = (by_noise_matrix < 0.5) | (by_explanation >= 0.5)
    return trusted
