"""OT Cleaner: labels of large loss are replaced by labels of a balanced transport plan.

After a warm-up with cross-entropy, the labels u_i = argmax_k Q_ik come from

    min <-log P, Q> + epsilon <Q, log Q>   s.t.  Q >= 0,  Q 1 = 1/N,  Q' 1 = 1/C

over all rows, with P the predictions. Of every batch, D_small is the share 1 - r of the rows, those
of smallest CE(p, y):

    loss = mean of CE(p, y) over D_small + mean of CE(p, u) over the others

The original is given the noise rate r; here it is estimated in the warm-up (`parts/small_loss`),
unless `noise_rate` is set. The original renews its plan often at first and less often later; here
at most once per epoch. P comes from the plain view, in the original from augmented views.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from csot.methods.co_teaching import lower_first_beta
from csot.methods.core.batches import one_stream
from csot.methods.core.contract import (
    Batch,
    Judgement,
    Losses,
    Method,
    Role,
    Settings,
    Split,
    Steps,
    Stream,
)
from csot.methods.parts.losses import cross_entropy, each_cross_entropy
from csot.methods.parts.small_loss import NoiseRate, mean_over, smallest
from csot.ot.array_adapter import as_tensor
from csot.ot.numerics import ConvergenceWarning
from csot.ot.solve import solve


class OtCleanerSettings(Settings):
    noise_rate: float | None = Field(None, ge=0, lt=1)
    """Share of wrong labels if it is known; else it is estimated."""
    warmup: int = Field(21, ge=1)
    """Epochs of cross-entropy."""
    epsilon: float = Field(1 / 25, gt=0)
    refreshes: int = Field(100, ge=1)
    """New plans, at the shares (j / (refreshes - 1))^2 of the training."""
    late: int = Field(80, ge=0)
    """Epochs after which Adam's first beta is 0.1; other optimisers have none."""


class OtCleaner(Method):
    Settings: ClassVar[type[Settings]] = OtCleanerSettings
    about = "labels of large loss are replaced by a balanced plan's; estimates the noise rate"
    reference = "Xia et al., ICASSP 2022"
    settings: OtCleanerSettings

    labels: Tensor
    """(N,) labels of the plan."""
    small: Tensor
    """(N,) bool: whether a row was in D_small when it was last seen."""
    has_plan: Tensor

    def prepare(self) -> None:
        context = self.context
        given = context.labels[context.rows]
        self.noise = NoiseRate(given, context.num_classes, self.settings.noise_rate)
        self.register_buffer("labels", context.labels.clone())
        self.register_buffer("small", torch.zeros_like(context.labels, dtype=torch.bool))
        self.register_buffer("has_plan", torch.zeros((), dtype=torch.bool))

    def begin_epoch(self, epoch: int) -> dict[str, float]:
        context, warmup = self.context, self.settings.warmup
        is_known = self.settings.noise_rate is not None
        if 1 < epoch <= warmup + 1 and not is_known:
            self.noise.update(context.predict(self.network, context.rows).probs)
        if epoch == warmup + 1 or (epoch > warmup and self._is_due(epoch)):
            plan = self._plan(context.rows)
            self.labels[context.rows] = context.ranks.from_first(plan.argmax(-1))
            self.has_plan.fill_(True)
        return {"stage": 1 + (epoch > warmup), "noise_rate": self.noise.read()}

    def _is_due(self, epoch: int) -> bool:
        """Whether a renewal was due within the previous epoch."""
        count = max(1, self.settings.refreshes - 1)

        def passed(done: int) -> int:
            # The j with (j / count)^2 * epochs <= done.
            return int(count * (done / self.context.epochs) ** 0.5 + 1e-9)

        return passed(epoch - 1) > passed(epoch - 2)

    def _plan(self, rows: Tensor) -> Tensor:
        """(n, C): the plan, with every row normalised."""
        logits = self.context.predict(self.network, rows).logits
        with warnings.catch_warnings():
            # A feasible plan is good enough; non-convergence is expected here.
            warnings.simplefilter("ignore", ConvergenceWarning)
            plan = solve(
                log_probs=logits.log_softmax(-1),
                class_prior="uniform",
                epsilon=self.settings.epsilon,
                coherence=0.0,
            )
        coupling = as_tensor("coupling", plan.coupling)
        return coupling / coupling.sum(-1, keepdim=True)

    def steps(self, epoch: int) -> Steps:
        role = Role.WARMUP if epoch <= self.settings.warmup else Role.TRAIN
        return one_stream(self.context, Stream(role))

    def forward(self, batch: Batch) -> Losses:
        [(stream, part)], ranks = batch.items(), self.context.ranks
        logits = self.network(self.context.weak_view(part)).logits
        if stream.role is Role.WARMUP:
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

    def update_param_group(self, epoch: int, group: dict[str, Any]) -> None:
        if epoch > self.settings.late:
            lower_first_beta(group)

    def split(self) -> Split | None:
        """Rows of small loss keep their label; the others get the plan's."""
        if not bool(self.has_plan):
            return None
        changed = ~self.small & (self.labels != self.context.labels)
        return Split(self.small, changed, self.labels)

    def judge(self) -> Judgement:
        """Judge by a last plan over all rows."""
        plan = self.context.ranks.from_first(self._plan(self.context.all_rows))
        return Judgement.from_probs(plan, self.context.labels)
