"""CSOT: one network, trained on the labels that a curriculum of transport plans confirms.

Algorithm S1 of the paper. After a warm-up, every epoch solves Eq. 6 for the labels
(`parts/relabel`) and splits the rows into D_clean and D_corrupted (Eq. 8). Stage one minimises

    L_mix(D_clean) + L_lab(D_clean) + lambda_1 L_simsiam(D_corrupted)      (Eq. 9)

and stage two L_mix(D_clean) + L_lab(D_clean) + lambda_2 L_lab(D_corrupted)      (Eq. 10).
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import normalize

from csot.methods.core.batches import one_stream, side_by_side
from csot.methods.core.contract import (
    Batch,
    Judgement,
    Losses,
    Method,
    Part,
    Predictions,
    Role,
    Settings,
    Split,
    Steps,
    Stream,
    feature_dim,
    label_probs,
)
from csot.methods.parts.csot_settings import CsotSettings
from csot.methods.parts.losses import (
    cross_entropy,
    negative_entropy,
    one_hot,
    pair_contrast,
    prior_penalty,
    refine,
    simsiam,
    whole_batch,
)
from csot.methods.parts.mixing import Mix, draw_mix
from csot.methods.parts.relabel import Relabelling, budgets, relabel
from csot.nets.network import Outputs, SimSiamPredictor

WARMUP, CLEAN, CORRUPTED = (Stream(role) for role in (Role.WARMUP, Role.CLEAN, Role.CORRUPTED))


class Csot(Method):
    Settings: ClassVar[type[Settings]] = CsotSettings
    about = "relabel by curriculum and structure-aware optimal transport, then train in two stages"
    reference = "Chang, Shi and Wang, NeurIPS 2023"
    uses_posterior = True
    settings: CsotSettings

    # Per row, from the last relabelling.
    labels: Tensor
    confidence: Tensor
    selected: Tensor
    clean: Tensor
    probs: Tensor

    semi: Tensor
    """Whether stage two has begun."""
    has_split: Tensor
    """Whether there was a relabelling."""
    prior: Tensor | None
    """(C,) shares of the classes in the last plan, for `class_prior="plan"`."""

    def prepare(self) -> None:
        context, settings = self.context, self.settings
        dim = feature_dim(self.network)
        self.predictor = SimSiamPredictor(dim, settings.simsiam_hidden, settings.simsiam_norm)
        self.budget = budgets(self._starting_settings(), context.epochs)
        rows, classes = len(context.labels), context.num_classes
        self.register_buffer("labels", context.labels.clone())
        self.register_buffer("confidence", torch.zeros(rows))
        self.register_buffer("selected", torch.zeros(rows, dtype=torch.bool))
        self.register_buffer("clean", torch.zeros(rows, dtype=torch.bool))
        self.register_buffer("probs", torch.full((rows, classes), 1 / classes))
        self.register_buffer("semi", torch.zeros((), dtype=torch.bool))
        self.register_buffer("has_split", torch.zeros((), dtype=torch.bool))
        is_tracked = settings.class_prior == "plan"
        self.register_buffer("prior", torch.full((classes,), 1 / classes) if is_tracked else None)

    def _starting_settings(self) -> CsotSettings:
        """The budget starts with the share of labels that the posterior confirms, if it is more."""
        posterior, labels = self.context.posterior, self.context.labels
        if posterior is None:
            return self.settings
        labelled = labels.cpu() >= 0
        confirmed = float(label_probs(posterior.cpu(), labels.cpu())[labelled].mean())
        start = min(1.0, max(self.settings.start_budget, confirmed))
        return self.settings.model_copy(update={"start_budget": start})

    # Before the steps of an epoch: relabel and split.

    def begin_epoch(self, epoch: int) -> dict[str, float]:
        if self._is_warmup(epoch):
            return {"stage": 0}
        rows, budget = self.context.rows, self.budget(epoch)
        seen = self.context.predict(self.network, rows)
        self.probs[rows] = seen.probs
        found = self._relabel(seen, self.context.labels[rows], budget)
        for name in ("labels", "confidence", "selected", "clean"):
            getattr(self, name)[rows] = self.context.ranks.from_first(getattr(found, name))
        self._lock()
        self.has_split.fill_(True)
        if self.prior is not None:
            self.prior.copy_(self.context.ranks.from_first(found.posterior.mean(0)))
        corrected, left = self._corrected()[rows], ~self.selected[rows]
        self.semi.fill_(self._is_second_stage(epoch, corrected, left))
        selected = self.selected[rows]
        differs = selected & (self.labels[rows] != seen.logits.argmax(-1))
        return {
            "stage": 1 + int(self.semi),
            "budget": budget,
            "selected": int(selected.sum()),
            "clean": int(self.clean[rows].sum()),
            "corrected": int(corrected.sum()),
            # Of the selected rows, those where plan and network differ; of all, the converged ones.
            "plan_disagreement": int(differs.sum()) / max(1, int(selected.sum())),
            "plan_converged": float(found.converged.float().mean()),
        }

    def _is_warmup(self, epoch: int) -> bool:
        last = self.settings.warmup - (self.settings.warmup_ends == "before")
        return epoch <= last

    def _is_second_stage(self, epoch: int, corrected: Tensor, left: Tensor) -> bool:
        if self.settings.switch == "never":
            return False
        if self.settings.switch == "epoch":
            return epoch >= self.settings.supervised_epochs
        # Once stage two has begun, it stays (difference 6).
        return bool(self.semi) or int(corrected.sum()) > int(left.sum())

    def _relabel(self, seen: Predictions, given: Tensor, budget: float) -> Relabelling:
        return relabel(seen, given, budget, self.settings, self.context.generator, self.prior)

    def _lock(self) -> None:
        """Verified rows are clean, whatever the plan says."""
        locked = self.context.locked
        if locked is not None:
            rows = locked.to(self.labels.device)
            self.labels[rows] = self.context.labels[rows]
            self.confidence[rows] = 1.0
            self.selected[rows] = True
            self.clean[rows] = True

    def _corrected(self) -> Tensor:
        return self.selected & ~self.clean

    def _corrupted(self) -> Tensor:
        if self.settings.corrupted == "not_clean":
            return ~self.clean
        return self.labels != self.context.labels

    # Which rows each step takes.

    def steps(self, epoch: int) -> Steps:
        context, rows = self.context, self.context.rows
        if self._is_warmup(epoch):
            return one_stream(context, WARMUP, batch_factor=self.settings.warmup_batch_factor)
        sets = {CLEAN: rows[self.clean[rows].cpu()]}
        if self._uses_corrupted():
            sets[CORRUPTED] = rows[self._corrupted()[rows].cpu()]
        return side_by_side(sets, context.batch_size, context.order)

    def _uses_corrupted(self) -> bool:
        return self._has_simsiam() or (bool(self.semi) and self.settings.semi_weight > 0)

    def _has_simsiam(self) -> bool:
        settings = self.settings
        goes_on = settings.simsiam_in_semi if bool(self.semi) else not self._is_plain()
        return settings.simsiam_weight > 0 and goes_on

    def _is_plain(self) -> bool:
        """Whether stage one is cross-entropy of clean rows and nothing else (ablation g)."""
        return self.settings.clean_loss == "cross_entropy" and not bool(self.semi)

    # The losses of one step.

    def forward(self, batch: Batch) -> Losses:
        if WARMUP in batch:
            return self._warmup(batch[WARMUP])
        # All views are collected first, for a single pass through the network.
        views: dict[str, Tensor] = {}
        clean, corrupted = batch.get(CLEAN), batch.get(CORRUPTED)
        mix = None if clean is None else self._add_clean_views(clean, views)
        if corrupted is not None:
            self._add_corrupted_views(corrupted, views)
        seen = self._pass(views)
        losses: Losses = {}
        if clean is not None:
            losses |= self._clean_losses(clean, mix, seen)
        if corrupted is not None:
            losses |= self._corrupted_losses(corrupted, seen)
        return losses

    def _warmup(self, part: Part) -> Losses:
        context, settings = self.context, self.settings
        seen = self.network(context.weak_view(part))
        posterior = context.posterior
        targets = part.labels if posterior is None else posterior.to(seen.logits.device)[part.rows]
        losses = {"warmup": cross_entropy(seen.logits, targets)}
        if settings.warmup_entropy:
            losses["entropy"] = settings.warmup_entropy * negative_entropy(seen.logits)
        if settings.warmup_views != "none":
            strong = self.network(context.strong_view(part)).features
            loss = self._two_views(seen.features, strong, settings.warmup_views)
            losses["views"] = settings.warmup_views_weight * loss
        return losses

    def _two_views(self, first: Tensor, second: Tensor, kind: str = "simsiam") -> Tensor:
        """SimSiam of the features of two views, or contrast of what the predictor makes of them."""
        features, context = (first, second), self.context
        if self.settings.joint_pass:
            one, two = self.predictor(torch.cat(features)).chunk(2)
        else:
            one, two = map(self.predictor, features)
        if kind == "simsiam":
            return simsiam((one, two), features)
        one, two = (whole_batch(normalize(x.float(), dim=-1), context.ranks) for x in (one, two))
        return pair_contrast(one, two, self.settings.contrast_temperature)

    def _pass(self, views: dict[str, Tensor]) -> dict[str, Outputs]:
        """Outputs by view, from one pass over all of them or from a pass each."""
        if not self.settings.joint_pass:
            return {name: self.network(inputs) for name, inputs in views.items()}
        out = self.network(torch.cat(list(views.values())))
        sizes = [len(inputs) for inputs in views.values()]
        parts = zip(out.logits.split(sizes), out.features.split(sizes), strict=True)
        return {name: Outputs(*part) for name, part in zip(views, parts, strict=True)}

    # Clean rows: L_mix + L_lab.

    def _add_clean_views(self, part: Part, views: dict[str, Tensor]) -> Mix | None:
        settings, context = self.settings, self.context
        count = settings.mixup_views
        weak = [context.weak_view(part) for _ in range(count)]
        if self._is_plain():
            views["weak0"] = weak[0]
            return None
        mix = draw_mix(
            count * part.whole,
            settings.mixup_alpha,
            context.generator,
            context.ranks,
            own_side=settings.mixup_own_side,
        )
        views["mixed"] = mix(torch.cat(weak))
        views["strong"] = context.strong_view(part)
        if settings.targets == "refined" and settings.refine_from == "step":
            views |= {f"weak{number}": view for number, view in enumerate(weak)}
        return mix

    def _clean_losses(self, part: Part, mix: Mix | None, seen: dict[str, Outputs]) -> Losses:
        if mix is None:
            return {"clean": cross_entropy(seen["weak0"].logits, part.labels)}
        settings, mixed = self.settings, seen["mixed"].logits
        names = [f"weak{number}" for number in range(settings.mixup_views)]
        weak = [seen[name].logits for name in names if name in seen]
        targets, consistent = self._clean_targets(part, weak)
        losses = {
            "mix": cross_entropy(mixed, mix(targets.repeat(settings.mixup_views, 1))),
            "lab": cross_entropy(seen["strong"].logits, consistent),
        }
        if settings.prior_penalty:
            penalty = prior_penalty(mixed, self.context.ranks)
            losses["penalty"] = settings.prior_penalty * penalty
        return losses

    def _clean_targets(self, part: Part, weak: list[Tensor]) -> tuple[Tensor, Tensor]:
        """(b, C) targets of L_mix and of L_lab (differences 4 and 10).

        `weak` are the logits of the weak views, (b, C) each; if there are none, the predictions of
        the last relabelling are used.
        """
        settings = self.settings
        hot = one_hot(part.labels, self.context.num_classes)
        if settings.targets == "one_hot":
            return hot, hot
        trust = self.confidence[part.rows] if settings.weighted_targets else torch.ones(len(part))
        trust = trust.to(hot)
        if not weak:
            first = mean = self.probs[part.rows]
        else:
            # (views, b, C); L_lab is blended with the first view's prediction.
            probs = torch.stack(weak).float().softmax(-1)
            first, mean = probs[0], probs.detach().mean(0)
            first = first.detach() if settings.detach_weak else first
        refined = refine(part.labels, mean, trust, settings.temperature)
        trust = trust[:, None]
        return refined, trust * refined + (1 - trust) * first

    # Corrupted rows: SimSiam, and L_lab with the plan's labels in stage two.

    def _add_corrupted_views(self, part: Part, views: dict[str, Tensor]) -> None:
        context, settings = self.context, self.settings
        labelled = bool(self.semi) and settings.semi_weight > 0
        if self._has_simsiam() or (labelled and settings.corrected_rows != "all"):
            views["corrupted_first"] = context.weak_view(part)
        if self._has_simsiam() and settings.simsiam_views == "two_weak":
            views["corrupted_second"] = context.weak_view(part)
        if labelled or (self._has_simsiam() and settings.simsiam_views == "weak_strong"):
            views["corrupted_strong"] = context.strong_view(part)

    def _corrupted_losses(self, part: Part, seen: dict[str, Outputs]) -> Losses:
        settings, losses = self.settings, Losses()
        strong, weak = seen.get("corrupted_strong"), seen.get("corrupted_first")
        if self._has_simsiam() and weak is not None:
            other = seen.get("corrupted_second", strong)
            assert other is not None
            loss = self._two_views(weak.features, other.features)
            losses["simsiam"] = settings.simsiam_weight * loss
        if bool(self.semi) and settings.semi_weight > 0 and strong is not None:
            labels, counted = self._corrected_targets(part, weak)
            loss = cross_entropy(strong.logits, labels, counted)
            losses["semi"] = settings.semi_weight * loss
        return losses

    def _corrected_targets(self, part: Part, weak: Outputs | None) -> tuple[Tensor, Tensor]:
        """(b,) labels for the corrupted rows, and (b,) which of them count (difference 9)."""
        labels = self.labels[part.rows]
        if weak is None:
            return labels, torch.ones_like(labels, dtype=torch.float)
        probs = weak.logits.detach().float().softmax(-1)
        if self.settings.corrected_rows == "confident":
            sure, labels = probs.max(-1)
            return labels, (sure >= self.settings.cutoff).float()
        sure = probs.gather(1, labels[:, None])[:, 0]
        if self.settings.corrected_rows == "all":
            return labels, torch.ones_like(sure)
        return labels, (self.selected[part.rows] & (sure >= self.settings.cutoff)).float()

    # Results.

    def split(self) -> Split | None:
        if not bool(self.has_split):
            return None
        return Split(self.clean, self._corrected(), self.labels)

    def judge(self) -> Judgement:
        """Judge by a last plan over all rows; trusted where network and plan agree."""
        given = self.context.labels
        seen = self.context.predict(self.network, self.context.all_rows)
        found = self._relabel(seen, given, self.budget(self.context.epochs))
        posterior = self.context.ranks.from_first(found.posterior)
        agreed = found.labels == seen.logits.argmax(-1)
        return Judgement(
            posterior=posterior,
            trusted=self.context.ranks.from_first(found.selected & agreed),
            scores=label_probs(posterior, given),
            features=seen.features,
        )
