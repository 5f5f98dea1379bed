"""DivideMix: labels of small loss are kept, the others are guessed, by two networks.

Each network fits a mixture of two normal distributions to its losses; w_i is the posterior of the
component of small losses (`parts/small_loss`), and labels with w_i > tau are kept. In its turn a
network trains on the other's division, by MixMatch (`parts/mixing`) with, p being mean predictions
over two weak views,

    kept labels     sharpen(w_i onehot(y_i) + (1 - w_i) p_own)
    the others      sharpen((p_own + p_other) / 2)
    weight of L_u   lambda_u times a linear ramp.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from csot.methods.core.contract import (
    Batch,
    Judgement,
    Losses,
    Method,
    Part,
    Settings,
    Split,
    Steps,
    label_probs,
)
from csot.methods.core.networks import Turns, WarmupSettings
from csot.methods.parts.losses import one_hot, refine
from csot.methods.parts.mixing import Side, guess, linear_ramp, mean_probs, mixmatch
from csot.methods.parts.small_loss import small_loss_posterior


class DivideMixSettings(WarmupSettings):
    threshold: float = Field(0.5, gt=0, lt=1)
    """tau."""
    loss_epochs: int = Field(1, ge=1)
    """Number of epochs over which losses are averaged; the original has 5 at 90 % noise."""
    unlabelled_weight: float = Field(25.0, ge=0)
    """lambda_u. The original has 0 for little or asymmetric noise, up to 150 for 100 classes."""
    ramp_epochs: float = Field(16.0, ge=0)
    """Epochs after the warm-up over which lambda_u rises."""
    temperature: float = Field(0.5, gt=0)
    mixup_alpha: float = Field(4.0, gt=0)
    prior_penalty: float = Field(1.0, ge=0)


class DivideMix(Method):
    Settings: ClassVar[type[Settings]] = DivideMixSettings
    about = "two networks divide the labels by loss for one another, then MixMatch"
    reference = "Li, Socher and Hoi, ICLR 2020"
    network_count = 2
    settings: DivideMixSettings

    history: Tensor
    """(loss_epochs, 2, N) scaled losses of both networks, a ring buffer over the epochs."""
    divisions: Tensor
    """Number of divisions so far."""
    guessed: Tensor
    """(N,) labels that both networks predict together."""

    def prepare(self) -> None:
        self.turns = Turns(self.context, self.settings, led_by_labelled=True)
        rows = len(self.context.labels)
        self.register_buffer("history", torch.zeros(self.settings.loss_epochs, 2, rows))
        self.register_buffer("divisions", torch.zeros((), dtype=torch.long))
        self.register_buffer("guessed", torch.full((rows,), -1))

    def begin_epoch(self, epoch: int) -> dict[str, float]:
        self.turns.begin_epoch(epoch)
        if self.turns.is_warmup(epoch):
            return {"stage": 0}
        self._divide(self.context.rows)
        return {"stage": 1, "clean": self.turns.mean_clean()}

    def _divide(self, rows: Tensor) -> None:
        """Set the trust in each label, and which labels are kept."""
        ranks, span, turns = self.context.ranks, self.settings.loss_epochs, self.turns
        logits = self._logits(rows)
        self.history[int(self.divisions) % span, :, rows] = self._scaled_losses(logits, rows)
        self.divisions += 1
        losses = self.history[: min(int(self.divisions), span)].mean(0)[:, rows]
        turns.trust[:, rows] = self._posterior(losses, rows)
        turns.clean[:, rows] = turns.trust[:, rows] > self.settings.threshold
        self.guessed[rows] = ranks.from_first(logits.softmax(-1).sum(0).argmax(-1))

    def _logits(self, rows: Tensor) -> Tensor:
        """(2, n, C)."""
        return torch.stack([self.context.predict(net, rows).logits for net in self.networks])

    def _scaled_losses(self, logits: Tensor, rows: Tensor) -> Tensor:
        """(2, n) cross-entropies of the given labels, each network's from 0 to 1."""
        given = self.context.labels[rows].clamp(min=0).expand(2, -1)
        losses = -logits.log_softmax(-1).gather(-1, given[..., None])[..., 0]
        low, high = losses.amin(-1, keepdim=True), losses.amax(-1, keepdim=True)
        return (losses - low) / (high - low).clamp(min=1e-12)

    def _posterior(self, losses: Tensor, rows: Tensor) -> Tensor:
        """(2, n) w, zero where no label is given."""
        labelled = self.context.labels[rows] >= 0
        found = torch.zeros_like(losses)
        for number in range(2):
            seed = int(torch.randint(2**31, (), generator=self.context.generator))
            found[number, labelled] = small_loss_posterior(losses[number, labelled], seed)
        return self.context.ranks.from_first(found)

    def steps(self, epoch: int) -> Steps:
        return self.turns.steps(epoch)

    def forward(self, batch: Batch) -> Losses:
        if warmup := self.turns.warmup_losses(self.networks, batch):
            return warmup
        number, labelled, unlabelled = self.turns.parts(batch)
        settings = self.settings
        ramp = linear_ramp(self.turns.trained_epochs(number), settings.ramp_epochs)
        return mixmatch(
            self.networks[number],
            None if labelled is None else self._refined(number, labelled),
            None if unlabelled is None else self._co_guessed(number, unlabelled),
            self.context,
            alpha=settings.mixup_alpha,
            weight=settings.unlabelled_weight * ramp,
            penalty=settings.prior_penalty,
        )

    def _refined(self, number: int, part: Part) -> Side:
        views = self._weak_views(part)
        trust = self.turns.trust[1 - number, part.rows]
        probs = mean_probs(self.networks[number], views)
        return Side(views, refine(part.labels, probs, trust, self.settings.temperature))

    def _co_guessed(self, number: int, part: Part) -> Side:
        views = self._weak_views(part)
        own = mean_probs(self.networks[number], views)
        other = mean_probs(self.networks[1 - number], views, frozen=True)
        return Side(views, guess([own, other], self.settings.temperature))

    def _weak_views(self, part: Part) -> list[Tensor]:
        return [self.context.weak_view(part) for _ in range(2)]

    def after_step(self, batch: Batch) -> None:
        self.turns.after_step(batch)

    def split(self) -> Split | None:
        """Labels that both networks keep are trusted; those that neither keeps are replaced."""
        clean = self.turns.clean
        if not bool(self.turns.has_split):
            return None
        return Split(clean.all(0), ~clean.any(0), self.guessed)

    def judge(self) -> Judgement:
        """w onehot(y) + (1 - w) p, with w and p means of both; trusted where both agree."""
        rows, given = self.context.all_rows, self.context.labels
        logits = self._logits(rows)
        trust = self._posterior(self._scaled_losses(logits, rows), rows).mean(0)[:, None]
        probs = logits.softmax(-1).mean(0)
        posterior = trust * one_hot(given, self.context.num_classes) + (1 - trust) * probs
        first, second = logits.argmax(-1)
        return Judgement(
            posterior=posterior,
            trusted=(first == second) & (posterior.amax(-1) > 0.5),
            scores=label_probs(posterior, given),
        )
