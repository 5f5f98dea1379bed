"""Views: rows are independent, chance comes from the generator alone, Pillow is the oracle."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from csot._core.errors import DataError
from csot.data.augment import pixels as view_ops
from csot.data.augment.autoaugment import (
    CIFAR10,
    CODES,
    FIXMATCH,
    GEOMETRIC,
    IMAGENET,
    POOL,
    AugMix,
    AutoAugment,
    RandAugment,
    matrices,
)
from csot.data.augment.crop import CropFlip, ResizedCrop, WindowFlip
from csot.data.augment.pixels import OPERATIONS as COLOURS
from csot.data.augment.pixels import Grey, Jitter
from csot.data.augment.view_types import Draws, View
from csot.data.augment.views import Views, feature_views, image_views

MEAN, STD = (0.49, 0.48, 0.45), (0.2, 0.21, 0.22)
COUNT = 96


def photographs(count: int = COUNT, side: int = 32, channels: int = 3, seed: int = 0) -> Tensor:
    """Smooth images with noise, and some odd ones: of one colour, of two, of few levels."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand((count, channels, 6, 6), generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, size=(side, side), mode="bilinear")
    noise = torch.randn(smooth.shape, generator=generator)
    images = (smooth * 255 + 6 * noise).clamp(0, 255).to(torch.uint8)
    images[0] = 77
    images[1] = images[1] // 128 * 255
    images[2] = images[2] // 16 + 100
    return images


def canvases() -> Tensor:
    """Images of 32 pixels one way, 32 to 64 the other, in canvases of 64 with a mask."""
    images = torch.zeros((COUNT, 4, 64, 64), dtype=torch.uint8)
    images[:, :3] = photographs(side=64)
    for row, image in enumerate(images):
        half = 16 + row % 17
        middle, long = slice(16, 48), slice(32 - half, 32 + half)
        down, right = (middle, long) if row % 2 else (long, middle)
        image[3, down, right] = 255
        image[:3, image[3] == 0] = 0
    return images


def every_view() -> dict[str, tuple[View, Tensor]]:
    photos, grey = photographs(), photographs(side=8, channels=1)
    vectors = torch.randn((COUNT, 24), generator=torch.Generator().manual_seed(0))
    sets: dict[str, tuple[Views, Tensor]] = {
        "digits": (
            image_views((1, 8, 8), (0.3,), (0.4,), padding=1, flip=False, policy="digits"),
            grey,
        ),
        "crop": (image_views((3, 32, 32), MEAN, STD, policy="none", crop=28, cutout=9), photos),
        "reflect": (
            image_views((3, 32, 32), MEAN, STD, policy="none", padding_mode="reflect"),
            photos,
        ),
        "resized": (
            image_views((3, 32, 32), MEAN, STD, policy="simclr", crop=24, crop_scale=0.2),
            photos,
        ),
        "whole": (
            image_views((3, 32, 32), MEAN, STD, policy="augmix", crop=28, whole=True),
            canvases(),
        ),
        "features": (feature_views(scale=vectors.std(0)), vectors),
        "grey": (image_views((1, 8, 8), (0.3,), (0.4,), policy="cifar10"), grey),
    }
    for policy in ("cifar10", "imagenet", "randaugment", "augmix", "simclr"):
        views = image_views((3, 32, 32), MEAN, STD, policy=policy, cutout=8)  # type: ignore[arg-type]
        sets[policy] = (views, photos)
    return {
        f"{name}-{kind}": (getattr(views, kind), inputs)
        for name, (views, inputs) in sets.items()
        for kind in ("plain", "weak", "strong")
    }


EVERY = every_view()


@pytest.fixture(params=EVERY, name="case")
def _case(request: pytest.FixtureRequest) -> tuple[View, Tensor]:
    return EVERY[request.param]


def drawn(view: View, count: int, seed: int = 0) -> Draws:
    return view.draw(count, torch.Generator().manual_seed(seed))


def test_a_shard_sees_what_the_whole_batch_sees(case: tuple[View, Tensor]) -> None:
    view, inputs = case
    draws = drawn(view, len(inputs))
    whole = view(inputs, draws)
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(1))
    for positions in (order, order[:7], order[:1], torch.arange(0, len(inputs), 2), order[:0]):
        assert torch.equal(view(inputs[positions], draws[positions]), whole[positions])
    mask = torch.arange(len(inputs)) % 3 == 0
    assert torch.equal(view(inputs[mask], draws[mask]), whole[mask])
    assert torch.equal(view(inputs[5:9], draws[5:9]), whole[5:9])


def test_only_the_passed_generator_is_used(case: tuple[View, Tensor]) -> None:
    view, inputs = case
    before, given = torch.get_rng_state(), inputs.clone()
    first = view(inputs, drawn(view, len(inputs)))
    again = view(inputs, drawn(view, len(inputs)))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(first, again)
    assert torch.equal(inputs, given)


def test_what_a_view_returns(case: tuple[View, Tensor]) -> None:
    view, inputs = case
    outputs = view(inputs, drawn(view, len(inputs)))
    assert outputs.dtype == torch.float32
    assert len(outputs) == len(inputs)
    assert outputs.isfinite().all()


@pytest.mark.parametrize("name", [name for name in EVERY if not name.endswith("plain")])
def test_chance_differs_with_the_seed_and_between_samples(name: str) -> None:
    view, inputs = EVERY[name]
    same = inputs[5:6].expand(len(inputs), *inputs.shape[1:])
    outputs = view(same, drawn(view, len(inputs)))
    assert not torch.equal(outputs, view(same, drawn(view, len(inputs), seed=1)))
    assert len({tuple(row.flatten().tolist()) for row in outputs}) >= 9


def test_plain_is_the_normalised_image() -> None:
    images = photographs()
    view = image_views((3, 32, 32), MEAN, STD).plain
    expected = images.double() / 255
    expected = (expected - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    assert torch.allclose(view(images, drawn(view, COUNT)), expected.float(), atol=1e-5)


@pytest.mark.parametrize(
    ("crop", "padding", "mode"),
    [(None, 4, "zero"), (None, 3, "reflect"), (None, 0, "zero"), (25, 0, "zero")],
)
def test_weak_is_a_window_mirrored_or_not(crop: int | None, padding: int, mode: Any) -> None:
    images = photographs()
    size = crop or 32
    step = CropFlip((3, 32, 32), size, size, padding, flip=True, mode=mode)
    choices = step.draw(COUNT, torch.Generator().manual_seed(0))
    outputs = step.apply(images, choices).numpy()
    around = ((0, 0), (padding, padding), (padding, padding))
    for i in range(COUNT):
        padded = np.pad(images[i].numpy(), around, mode="constant" if mode == "zero" else mode)
        top, left = int(choices["top"][i]), int(choices["left"][i])
        expected = padded[:, top : top + size, left : left + size]
        if choices["flip"][i]:
            expected = expected[:, :, ::-1]
        assert (outputs[i] == expected).all()
    assert 0.3 < choices["flip"].float().mean() < 0.7
    room = 32 + 2 * padding - size
    assert set(choices["top"].tolist()) <= set(range(room + 1))
    assert int(choices["left"].max()) == room


def test_the_plain_view_of_a_larger_image_is_its_middle() -> None:
    images = photographs(4, side=40)
    view = image_views((3, 40, 40), (0.0,) * 3, (1.0,) * 3, crop=32).plain
    assert torch.allclose(view(images, drawn(view, 4)) * 255, images[:, :, 4:36, 4:36].float())


def boxes_of_torchvision(choices: dict[str, Tensor], row: int, high: int, wide: int) -> list[int]:
    """The rule of `RandomResizedCrop`, attempt by attempt."""
    for attempt in range(10):
        area, ratio, down, right = (
            choices[key][row, attempt].item() for key in ("area", "ratio", "down", "right")
        )
        w = round(math.sqrt(area * high * wide * ratio))
        h = round(math.sqrt(area * high * wide / ratio))
        if 0 < w <= wide and 0 < h <= high:
            return [int(down * (high - h + 1)), int(right * (wide - w + 1)), h, w]
    w, h = wide, high
    if wide / high < 3 / 4:
        h = round(wide / (3 / 4))
    elif wide / high > 4 / 3:
        w = round(high * (4 / 3))
    return [(high - h) // 2, (wide - w) // 2, h, w]


@pytest.mark.parametrize(("high", "wide", "low"), [(32, 32, 0.08), (20, 48, 0.9), (50, 30, 0.2)])
def test_resized_crops_equal_pillow(high: int, wide: int, low: float) -> None:
    """Enlarged and shrunk, with the fallback for images that are too long; one level of 255."""
    images = photographs(side=50)[:, :, :high, :wide]
    step = ResizedCrop(3, 24, 20, low, flip=True)
    choices = step.draw(COUNT, torch.Generator().manual_seed(0))
    ours = step.apply(images, choices)
    found = []
    for row in range(COUNT):
        top, left, h, w = boxes_of_torchvision(choices, row, high, wide)
        found.append((h, w))
        image = Image.fromarray(images[row].permute(1, 2, 0).numpy())
        part = image.crop((left, top, left + w, top + h)).resize(
            (20, 24), Image.Resampling.BILINEAR
        )
        if choices["flip"][row]:
            part = ImageOps.mirror(part)
        expected = torch.from_numpy(np.array(part)).permute(2, 0, 1)
        assert int((ours[row].int() - expected.int()).abs().max()) <= 1
    assert len(set(found)) > 5 or (high, wide) == (20, 48)


def test_windows_of_whole_images_stay_inside_and_reach_both_ends() -> None:
    images = canvases()
    for step in (WindowFlip(3, 28, 28), ResizedCrop(3, 28, 28, 0.3)):
        choices = step.draw(COUNT, torch.Generator().manual_seed(0))
        seen = step.apply(images[:, [3, 3, 3, 3]], choices)
        assert seen.shape == (COUNT, 3, 28, 28)
        assert bool((seen == 255).all())
    step = WindowFlip(3, 28, 28)
    place = torch.arange(64, dtype=torch.uint8).expand(COUNT, 1, 64, 64)
    lefts = step.apply(
        torch.cat([place, place, place, images[:, 3:]], 1),
        choices={"down": torch.rand(COUNT), "right": torch.linspace(0, 0.999, COUNT)},
    )[:, 0, 0, 0]
    wide = images[:, 3].bool().any(1).sum(1)
    assert int(lefts[0]) == 32 - 16  # the first image is 32 wide: its window starts at its left
    assert int(lefts[-1]) == 32 + int(wide[-1]) // 2 - 28


def test_the_plain_view_of_a_whole_image_is_the_middle_of_its_square() -> None:
    images = canvases()
    views = image_views((3, 32, 32), (0.0,) * 3, (1.0,) * 3, crop=28, whole=True)
    square = images[:, :3, 16:48, 16:48]
    for given in (images, square):  # test sets are squares
        seen = views.plain(given, drawn(views.plain, COUNT)) * 255
        assert torch.allclose(seen, square[:, :, 2:30, 2:30].float(), atol=1e-3)


def test_hue_and_grey_equal_pillow() -> None:
    images = photographs()
    turns = torch.linspace(-0.5, 0.5, COUNT)

    def turned(image: Image.Image, row: int) -> Image.Image:
        hue, saturation, value = image.convert("HSV").split()
        shifted = (np.array(hue).astype(int) + int(turns[row].item() * 255)) % 256
        hue = Image.fromarray(shifted.astype(np.uint8))
        return Image.merge("HSV", (hue, saturation, value)).convert("RGB")

    ours = view_ops.shift_hue(images, turns).int()
    assert int((ours - by_pillow(images, turned).int()).abs().max()) <= 1
    grey = Grey(1.0)
    found = grey.apply(images, grey.draw(COUNT, torch.Generator()))
    assert torch.equal(found, by_pillow(images, lambda image, _: image.convert("L").convert("RGB")))
    one_channel = images[:, :1]
    assert torch.equal(view_ops.shift_hue(one_channel, turns), one_channel)


def test_jitter_is_four_operations_in_each_images_own_order() -> None:
    images = photographs()
    step = Jitter()
    choices = step.draw(COUNT, torch.Generator().manual_seed(0))
    ours = step.apply(images, choices)
    operations = [*COLOURS.values()]
    for row in range(COUNT):
        expected = images[row : row + 1]
        if choices["made"][row]:
            for number in choices["order"][row].tolist():
                expected = operations[number](expected, choices["value"][row, number : number + 1])
        assert torch.equal(ours[row], expected[0])
    drawn_values = step.draw(20_000, torch.Generator().manual_seed(0))
    assert drawn_values["made"].float().mean() == pytest.approx(0.8, abs=0.01)
    low, high = drawn_values["value"].amin(0), drawn_values["value"].amax(0)
    assert low.tolist() == pytest.approx([0.6, 0.6, 0.6, -0.1], abs=1e-3)
    assert high.tolist() == pytest.approx([1.4, 1.4, 1.4, 0.1], abs=1e-3)
    firsts = drawn_values["order"][:, 0].bincount() / 20_000
    assert firsts.tolist() == pytest.approx([0.25] * 4, abs=0.02)


def test_augmix_is_a_mixture_of_chains() -> None:
    images = photographs()
    step = AugMix((3, 32, 32), severity=3.0)
    choices = step.draw(COUNT, torch.Generator().manual_seed(0))
    ours = step.apply(images, choices)
    names = {code: name for name, code in CODES.items()}
    for row in range(COUNT):
        mixture = np.zeros((3, 32, 32))
        for chain in range(3):
            one = images[row : row + 1]
            for turn in range(3 * chain, 3 * chain + 3):
                name = names[int(choices["code"][row, turn])]
                value = choices["value"][row, turn : turn + 1]
                if name in GEOMETRIC:
                    one = view_ops.warp(one, choices["matrix"][row, turn : turn + 1])
                elif name != "identity":
                    one = view_ops.POINTWISE[name](one, value)
            mixture += choices["weight"][row, chain].item() * one[0].double().numpy()
        m = choices["mix"][row].item()
        expected = (1 - m) * images[row].double().numpy() + m * mixture
        assert np.abs(ours[row].double().numpy() - expected).max() <= 0.51


def test_augmix_draws_what_it_should() -> None:
    step = AugMix((3, 32, 32), severity=1.0)
    choices = step.draw(20_000, torch.Generator().manual_seed(0))
    code, value = choices["code"], choices["value"]
    assert torch.allclose(choices["weight"].sum(1), torch.ones(20_000))
    # Of Dirichlet(1, 1, 1) each weight has mean 1/3 and variance 1/18.
    assert choices["weight"].var(0).tolist() == pytest.approx([1 / 18] * 3, rel=0.05)
    assert choices["mix"].mean() == pytest.approx(0.5, abs=0.01)
    depths = (code.view(-1, 3) > 0).sum(1).bincount() / (3 * 20_000)
    assert depths.tolist() == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3], abs=0.01)
    # Each operation has its share of two operations per chain on average.
    share = (code == CODES["posterize"]).float().mean()
    assert share == pytest.approx(2 / 3 / len(POOL), abs=0.005)
    assert _values(code, value, "posterize") == [4]
    assert _values(code, value, "rotate") == [-2, -1, 0, 1, 2]
    assert _values(code, value, "translate_x") == pytest.approx([-1 / 32, 0, 1 / 32])
    factors = _values(code, value, "color")
    assert (factors[0], factors[-1]) == pytest.approx((0.118, 0.28), abs=0.001)
    assert min(_values(code, value, "solarize")) == 256 - 25


def test_cutout_makes_one_hole() -> None:
    images = torch.zeros((COUNT, 3, 32, 32), dtype=torch.uint8)
    view = image_views((3, 32, 32), (0.0,) * 3, (1.0,) * 3, policy="none", cutout=8).strong
    holes = (view(images, drawn(view, COUNT)) * 255).round()
    assert set(holes.unique().tolist()) == {0.0, 128.0}
    sizes = (holes[:, 0] > 0).sum((1, 2))
    assert int(sizes.max()) == 64  # less where the hole reaches over the edge
    assert int(sizes.min()) >= 16


def test_small_warp_keeps_a_digit_in_place() -> None:
    """Strong, but still the same digit: most of the mass stays near where it was."""
    images = torch.zeros((COUNT, 1, 8, 8), dtype=torch.uint8)
    images[:, :, 1:7, 3:5] = 200
    view = image_views((1, 8, 8), (0.0,), (1.0,), padding=0, flip=False, policy="digits").strong
    outputs = view(images, drawn(view, COUNT)).mean(0)[0]
    assert outputs[1:7, 3:5].mean() > 0.5
    assert outputs[:, [0, 7]].mean() < 0.1


def by_pillow(images: Tensor, change: Callable[[Image.Image, int], Image.Image]) -> Tensor:
    arrays = [
        np.array(change(Image.fromarray(image.permute(1, 2, 0).numpy()), row))
        for row, image in enumerate(images)
    ]
    return torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2)


FACTORS = torch.linspace(0.1, 1.9, COUNT)
BITS = torch.arange(COUNT) % 5 + 4.0
THRESHOLDS = torch.linspace(0, 256, COUNT)
PILLOW: dict[str, tuple[Callable[[Image.Image, int], Image.Image], Tensor, int]] = {
    "auto_contrast": (lambda image, _: ImageOps.autocontrast(image), FACTORS, 1),
    "equalize": (lambda image, _: ImageOps.equalize(image), FACTORS, 0),
    "invert": (lambda image, _: ImageOps.invert(image), FACTORS, 0),
    "solarize": (lambda image, i: ImageOps.solarize(image, THRESHOLDS[i].item()), THRESHOLDS, 0),
    "posterize": (lambda image, i: ImageOps.posterize(image, int(BITS[i])), BITS, 0),
    "brightness": (
        lambda image, i: ImageEnhance.Brightness(image).enhance(FACTORS[i].item()),
        FACTORS,
        0,
    ),
    "contrast": (
        lambda image, i: ImageEnhance.Contrast(image).enhance(FACTORS[i].item()),
        FACTORS,
        0,
    ),
    "color": (lambda image, i: ImageEnhance.Color(image).enhance(FACTORS[i].item()), FACTORS, 0),
    "sharpness": (
        lambda image, i: ImageEnhance.Sharpness(image).enhance(FACTORS[i].item()),
        FACTORS,
        0,
    ),
}
"""Pillow's operation, its numbers, and by how many of 255 levels ours may differ."""


@pytest.mark.parametrize("name", PILLOW)
def test_operations_equal_pillow(name: str) -> None:
    change, values, tolerance = PILLOW[name]
    images = photographs()
    ours = view_ops.POINTWISE[name](images, values)
    assert ours.dtype == torch.uint8
    differences = (ours.int() - by_pillow(images, change).int()).abs()
    assert int(differences.max()) <= tolerance


def test_every_operation_has_an_oracle() -> None:
    assert set(PILLOW) == set(view_ops.POINTWISE)


@pytest.mark.parametrize("name", GEOMETRIC)
def test_geometry_equals_pillow(name: str) -> None:
    """Pillow rotates in fixed point: a few pixels on a border between two may differ."""
    images = photographs()
    amounts = torch.linspace(-1, 1, COUNT) * (30 if name == "rotate" else 0.3)

    def change(image: Image.Image, row: int) -> Image.Image:
        v = amounts[row].item()
        if name == "rotate":
            return image.rotate(v, fillcolor=(128,) * 3)
        data = {
            "shear_x": (1, v, 0, 0, 1, 0),
            "shear_y": (1, 0, 0, v, 1, 0),
            "translate_x": (1, 0, v * 32, 0, 1, 0),
            "translate_y": (1, 0, 0, 0, 1, v * 32),
        }[name]
        return image.transform((32, 32), Image.Transform.AFFINE, data, fillcolor=(128,) * 3)

    code = torch.full((COUNT, 1), CODES[name])
    ours = view_ops.warp(images, matrices(code, amounts[:, None], (3, 32, 32))[:, 0])
    assert (ours != by_pillow(images, change)).float().mean() < 0.002


def test_tiny_images_are_not_sharpened() -> None:
    images = photographs(4, side=2)
    assert torch.equal(view_ops.sharpness(images, torch.full((4,), 1.9)), images)


def test_tables_are_the_published_ones() -> None:
    theirs = pytest.importorskip("kornia.augmentation.auto.autoaugment.autoaugment")
    for ours, published in ((CIFAR10, theirs.cifar10_policy), (IMAGENET, theirs.imagenet_policy)):
        assert len(ours) == 25
        assert [[(n, p, m or 0) for n, p, m in pair] for pair in published] == [
            list(pair) for pair in ours
        ]


def test_autoaugment_draws_what_the_table_says() -> None:
    policy = AutoAugment((3, 32, 32), CIFAR10)
    code, value = policy.choose(40_000, torch.Generator().manual_seed(0))
    for name, turn in (("equalize", 0), ("color", 1), ("translate_y", 0), ("invert", 1)):
        share = sum(pair[turn][1] for pair in CIFAR10 if pair[turn][0] == name) / len(CIFAR10)
        assert (code[:, turn] == CODES[name]).float().mean() == pytest.approx(share, abs=0.01)
    assert _values(code, value, "rotate") == pytest.approx([-30 * 2 / 9, 30 * 2 / 9])
    assert _values(code, value, "posterize") == [5]
    assert _values(code, value, "translate_y")[-1] == pytest.approx(150 / 331)
    factors = _values(code, value, "brightness")
    assert factors == pytest.approx([0.1, 0.3, 0.4, 0.7, 1.3, 1.6, 1.7, 1.9])
    assert _values(code, value, "solarize") == pytest.approx(
        [256 * k / 9 for k in (1, 4, 6, 7)], rel=1e-5
    )


def test_randaugment_draws_what_fixmatch_has() -> None:
    code, value = RandAugment((3, 32, 32)).choose(40_000, torch.Generator().manual_seed(0))
    share = (code == CODES["color"]).float().mean()
    assert share == pytest.approx(0.5 / len(FIXMATCH), abs=0.005)
    assert _values(code, value, "brightness") == pytest.approx(
        [0.05 + 0.09 * level for level in range(1, 10)]
    )
    assert _values(code, value, "posterize") == [4, 5, 6, 7]
    assert _values(code, value, "rotate") == [-27 + 3 * k for k in range(19) if k != 9]
    assert "invert" not in FIXMATCH
    assert not (code == CODES["invert"]).any()


def _values(code: Tensor, value: Tensor, name: str) -> list[float]:
    found: list[float] = value[code == CODES[name]].unique().tolist()
    return found


def test_features_are_disturbed_in_proportion_to_their_spread() -> None:
    scale = torch.tensor([1.0, 10.0, 0.0])
    inputs = torch.full((20_000, 3), 5.0)
    views = feature_views(scale=scale, weak_noise=0.1, strong_noise=0.5, strong_dropout=0.25)
    assert torch.equal(views.plain(inputs, drawn(views.plain, len(inputs))), inputs)
    weak = views.weak(inputs, drawn(views.weak, len(inputs)))
    assert torch.allclose(weak.std(0), 0.1 * scale, rtol=0.03)
    strong = views.strong(inputs, drawn(views.strong, len(inputs)))
    assert (strong == 0).float().mean() == pytest.approx(0.25, abs=0.01)
    kept = strong[:, 1][strong[:, 1] != 0]
    assert kept.std().item() == pytest.approx(5.0, rel=0.03)


def test_a_feature_left_out_becomes_its_centre() -> None:
    centre = torch.tensor([-1.0, 4.0])
    views = feature_views(scale=1.0, dim=2, strong_noise=0.0, strong_dropout=0.5, centre=centre)
    outputs = views.strong(torch.full((99, 2), 9.0), drawn(views.strong, 99))
    assert outputs[:, 0].unique().tolist() == [-1.0, 9.0]
    assert outputs[:, 1].unique().tolist() == [4.0, 9.0]


def test_one_scale_for_all_features() -> None:
    views = feature_views(scale=2.0, dim=5, weak_noise=1.0)
    outputs = views.weak(torch.zeros(9_000, 5), drawn(views.weak, 9_000))
    assert outputs.std().item() == pytest.approx(2.0, rel=0.03)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"policy": "cifar"}, "did you mean 'cifar10'"),
        ({"shape": (32, 32)}, "channels, height, width"),
        ({"mean": (0.5,)}, "1 means and 3 deviations"),
        ({"std": (0.5, 0.5, 0.0)}, "above 0"),
        ({"crop": 33}, "32 x 32"),
        ({"crop_scale": 0.0}, "crop_scale is 0.0: it is a share"),
        ({"strong_crop_scale": 1.5}, "strong_crop_scale is 1.5"),
        ({"whole": True}, "say with `crop`"),
        ({"padding": -1}, "at least 0"),
        ({"padding": 32, "padding_mode": "reflect"}, "smaller than the image"),
        ({"padding_mode": "mirror"}, "'zero' or 'reflect'"),
        ({"shape": (4, 32, 32), "mean": (0,) * 4, "std": (1,) * 4}, "1 or 3 channels"),
    ],
)
def test_wrong_image_views_say_what_is_wrong(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"shape": (3, 32, 32), "mean": MEAN, "std": STD, **change}
    with pytest.raises(DataError, match=message):
        image_views(given.pop("shape"), given.pop("mean"), given.pop("std"), **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"scale": 1.0}, "`dim`"),
        ({"scale": torch.tensor([1.0, math.nan])}, "finite"),
        ({"scale": torch.ones(2, 2)}, "one finite number"),
        ({"scale": torch.ones(2), "strong_dropout": 1.0}, "below 1"),
        ({"scale": torch.ones(2), "weak_noise": -0.1}, "negative"),
        ({"scale": torch.ones(2), "centre": torch.ones(3)}, "centre has shape"),
    ],
)
def test_wrong_feature_views_say_what_is_wrong(given: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        feature_views(**given)


def test_choices_for_another_number_of_samples_are_refused() -> None:
    view, images = EVERY["cifar10-strong"]
    with pytest.raises(ValueError, match="96 samples, but choices for 95"):
        view(images, drawn(view, 95))


def test_stored_views_are_chosen_at_random() -> None:
    """The plain view is the first one; the others start from any of them."""
    stored = torch.arange(3.0)[None, :, None].expand(200, 3, 4)
    views = feature_views(scale=1.0, dim=4, weak_noise=0.0, strong_noise=0.0, stored=3)
    generator = torch.Generator().manual_seed(0)
    plain = views.plain(stored, views.plain.draw(200, generator))
    assert torch.equal(plain, torch.zeros(200, 4))
    weak = views.weak(stored, views.weak.draw(200, generator))
    assert (weak == weak[:, :1]).all()
    assert weak[:, 0].long().bincount().min() > 40
    # Inputs with one view, such as test rows, are taken as they are.
    single = torch.ones(5, 4)
    assert torch.equal(views.plain(single, views.plain.draw(5, generator)), single)
