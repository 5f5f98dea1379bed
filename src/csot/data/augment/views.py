"""The three views of a data set: plain, weak and strong.

    plain    the test transform: nothing random
    weak     a window at random, mirrored or not; for embeddings a little noise
    strong   such a window and a policy of AutoAugment or the like; for embeddings more noise,
             and features left out

See `csot.data.augment.view_types` for how random choices are separated from pixels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from csot._core.errors import DataError, listed, nearest
from csot.data.augment.autoaugment import CIFAR10, IMAGENET, AugMix, AutoAugment, RandAugment
from csot.data.augment.crop import CentreCrop, CropFlip, Cutout, Padding, ResizedCrop, WindowFlip
from csot.data.augment.pixels import Grey, Jitter
from csot.data.augment.view_types import Draws as Draws
from csot.data.augment.view_types import ImageView, Step, check_rows, integers, uniform
from csot.data.augment.view_types import View as View
from csot.data.augment.view_types import Views as Views

# The strong view of small grey images, such as 8x8 digits.
#
# A policy for photographs would destroy them: this one rotates, shears and scales a little by one
# bilinear warp, changes the contrast, cuts a small hole and adds noise. Dark is the background.


@dataclass(frozen=True)
class SmallWarp(Step):
    """Rotation, shear and scale about the middle, each drawn from a symmetric range."""

    degrees: float = 20.0
    shear: float = 0.1
    scale: float = 0.1

    def draw(self, count: int, generator: torch.Generator) -> dict[str, Tensor]:
        """(count, 2, 2) of the map from the new image to the old.

        Sines are taken here, for the whole batch: their last bit may depend on a batch's size.
        """
        angle = uniform(generator, count, low=-1, high=1) * math.radians(self.degrees)
        shear = uniform(generator, count, low=-self.shear, high=self.shear)
        size = 1 + uniform(generator, count, 2, low=-self.scale, high=self.scale)
        cos, sin = angle.cos(), angle.sin()
        matrix = torch.stack([cos, shear * cos - sin, sin, shear * sin + cos], 1).view(-1, 2, 2)
        return {"matrix": matrix / size[:, None, :]}

    def apply(self, images: Tensor, choices: dict[str, Tensor]) -> Tensor:
        matrix = choices["matrix"].to(images.device)[:, :, :, None, None]
        height, width = images.shape[2:]
        y = _centres(height, images.device)[:, None]
        x = _centres(width, images.device)[None, :]
        # Rounded after every product: a matrix product may add up in another order for a shard.
        grid = torch.stack([matrix[:, i, 0] * x + matrix[:, i, 1] * y for i in (0, 1)], -1)
        warped = grid_sample(images.float(), grid, mode="bilinear", align_corners=False)
        return warped.round_().to(images.dtype)


@dataclass(frozen=True)
class ContrastNoise(Step):
    """x -> factor x + noise, in grey levels, cut to 0 ... 255."""

    shape: tuple[int, int, int]
    contrast: float = 0.3
    noise: float = 10.0

    def draw(self, count: int, generator: torch.Generator) -> dict[str, Tensor]:
        return {
            "factor": 1 + uniform(generator, count, low=-self.contrast, high=self.contrast),
            "noise": torch.randn((count, *self.shape), generator=generator) * self.noise,
        }

    def apply(self, images: Tensor, choices: dict[str, Tensor]) -> Tensor:
        factor = choices["factor"].to(images.device).view(-1, 1, 1, 1)
        noisy = images.float() * factor + choices["noise"].to(images.device)
        return noisy.round_().clamp_(0, 255).to(images.dtype)


def _centres(size: int, device: torch.device) -> Tensor:
    """Where the pixels lie between -1 and 1, as grid_sample counts."""
    return (2 * torch.arange(size, device=device) + 1) / size - 1


# Views of embeddings: noise in proportion to each feature's spread, and features left out.


@dataclass(frozen=True)
class FeatureView(View):
    """x -> x + noise * scale * N(0, 1), each feature set to its `centre` at the rate `dropout`.

    What is kept is not enlarged: the spread of a feature stays what it is in the plain view. Of
    inputs with stored views (B, views, D) it takes one of the first `stored` at random.
    """

    scale: Tensor
    centre: Tensor
    noise: float = 0.0
    dropout: float = 0.0
    stored: int = 1

    def draw(self, count: int, generator: torch.Generator) -> Draws:
        values = {}
        size = (count, len(self.scale))
        if self.stored > 1:
            values["stored"] = integers(generator, count, self.stored)
        if self.noise:
            values["noise"] = torch.randn(size, generator=generator) * (self.noise * self.scale)
        if self.dropout:
            values["dropped"] = torch.rand(size, generator=generator) < self.dropout
        return Draws(values, count)

    def __call__(self, inputs: Tensor, draws: Draws) -> Tensor:
        check_rows(inputs, draws)
        if inputs.ndim == 3:
            chosen = draws.values.get("stored", torch.zeros(len(inputs), dtype=torch.int64))
            rows = torch.arange(len(inputs), device=inputs.device)
            inputs = inputs[rows, chosen.to(inputs.device)]
        outputs = inputs.float()
        if self.noise:
            outputs = outputs + draws.values["noise"].to(inputs.device)
        if self.dropout:
            dropped = draws.values["dropped"].to(inputs.device)
            outputs = torch.where(dropped, self.centre.to(inputs.device), outputs)
        return outputs


Policy: TypeAlias = Literal[
    "cifar10", "imagenet", "digits", "randaugment", "augmix", "simclr", "none"
]


def image_views(
    shape: tuple[int, int, int],
    mean: Sequence[float],
    std: Sequence[float],
    *,
    padding: int = 4,
    flip: bool = True,
    policy: Policy = "cifar10",
    crop: int | None = None,
    cutout: int = 0,
    padding_mode: Padding = "zero",
    crop_scale: float | None = None,
    strong_crop_scale: float | None = None,
    whole: bool = False,
) -> Views:
    """Views of uint8 images (B, ch, H, W) as float32 (x / 255 - mean) / std.

    Parameters
    ----------
    shape : tuple of int
        Channels, height and width.
    mean, std : sequence of float
        One number per channel.
    padding : int
        The weak view takes a window of the image's size out of the image with so many pixels
        around it.
    flip : bool
        Whether half of the windows are mirrored.
    policy : str
        What the strong view does beyond its window.
    crop : int, optional
        The weak view takes a window of `crop` x `crop` without padding, the plain view the one in
        the middle.
    cutout : int
        Side of the hole in the strong view, 0 for none.
    padding_mode : {"zero", "reflect"}
    crop_scale : float, optional
        The weak view takes a part of at least this share of the image's area, scaled to the size of
        the window (`RandomResizedCrop`), in place of a window.
    strong_crop_scale : float, optional
        The same for the strong view; by default as the weak view.
    whole : bool
        Images of unequal sizes, each in a canvas with its mask as a further channel
        (`ImageFiles(whole=True)`); `shape` is that of the square in the middle. Needs `crop`.

    Returns
    -------
    Views
    """
    _check(shape, mean, std, padding, crop, padding_mode)
    _check_scales(crop_scale, strong_crop_scale, crop, whole)
    height, width = (crop, crop) if crop else shape[1:]
    seen = (shape[0], height, width)

    def window(scale: float | None) -> Step:
        if scale is not None:
            return ResizedCrop(*seen, scale, flip)
        if whole:
            return WindowFlip(*seen, flip)
        return CropFlip(shape, height, width, 0 if crop else padding, flip, padding_mode)

    plain: dict[str, Step] = {"centre": CentreCrop(*seen)} if crop else {}
    weak: dict[str, Step] = {"crop": window(crop_scale)}
    strong_scale = crop_scale if strong_crop_scale is None else strong_crop_scale
    strong = {"crop": window(strong_scale), **_policy_steps(policy, seen)}
    if cutout:
        strong["cutout"] = Cutout(seen, cutout)
    return Views(*(ImageView(steps, mean, std) for steps in (plain, weak, strong)))


def feature_views(
    *,
    scale: Tensor | float,
    dim: int | None = None,
    weak_noise: float = 0.1,
    strong_noise: float = 0.3,
    strong_dropout: float = 0.2,
    centre: Tensor | float = 0.0,
    stored: int = 1,
) -> Views:
    """Views of embeddings (B, D). `scale` is the spread of each feature, (D,).

    A single `scale` serves all features; then `dim` says how many there are. A feature that is
    left out becomes `centre`, which should be its mean: one number or (D,). Where inputs hold
    several `stored` views (B, stored, D), weak and strong views start from a random one of them.
    """
    if not isinstance(scale, Tensor):
        if dim is None:
            raise DataError(f"scale is the number {scale}: say with `dim` for how many features")
        scale = torch.full((dim,), float(scale))
    scale = scale.detach().float().cpu()
    if scale.ndim != 1 or not bool(torch.isfinite(scale).all()) or bool((scale < 0).any()):
        raise DataError("scale must hold one finite number, not negative, for each feature")
    if min(weak_noise, strong_noise) < 0 or not 0 <= strong_dropout < 1:
        raise DataError(
            f"weak_noise {weak_noise} and strong_noise {strong_noise} must not be negative, and "
            f"strong_dropout {strong_dropout} must be at least 0 and below 1"
        )
    centre = torch.as_tensor(centre, dtype=torch.float32).detach().cpu()
    if centre.ndim and centre.shape != scale.shape:
        raise DataError(f"centre has shape {tuple(centre.shape)}, scale {tuple(scale.shape)}")
    return Views(
        FeatureView(scale, centre),
        FeatureView(scale, centre, weak_noise, stored=stored),
        FeatureView(scale, centre, strong_noise, strong_dropout, stored),
    )


def _policy_steps(policy: Policy, shape: tuple[int, int, int]) -> dict[str, Step]:
    if policy not in get_args(Policy):
        guess = nearest(policy, get_args(Policy))
        raise DataError(
            f"there is no policy {policy!r}{guess} (there are: {listed(get_args(Policy))})"
        )
    if policy == "none":
        return {}
    if policy == "digits":
        hole = Cutout(shape, max(1, min(shape[1:]) // 4), probability=0.25, fill=0)
        return {"warp": SmallWarp(), "hole": hole, "noise": ContrastNoise(shape)}
    if shape[0] not in (1, 3):
        raise DataError(
            f"the policy {policy!r} is for images of 1 or 3 channels, not {shape[0]}: use 'none'"
        )
    if policy == "randaugment":
        return {"policy": RandAugment(shape)}
    if policy == "augmix":
        return {"policy": AugMix(shape)}
    if policy == "simclr":
        return {"jitter": Jitter(), "grey": Grey()}
    return {"policy": AutoAugment(shape, CIFAR10 if policy == "cifar10" else IMAGENET)}


def _check_scales(
    crop_scale: float | None, strong_crop_scale: float | None, crop: int | None, whole: bool
) -> None:
    scales = {"crop_scale": crop_scale, "strong_crop_scale": strong_crop_scale}
    for name, scale in scales.items():
        if scale is not None and not 0 < scale <= 1:
            raise DataError(f"{name} is {scale}: it is a share of the image, above 0 and at most 1")
    if whole and crop is None:
        raise DataError("whole images have unequal sizes: say with `crop` how large a window is")


def _check(
    shape: tuple[int, int, int],
    mean: Sequence[float],
    std: Sequence[float],
    padding: int,
    crop: int | None,
    padding_mode: Padding,
) -> None:
    if len(shape) != 3:
        raise DataError(f"shape is {shape}: images are (channels, height, width)")
    if not len(mean) == len(std) == shape[0]:
        raise DataError(
            f"{len(mean)} means and {len(std)} deviations for images of {shape[0]} channels"
        )
    if min(std) <= 0:
        raise DataError(f"std is {list(std)}: every deviation must be above 0")
    if crop is not None and not 1 <= crop <= min(shape[1:]):
        raise DataError(f"crop is {crop}, but the images are {shape[1]} x {shape[2]}")
    if padding_mode not in get_args(Padding):
        raise DataError(f"padding_mode is {padding_mode!r}: use 'zero' or 'reflect'")
    if padding < 0 or (padding_mode == "reflect" and padding >= min(shape[1:])):
        raise DataError(f"padding is {padding}: it must be at least 0, and smaller than the image")
