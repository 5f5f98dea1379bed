"""OT Cleaner: labels of large loss give way to those of a balanced transport plan.

After a warm-up with cross-entropy, the labels u_i = argmax_k Q_ik come from

    min <-log P, Q> + epsilon <Q, log Q>   s.t.  Q >= 0,  Q 1 = 1/N,  Q' 1 = 1/C

over all rows, with P the predictions. Of every batch, D_small is the share 1 - r of the rows, those
of smallest CE(p, y):

    loss = mean of CE(p, y) over D_small + mean of CE(p, u) over the others

The original is told the noise rate r; here it is estimated in the warm-up (`_noise_rate`), unless
`noise_rate` is set. Its plans are renewed at times that are dense at first; those that fall within
one epoch are one here. P is of the plain view, where the original has it of augmented views.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from csot.methods.core.batches import full_batches
from csot.methods.core.contract import Batch, Judgement, Losses, Settings, Split
from csot.methods.core.networks import SingleNetwork, judge_by_probabilities
from csot.methods.parts.losses import cross_entropy, each_cross_entropy
from csot.methods.parts.noise_rate import NoiseRate
from csot.methods.parts.selection import forget_faster, mean_over, smallest
from csot.ot.arrays import as_tensor
from csot.ot.numerics import ConvergenceWarning
from csot.ot.solve import solve


class OtCleanerSettings(Settings):
    noise_rate: float | None = Field(None, ge=0, lt=1)
    """Share of wrong labels, for those who know it; else it is estimated."""
    warmup: int = Field(21, ge=1)
    """Epochs of cross-entropy."""
    epsilon: float = Field(1 / 25, gt=0)
    refreshes: int = Field(100, ge=1)
    """New plans, at the shares (j / (refreshes - 1))^2 of the training."""
    late: int = Field(80, ge=0)
    """Epochs after which Adam's first beta is 0.1; other optimisers have none."""


class OtCleaner(SingleNetwork):
    Settings: ClassVar[type[Settings]] = OtCleanerSettings
    about = "labels of large loss are replaced by a balanced plan's; estimates the noise rate"
    reference = "Xia et al., ICASSP 2022"
    settings: OtCleanerSettings

    labels: Tensor
    small: Tensor
    looked: Tensor

    def prepare(self) -> None:
        context = self.context
        super().prepare()
        given = context.labels[context.rows]
        self.noise = NoiseRate(given, context.num_classes, self.settings.noise_rate)
        self.register_buffer("labels", context.labels.clone())
        # Whether a row was in D_small when it was last seen.
        self.register_buffer("small", torch.zeros_like(context.labels, dtype=torch.bool))
        self.register_buffer("looked", torch.zeros((), dtype=torch.bool))

    def begin_epoch(self, epoch: int) -> dict[str, float]:
        context, warmup = self.context, self.settings.warmup
        is_known = self.settings.noise_rate is not None
        if 1 < epoch <= warmup + 1 and not is_known:
            self.noise.look(context.predict(self.network, context.rows).probs)
        if epoch == warmup + 1 or (epoch > warmup and self._is_due(epoch)):
            plan = self._plan(context.rows)
            self.labels[context.rows] = context.ranks.from_first(plan.argmax(-1))
            self.looked.fill_(True)
        return {"stage": 1 + (epoch > warmup), "noise_rate": self.noise.read()}

    def _is_due(self, epoch: int) -> bool:
        """Whether a time of renewal fell within the epoch before this one."""
        count = max(1, self.settings.refreshes - 1)

        def passed(done: int) -> int:
            # The j with (j / count)^2 * epochs <= done.
            return int(count * (done / self.context.epochs) ** 0.5 + 1e-9)

        return passed(epoch - 1) > passed(epoch - 2)

    def _plan(self, rows: Tensor) -> Tensor:
        """(n, C): each row's share of the classes in the plan."""
        logits = self.context.predict(self.network, rows).logits
        with warnings.catch_warnings():
            # A plan that is feasible but not quite optimal is good enough for a while.
            warnings.simplefilter("ignore", ConvergenceWarning)
            plan = solve(
                log_probs=logits.log_softmax(-1),
                class_prior="uniform",
                epsilon=self.settings.epsilon,
                coherence=0.0,
            )
        coupling = as_tensor("coupling", plan.coupling)
        return coupling / coupling.sum(-1, keepdim=True)

    def steps(self, epoch: int) -> Iterator[Mapping[str, Tensor]]:
        rows, size = self.context.rows, self.context.batch_size
        name = "warmup" if epoch <= self.settings.warmup else "all"
        for batch in full_batches(rows, size, self.context.order):
            yield {name: batch}

    def forward(self, batch: Batch) -> Losses:
        (name, part), ranks = next(iter(batch.items())), self.context.ranks
        weak = part.view(self.context.views.weak, self.context.generator)
        logits = self.network(weak).logits
        if name == "warmup":
            return {"cross_entropy": cross_entropy(logits, part.labels)}
        each = each_cross_entropy(logits, part.labels)
        # A row without a label always gets the plan's.
        small = smallest(each, 1 - self.noise.read(), ranks, among=part.labels >= 0)
        self.small[ranks.gather(part.rows)] = ranks.gather(small)
        replaced = each_cross_entropy(logits, self.labels[part.rows])
        return {
            "small": mean_over(each, small, ranks),
            "replaced": mean_over(replaced, ~small, ranks),
        }

    def tune(self, epoch: int, group: dict[str, Any]) -> None:
        if epoch > self.settings.late:
            forget_faster(group)

    def split(self) -> Split | None:
        """Rows of small loss keep their label; of the others, those that the plan changes."""
        if not bool(self.looked):
            return None
        changed = ~self.small & (self.labels != self.context.labels)
        return Split(self.small, changed, self.labels)

    def judge(self) -> Judgement:
        """By a last plan over all rows."""
        plan = self.context.ranks.from_first(self._plan(self.context.everyone))
        return judge_by_probabilities(plan, self.context.labels)
