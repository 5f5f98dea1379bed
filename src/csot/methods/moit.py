"""MOIT: interpolated contrastive learning, and labels that two votes of neighbours confirm.

Two strong views are mixed, each by its own mixup with weight l >= 1/2 of the row i itself and
partner j. With z the embeddings of a linear head, and the other rows of both views as keys,

    L_icl = (1/2B) sum_i l C(z_i; rows labelled y_i) + (1 - l) C(z_i; rows labelled y_j)

where C is the mean of -log softmax(<z_i, z> / tau) over the named rows, to which the other views of
i, or of j, belong whatever their label. After a few epochs it is added once more with a memory of
earlier embeddings as keys. In the first stage the classifier learns the mixed given labels; then

    target of row i    a_i (l y_i + (1 - l) y_j) + l (1 - a_i) p_i + (1 - l) (1 - a_j) p_j

with p the prediction for the plain view and a_i = 1 if the label is trusted, else 0. Both halves
of the first term have the weight of the row itself, as in the original's code.

Trusted labels: the k nearest rows vote on new labels, then vote again with those; d_i is minus the
logarithm of the second vote for y_i, n the median over classes of the number of given labels that
win it, and the n labels of smallest d in each class are trusted.
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from csot.methods.core.batches import one_stream
from csot.methods.core.contract import (
    Batch,
    Judgement,
    Losses,
    Method,
    Part,
    Role,
    Settings,
    Split,
    Steps,
    Stream,
    feature_dim,
    label_probs,
)
from csot.methods.parts.losses import contrast, cross_entropy, one_hot, whole_batch
from csot.methods.parts.mixing import Mix, draw_mix
from csot.methods.parts.neighbours import judge_by_votes, nearest_others, neighbour_votes
from csot.methods.parts.small_loss import first_of_each_class

TRAIN = Stream(Role.TRAIN)
EMPTY = -2
"""Label of a place of the memory that has not been filled."""


class MoitSettings(Settings):
    first_stage: int = Field(130, ge=0)
    """Epochs in which all given labels are learned."""
    neighbours: int = Field(250, ge=1)
    """k."""
    temperature: float = Field(0.1, gt=0)
    """tau."""
    contrast_weight: float = Field(1.0, ge=0)
    memory: int = Field(100, ge=1)
    """Rows per class in the memory, in two views each."""
    memory_after: int = Field(3, ge=0)
    """Epochs without the memory."""
    mixup_alpha: float = Field(1.0, gt=0)
    head_dim: int = Field(128, ge=1)


class Moit(Method):
    Settings: ClassVar[type[Settings]] = MoitSettings
    about = "contrast of mixed views; labels that two votes of neighbours confirm are trusted"
    reference = "Ortego, Arazo, Albert, O'Connor and McGuinness, CVPR 2021"
    settings: MoitSettings

    trusted: Tensor
    """(N,) a, 0 or 1."""
    voted: Tensor
    """(N,) winners of the second vote, -1 for none."""
    has_split: Tensor
    memory: Tensor
    """(K, D) embeddings of the last rows, oldest first."""
    memory_labels: Tensor
    """(K,)."""

    def prepare(self) -> None:
        context, settings = self.context, self.settings
        rows, dim = len(context.labels), settings.head_dim
        self.head = nn.Linear(feature_dim(self.network), dim)
        places = 2 * max(settings.memory * context.num_classes, context.batch_size)
        self.register_buffer("trusted", (context.labels >= 0).float())
        self.register_buffer("voted", torch.full((rows,), -1))
        self.register_buffer("has_split", torch.zeros((), dtype=torch.bool))
        self.register_buffer("memory", torch.zeros(places, dim))
        self.register_buffer("memory_labels", torch.full((places,), EMPTY))
        self.epoch = 0

    def begin_epoch(self, epoch: int) -> dict[str, float]:
        self.epoch = epoch
        record = {"stage": 1.0 + (epoch > self.settings.first_stage)}
        if epoch == 1:
            return record
        context, rows = self.context, self.context.rows
        given = context.labels[rows]
        votes = self._votes(self._embed(rows), given)
        trusted = trust_evenly(votes, given).float()
        self.trusted[rows] = context.ranks.from_first(trusted)
        self.voted[rows] = context.ranks.from_first(winners(votes))
        self.has_split.fill_(True)
        return {**record, "clean": float(self.trusted[rows].sum())}

    def _embed(self, rows: Tensor) -> Tensor:
        features: Tensor = self.head(self.context.predict(self.network, rows).features)
        return features

    def _votes(self, embeddings: Tensor, given: Tensor) -> Tensor:
        """(n, C) shares of the second vote."""
        neighbours = nearest_others(embeddings, self.settings.neighbours)
        classes = self.context.num_classes
        first = neighbour_votes(given, neighbours, classes)
        return neighbour_votes(winners(first), neighbours, classes)

    def steps(self, epoch: int) -> Steps:
        return one_stream(self.context, TRAIN)

    def forward(self, batch: Batch) -> Losses:
        part, context = batch[TRAIN], self.context
        views = [context.strong_view(part) for _ in range(2)]
        mixes = [self._draw_mix(part) for _ in range(2)]
        seen = [self.network(mix(view)) for mix, view in zip(mixes, views, strict=True)]
        logits = torch.cat([one.logits for one in seen])
        losses = {"classification": cross_entropy(logits, self._targets(part, mixes))}
        if self.settings.contrast_weight:
            units = [F.normalize(self.head(one.features).float(), dim=-1) for one in seen]
            loss = self._contrast(part, units, mixes)
            losses["contrast"] = self.settings.contrast_weight * loss
        return losses

    def _draw_mix(self, part: Part) -> Mix:
        context = self.context
        return draw_mix(part.whole, self.settings.mixup_alpha, context.generator, context.ranks)

    def _targets(self, part: Part, mixes: list[Mix]) -> Tensor:
        """(2b, C) targets of the classifier."""
        hot = one_hot(part.labels, self.context.num_classes)
        if self.epoch <= self.settings.first_stage:
            return torch.cat([mix(hot) for mix in mixes])
        with torch.no_grad():
            plain = part.view(self.context.views.plain, self.context.generator)
            probs = self.network(plain).logits.float().softmax(-1)
        trust = self.trusted[part.rows][:, None]
        return torch.cat([trust * mix(hot) + mix((1 - trust) * probs) for mix in mixes])

    def _contrast(self, part: Part, units: list[Tensor], mixes: list[Mix]) -> Tensor:
        """L_icl of the whole batch, on every process; (b, D) unit vectors of both views."""
        ranks, temperature = self.context.ranks, self.settings.temperature
        labels = ranks.gather(part.labels)
        partners = [ranks.gather(mix.partners.to(labels.device)) for mix in mixes]
        keeps = [mix.keep for mix in mixes]
        batch = torch.cat([whole_batch(one, ranks) for one in units])
        positives, allowed = icl_masks(labels, partners, labels, is_batch=True)
        loss = contrast(batch, batch, normalised(positives, keeps), allowed, temperature)
        # The memory's last rows are those of this batch, without their gradient.
        self._memorise(batch.detach(), labels.repeat(2))
        if self.epoch <= self.settings.memory_after:
            return loss
        keys, old_labels = self.memory.clone(), self.memory_labels[: -len(batch)]
        earlier, filled = icl_masks(labels, partners, old_labels, is_batch=False)
        positives = torch.cat([earlier, positives], -1)
        allowed = torch.cat([filled, allowed], -1)
        return loss + contrast(batch, keys, normalised(positives, keeps), allowed, temperature)

    def _memorise(self, units: Tensor, labels: Tensor) -> None:
        self.memory.copy_(torch.cat([self.memory, units])[-len(self.memory) :])
        kept = torch.cat([self.memory_labels, labels])[-len(self.memory_labels) :]
        self.memory_labels.copy_(kept)

    def split(self) -> Split | None:
        if not bool(self.has_split):
            return None
        clean = self.trusted > 0
        return Split(clean, ~clean & (self.voted >= 0), self.voted)

    def judge(self) -> Judgement:
        """Judge by two last votes among all rows; trusted where network and vote agree."""
        context = self.context
        seen = context.predict(self.network, context.all_rows)
        votes = self._votes(self.head(seen.features), context.labels)
        total = votes.sum(-1, keepdim=True)
        posterior = torch.where(total > 0, votes / total.clamp(min=1e-30), seen.probs)
        return judge_by_votes(posterior, seen, context.labels, context.ranks)


def winners(votes: Tensor) -> Tensor:
    """(n, C) -> (n,) class of most votes, -1 without any."""
    most, winner = votes.max(-1)
    return torch.where(most > 0, winner, -1)


def trust_evenly(votes: Tensor, labels: Tensor) -> Tensor:
    """(n,) bool: in each class the same number of labels that have the largest votes.

    The number is the median over classes, the lower one of two, of how many labels win their vote.
    """
    classes = votes.shape[-1]
    wins = (winners(votes) == labels) & (labels >= 0)
    count = int(one_hot(labels[wins], classes).sum(0).median())
    order = label_probs(votes, labels).argsort(stable=True, descending=True)
    return first_of_each_class(order, labels, count, classes)


def icl_masks(
    labels: Tensor,
    partners: list[Tensor],
    key_labels: Tensor,
    *,
    is_batch: bool,
) -> tuple[Tensor, Tensor]:
    """Positives (2, 2B, K) of both halves of each mixed row, and allowed keys (2B, K).

    The keys are both views of the batch itself, or K others with `key_labels`.
    """
    count, device = len(labels), labels.device
    rows = torch.arange(count, device=device)
    halves = [rows.repeat(2), torch.cat(partners)]  # of a mixed row: itself, and its partner
    if is_batch:
        key_labels, key_rows = labels.repeat(2), rows.repeat(2)
        allowed = ~torch.eye(2 * count, dtype=torch.bool, device=device)
    else:
        key_rows = torch.full_like(key_labels, -1)
        allowed = (key_labels != EMPTY).expand(2 * count, -1)
    positives = []
    for half in halves:
        same = (labels[half][:, None] == key_labels) & (key_labels >= 0)
        positives.append((same | (half[:, None] == key_rows)) & allowed)
    return torch.stack(positives), allowed


def normalised(positives: Tensor, keeps: list[float]) -> Tensor:
    """(2, 2B, K) bool -> (2B, K) weights: each half's sum to its share of the mixed row."""
    each = positives.float() / positives.sum(-1, keepdim=True).clamp(min=1)
    share = torch.tensor(keeps, device=each.device).repeat_interleave(each.shape[1] // 2)[:, None]
    return share * each[0] + (1 - share) * each[1]
