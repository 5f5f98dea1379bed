"""Settings of CSOT. Wherever the authors' code differs from their paper, there is an option.

The numbers in brackets refer to the table of options in docs/train.md.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from csot.methods.core.contract import Settings

PLUS: dict[str, Any] = {
    "coherence_scale": "classes",
    "coherence": 3.0,
    "simsiam_in_semi": True,
    "corrected_rows": "gated",
}
"""What helps beyond the paper; chosen on digits with 80 % noise, seed 0 (docs/beyond.md)."""

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {"relabel_batch": 1024},
    "published": {
        "relabel_batch": 1024,
        "coherence_on": "log_probs",
        "weights": "published",
        "weighted_targets": True,
        "curriculum": "linear_published",
        "switch": "latch",
        "corrupted": "not_clean",
        "simsiam_in_semi": True,
        "corrected_rows": "gated",
        "targets": "refined",
        "detach_weak": False,
        "mixup_own_side": True,
        "mixup_views": 2,
        "prior_penalty": 1.0,
        "warmup_batch_factor": 2,
        "warmup_ends": "after",
        "relabel_remainder": "own",
        "inner_iterations": 100,
        "row_constraint": "inequality",
        "joint_pass": False,
    },
    "plus": PLUS,
}


class CsotSettings(Settings):
    """Defaults are the paper's equations, with all rows as one problem.

    `variant` changes them: `paper` solves batches as the paper does, `published` is the authors'
    code, `plus` adds what helps beyond the paper.
    """

    by_variant: ClassVar[frozenset[str]] = frozenset().union(*VARIANTS.values())
    variant: Literal["default", "paper", "published", "plus"] = "default"

    # Stages.
    warmup: int = Field(10, ge=0)
    """T_warm."""
    warmup_ends: Literal["before", "after"] = "before"
    """[18] Epochs t < T_warm (paper), or T_warm whole ones (code)."""
    warmup_batch_factor: int = Field(1, ge=1)
    """[13] Batches of the warm-up, in units of the batch size."""
    warmup_entropy: float = Field(0.0, ge=0)
    """[13] Weight of the negative entropy in the warm-up; the code has 1 for asymmetric noise."""
    warmup_views: Literal["none", "simsiam", "contrast"] = "none"
    """Loss of two views of each row in the warm-up, besides cross-entropy."""
    warmup_views_weight: float = Field(1.0, ge=0)
    contrast_temperature: float = Field(0.3, gt=0)
    """Temperature of `warmup_views="contrast"`."""
    supervised_epochs: int = Field(250, ge=1)
    """[19] T_sup, warm-up included; the rest of the epochs is T_semi."""
    switch: Literal["epoch", "latch", "never"] = "epoch"
    """[6] Stage two begins at T_sup, or once more rows are corrected than left unselected."""

    # Relabelling.
    relabel_batch: int = Field(0, ge=0)
    """[20] Rows that are solved together; 0 is the whole data set as one problem."""
    relabel_remainder: Literal["own", "spread"] = "spread"
    """[20] A smaller last batch, or all batches of about the same size."""
    curriculum: Literal["linear", "linear_published", "exponential", "constant"] = "linear"
    """[5] How the budget grows; `constant` stays at `start_budget`."""
    start_budget: float = Field(0.3, gt=0, le=1)
    epsilon: float = Field(0.1, gt=0)
    coherence: float = Field(1.0, ge=0)
    """kappa."""
    prediction_coherence: float | None = Field(None, ge=0)
    """[17] In place of kappa for Omega^P."""
    label_coherence: float | None = Field(None, ge=0)
    """[17] In place of kappa for Omega^L."""
    coherence_scale: Literal["absolute", "classes"] = "absolute"
    """Unit of kappa: 1, or C / m, with which it means the same for any number of classes."""
    coherence_on: Literal["probs", "log_probs"] = "probs"
    """[1] Weights of Omega^P."""
    similarity: Literal["cosine", "knn"] = "cosine"
    """[2] Always with a zero diagonal."""
    neighbours: int = Field(10, ge=1)
    """Number of neighbours of `similarity="knn"`."""
    class_prior: Literal["uniform", "labels", "plan"] = "uniform"
    """Shares of the classes: equal, the frequencies of the given labels, or the mean posterior of
    the last plan, equal at first."""
    rest_threshold: float | None = Field(None, gt=0, le=1)
    """Rows that the plan leaves out take the network's own label where its probability is above
    this, as in SSR."""
    max_outer: int = Field(10, ge=1)
    inner_iterations: int | None = Field(None, ge=1)
    """[16] A fixed number of scaling iterations instead of Newton's to convergence."""
    row_constraint: Literal["auto", "inequality"] = "auto"
    """[16] Rows are an equality at a budget of one, or keep `min(., 1)` there too (code)."""
    tolerance: float = Field(1e-6, ge=0)
    weights: Literal["paper", "published"] = "paper"
    """[3] w = Q/(m prior), or N Q clipped to 1."""
    allocator: Literal["csot", "gmm"] = "csot"
    """`gmm` trusts labels of small loss instead (ablation f)."""

    # Losses.
    weighted_targets: bool = False
    """[4] The confidence w also weighs targets; else it only ranks."""
    corrupted: Literal["disagreeing", "not_clean"] = "disagreeing"
    """[7] Which rows are in D_corrupted."""
    targets: Literal["one_hot", "refined"] = "one_hot"
    """[10] Of L_mix and L_lab on clean rows."""
    refine_from: Literal["step", "epoch"] = "step"
    """Predictions for refining: of this step's weak views, or of the last relabelling (faster)."""
    temperature: float = Field(0.5, gt=0)
    """[10] Of the sharpening."""
    detach_weak: bool = True
    """[10] Whether gradients stop at the predictions that targets are blended with."""
    mixup_alpha: float = Field(4.0, gt=0)
    mixup_own_side: bool = False
    """[11] max(gamma, 1 - gamma)."""
    mixup_views: Literal[1, 2] = 1
    """[11] Weak views of each clean row that are mixed."""
    prior_penalty: float = Field(0.0, ge=0)
    """[12] Weight of KL(uniform, mean prediction) on the mixed rows."""
    simsiam_weight: float = Field(1.0, ge=0)
    """lambda_1."""
    simsiam_hidden: int = Field(128, ge=1)
    simsiam_norm: Literal["batch", "layer", "none"] = "batch"
    simsiam_in_semi: bool = False
    """[8] Whether SimSiam continues in stage two."""
    simsiam_views: Literal["weak_strong", "two_weak"] = "weak_strong"
    """[14]"""
    semi_weight: float = Field(1.0, ge=0)
    """lambda_2."""
    corrected_rows: Literal["all", "gated", "confident"] = "all"
    """[9] L_lab on corrupted rows: all; the selected ones whose weak view agrees at `cutoff`;
    or, with the network's own label in place of the plan's, where it is that sure (ablation i)."""
    cutoff: float = Field(0.95, gt=0, le=1)
    clean_loss: Literal["mix_lab", "cross_entropy"] = "mix_lab"
    """`cross_entropy` of clean rows in place of all of L_sup in stage one (ablation g)."""
    joint_pass: bool = True
    """All views of a step in one pass through the network, or a pass for each (code)."""

    @model_validator(mode="before")
    @classmethod
    def _fill_variant(cls, values: Any) -> Any:
        """Fill in the defaults of the variant."""
        if isinstance(values, dict):
            return {**VARIANTS.get(str(values.get("variant", "default")), {}), **values}
        return values

    @property
    def kappa(self) -> tuple[float, float]:
        """Weights of (Omega^P, Omega^L)."""
        first, second = self.prediction_coherence, self.label_coherence
        return (
            self.coherence if first is None else first,
            self.coherence if second is None else second,
        )
