"""One training step of PreAct ResNet-18 against the published step; what relabelling costs.

    python benchmarks/train_step.py [--batch 128] [--repeats 3] [--json FILE]

The published step (methods of the authors' code, written here from its description): for 128 clean
rows two weak views through the network, each in a pass of its own and through the predictor, for
refined targets; a pass over the 256 mixed rows; a pass over the strong views; for 128 corrupted
rows a pass for the weak and one for the strong views; one backward pass, through the weak clean
view as well, whose prediction is not detached. Its augmentation (Pillow, image by image, in other
processes) is left out of its time; ours is part of our time.

Its network is the plain one: ours computes its rectifiers in place.

Ours is `csot.methods.csot` with variant "published" and `refine_from="epoch"`: the same losses,
targets refined with the predictions of the last relabelling, so that no pass is run whose gradient
is thrown away. `joint_pass` (one pass for all views) suits a GPU; a CPU prefers smaller passes.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from csot.data.augment.views import image_views
from csot.methods.core.contract import Context, Part, Predictions
from csot.methods.csot import CLEAN, CORRUPTED, Csot
from csot.methods.parts.csot_settings import CsotSettings
from csot.methods.parts.relabel import relabel
from csot.nets.build import build_network
from csot.nets.network import SimSiamPredictor

CLASSES, ROWS = 10, 50000
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


def published_step(network: nn.Module, predictor: nn.Module, x: dict[str, Tensor]) -> Tensor:
    labels, trust = x["labels"], x["trust"][:, None]
    first, second = network(x["weak"]), network(x["weak_2"])
    predictor(first.features), predictor(second.features)
    with torch.no_grad():
        mean = (first.logits.softmax(1) + second.logits.softmax(1)) / 2
        blend = trust * F.one_hot(labels, CLASSES) + (1 - trust) * mean
        target = blend**2 / (blend**2).sum(1, keepdim=True)
    inputs, targets = torch.cat([x["weak"], x["weak_2"]]), torch.cat([target, target])
    keep, order = 0.6, torch.randperm(len(inputs))
    mixed = network(keep * inputs + (1 - keep) * inputs[order]).logits
    mixed_target = keep * targets + (1 - keep) * targets[order]
    loss = -(mixed.log_softmax(1) * mixed_target).sum(1).mean()
    loss = loss - (mixed.softmax(1).mean(0) * CLASSES).log().mean()
    strong = network(x["strong"]).logits
    blended = trust * target + (1 - trust) * first.logits.softmax(1)
    loss = loss - (strong.log_softmax(1) * blended).sum(1).mean()
    weak, other = network(x["corrupted_weak"]), network(x["corrupted_strong"])
    pairs = (weak.features, other.features), (other.features, weak.features)
    for own, target_features in pairs:
        loss = loss - F.cosine_similarity(predictor(own), target_features.detach()).mean() / 2
    sure = weak.logits.softmax(1).gather(1, x["plan"][:, None])[:, 0] >= 0.95
    each = F.cross_entropy(other.logits, x["plan"], reduction="none")
    return loss + (sure * each).mean()


def timed(step: Callable[[], object], repeats: int) -> list[float]:
    step()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return seconds


@contextmanager
def plain_rectifiers() -> Iterator[None]:
    """As in the published network, not in place."""
    in_place = Tensor.relu_
    Tensor.relu_ = Tensor.relu  # type: ignore[method-assign]
    try:
        yield
    finally:
        Tensor.relu_ = in_place  # type: ignore[method-assign]


def published_seconds(batch: int, repeats: int) -> list[float]:
    network = build_network(
        "preact_resnet18", shape=(3, 32, 32), num_classes=CLASSES, feature_dim=512
    )
    predictor = SimSiamPredictor(512, 128)
    parameters = [*network.parameters(), *predictor.parameters()]
    optimiser = torch.optim.SGD(parameters, lr=0.02, momentum=0.9, weight_decay=5e-4)
    names = ("weak", "weak_2", "strong", "corrupted_weak", "corrupted_strong")
    x = {name: torch.randn(batch, 3, 32, 32) for name in names}
    x |= {"labels": torch.randint(CLASSES, (batch,)), "plan": torch.randint(CLASSES, (batch,))}
    x["trust"] = torch.rand(batch)

    def step() -> None:
        loss = published_step(network, predictor, x)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    with plain_rectifiers():
        return timed(step, repeats)


def our_seconds(batch: int, repeats: int, **options: object) -> list[float]:
    def make(number: int) -> nn.Module:
        network = build_network(
            "preact_resnet18", shape=(3, 32, 32), num_classes=CLASSES, feature_dim=512, seed=number
        )
        for parameter in network.parameters():
            if parameter.ndim == 4:
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
        return network

    def unused(network: nn.Module, rows: Tensor) -> Predictions:
        raise AssertionError("a step looks at its own rows only")

    context = Context(
        labels=torch.randint(CLASSES, (4 * batch,)),
        rows=torch.arange(4 * batch),
        num_classes=CLASSES,
        epochs=450,
        batch_size=batch,
        views=image_views((3, 32, 32), MEAN, STD),
        make_network=make,
        predict=unused,
    )
    settings = CsotSettings(variant="published", **options)  # type: ignore[arg-type]
    method = Csot(context, settings)
    method.semi.fill_(True)
    method.selected.fill_(True)
    optimiser = torch.optim.SGD(method.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
    images = torch.randint(256, (2 * batch, 3, 32, 32), dtype=torch.uint8)

    def part(rows: Tensor) -> Part:
        return Part(rows, images[rows], context.labels[rows], context.ranks, len(rows))

    batches = {
        CLEAN: part(torch.arange(batch)),
        CORRUPTED: part(torch.arange(batch, 2 * batch)),
    }

    def step() -> None:
        loss = torch.stack(list(method(batches).values())).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return timed(step, repeats)


def relabel_seconds(repeats: int) -> dict[str, list[float]]:
    """50,000 rows with 512 features: batches of 1024, and all rows as one problem."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(CLASSES, (ROWS,), generator=generator)
    centres = torch.randn(CLASSES, 512, generator=generator)
    features = centres[labels] + 3 * torch.randn(ROWS, 512, generator=generator)
    logits = features @ centres.T / 100
    noisy = torch.where(
        torch.rand(ROWS, generator=generator) < 0.5,
        torch.randint(CLASSES, (ROWS,), generator=generator),
        labels,
    )
    predictions = Predictions(logits, features)
    found = {}
    for name, size in (("batches of 1024", 1024), ("one problem", 0)):
        settings = CsotSettings(variant="paper", relabel_batch=size)
        found[name] = timed(
            lambda settings=settings: relabel(predictions, noisy, 0.5, settings, generator), repeats
        )
    return found


def forward_seconds(repeats: int) -> float:
    """Of 1024 images in evaluation mode: the look at the data before relabelling."""
    network = build_network(
        "preact_resnet18", shape=(3, 32, 32), num_classes=CLASSES, feature_dim=512
    ).eval()
    images = torch.randn(1024, 3, 32, 32)
    with torch.no_grad():
        return min(timed(lambda: network(images), repeats))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.machine()}")
    published = published_seconds(args.batch, args.repeats)
    fast = our_seconds(args.batch, args.repeats, refine_from="epoch")
    joint = our_seconds(args.batch, args.repeats, joint_pass=True, refine_from="epoch")
    exact = our_seconds(args.batch, args.repeats)
    rows = {
        "published step": published,
        "ours": fast,
        "ours, one pass for all views": joint,
        "ours, exactly as published": exact,
    }
    base = statistics.median(published)
    for name, seconds in rows.items():
        spread = f"{min(seconds):.2f} to {max(seconds):.2f}"
        ratio = statistics.median(seconds) / base
        print(f"{name:28s} {statistics.median(seconds):7.2f} s ({spread})  ratio {ratio:.2f}")
    epoch = ROWS // args.batch * statistics.median(fast)
    print(f"an epoch of {ROWS // args.batch} such steps: {epoch:,.0f} s (extrapolated)")
    relabelled = relabel_seconds(args.repeats)
    for name, seconds in relabelled.items():
        middle = statistics.median(seconds)
        print(
            f"relabelling {ROWS:,} rows, {name}: {middle:.2f} s, {middle / epoch:.3%} of an epoch"
        )
    look = forward_seconds(args.repeats) * ROWS / 1024
    print(f"with the look at the data before it: {(look + middle) / epoch:.2%} of an epoch")
    if args.json:
        result = {"seconds": rows, "relabel": relabelled, "look": look, "epoch": epoch}
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
