"""DivideMix: labels of small loss are kept, the others are guessed anew, by two networks.

Each network fits a mixture of two normal distributions to its losses; w_i is the posterior of the
component of small losses, and labels with w_i > tau are kept. In its turn a network trains on the
other's division, by MixMatch (`_mixmatch`) with, p being mean predictions over two weak views,

    kept labels     sharpen(w_i onehot(y_i) + (1 - w_i) p_own)
    the others      sharpen((p_own + p_other) / 2)
    weight of L_u   lambda_u times a linear ramp.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from csot.methods.core.contract import Judgement, Losses, Part, Settings, Split
from csot.methods.core.networks import TakingTurns, WarmupSettings
from csot.methods.parts.losses import one_hot, refine
from csot.methods.parts.mixing import Side, guess, linear_ramp, mean_probs, mixmatch
from csot.methods.parts.selection import small_loss_posterior


class DivideMixSettings(WarmupSettings):
    threshold: float = Field(0.5, gt=0, lt=1)
    """tau."""
    loss_epochs: int = Field(1, ge=1)
    """Losses are averaged over so many of the last epochs; the original has 5 at 90 % noise."""
    unlabelled_weight: float = Field(25.0, ge=0)
    """lambda_u. The original has 0 for little or asymmetric noise, up to 150 for 100 classes."""
    ramp_epochs: float = Field(16.0, ge=0)
    """Epochs after the warm-up over which lambda_u rises."""
    temperature: float = Field(0.5, gt=0)
    mixup_alpha: float = Field(4.0, gt=0)
    prior_penalty: float = Field(1.0, ge=0)


class DivideMix(TakingTurns):
    Settings: ClassVar[type[Settings]] = DivideMixSettings
    about = "two networks divide the labels by loss for one another, then MixMatch"
    reference = "Li, Socher and Hoi, ICLR 2020"
    led_by_labelled = True
    settings: DivideMixSettings

    history: Tensor
    looks: Tensor
    guessed: Tensor

    def prepare(self) -> None:
        super().prepare()
        rows = len(self.context.labels)
        self.register_buffer("history", torch.zeros(self.settings.loss_epochs, 2, rows))
        self.register_buffer("looks", torch.zeros((), dtype=torch.long))
        self.register_buffer("guessed", torch.full((rows,), -1))

    def look(self, rows: Tensor) -> dict[str, float]:
        ranks, span = self.context.ranks, self.settings.loss_epochs
        logits = self._logits(rows)
        self.history[int(self.looks) % span, :, rows] = self._scaled_losses(logits, rows)
        self.looks += 1
        losses = self.history[: min(int(self.looks), span)].mean(0)[:, rows]
        self.trust[:, rows] = self._posterior(losses, rows)
        self.clean[:, rows] = self.trust[:, rows] > self.settings.threshold
        self.guessed[rows] = ranks.from_first(logits.softmax(-1).sum(0).argmax(-1))
        return {}

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

    def turn(self, number: int, labelled: Part | None, unlabelled: Part | None) -> Losses:
        settings = self.settings
        ramp = linear_ramp(self.trained_epochs(number), settings.ramp_epochs)
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
        trust = self.trust[1 - number, part.rows]
        probs = mean_probs(self.networks[number], views)
        return Side(views, refine(part.labels, probs, trust, self.settings.temperature))

    def _co_guessed(self, number: int, part: Part) -> Side:
        views = self._weak_views(part)
        own = mean_probs(self.networks[number], views)
        other = mean_probs(self.networks[1 - number], views, frozen=True)
        return Side(views, guess([own, other], self.settings.temperature))

    def _weak_views(self, part: Part) -> list[Tensor]:
        return [part.view(self.context.views.weak, self.context.generator) for _ in range(2)]

    def split(self) -> Split | None:
        """What both networks keep, and what neither does."""
        if not bool(self.looked):
            return None
        return Split(self.clean.all(0), ~self.clean.any(0), self.guessed)

    def judge(self) -> Judgement:
        """w onehot(y) + (1 - w) p, w and p means of both; relied on where they predict alike."""
        rows, given = self.context.everyone, self.context.labels
        logits = self._logits(rows)
        trust = self._posterior(self._scaled_losses(logits, rows), rows).mean(0)[:, None]
        probs = logits.softmax(-1).mean(0)
        posterior = trust * one_hot(given, self.context.num_classes) + (1 - trust) * probs
        first, second = logits.argmax(-1)
        return Judgement(
            posterior=posterior,
            trusted=(first == second) & (posterior.amax(-1) > 0.5),
            scores=posterior.gather(1, given.clamp(min=0)[:, None])[:, 0],
        )
