"""Build a network from a name, from a callable, or from a module of the user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn

from csot._core.errors import NetworkError
from csot.nets.backbones import build_backbone
from csot.nets.network import Adapted, Head, Network
from csot.nets.weights import load_weights


def build_network(
    name: str | nn.Module | Callable[..., nn.Module],
    *,
    shape: tuple[int, ...],
    num_classes: int,
    width: int | None = None,
    feature_dim: int | None = None,
    head: Head | None = None,
    weights: Path | str | None = None,
    seed: int = 0,
    **options: Any,
) -> nn.Module:
    """Build a network that maps inputs (B, *shape) to `Outputs`.

    Parameters
    ----------
    name : str, callable or nn.Module
        One of `NETWORKS`; or `"package.module:callable"` or a callable, which is called with
        `num_classes` and `shape`; or a module. See `Adapted` for what your own module may return.
    shape : tuple of int
        Shape of one input.
    num_classes : int
    width : int, optional
        Width of the backbone.
    feature_dim : int, optional
        Output size of the head; implies a linear head.
    head : {"linear", "none"}, optional
    weights : str or Path, optional
        Local file of parameters to load.
    seed : int
        Seed of the initial parameters; the global generator is left unchanged.
    **options
        Options of the backbone: `norm`, `hidden`, `final_norm` ...

    Returns
    -------
    nn.Module
    """
    if num_classes < 2:
        raise NetworkError(f"num_classes is {num_classes}: a classifier needs at least two")
    with seeded(seed):
        if isinstance(name, str) and ":" not in name:
            if head is None:
                head = "none" if feature_dim is None else "linear"
            backbone = build_backbone(name, shape, width, options)
            network: nn.Module = Network(backbone, num_classes, feature_dim, head)
        else:
            ours = {"width": width, "feature_dim": feature_dim, "head": head, **options}
            if given := [key for key, value in ours.items() if value is not None]:
                raise NetworkError(
                    f"{given[0]} is for the networks of csot: set it in your own network"
                )
            network = _adapted(name, shape, num_classes)
    if weights is not None:
        load_weights(network, Path(weights))
    return network


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global CPU generator inside the block; restore it afterwards.

    Layers draw their initial parameters from the global generator, and accept no other.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def _adapted(
    source: str | nn.Module | Callable[..., nn.Module], shape: tuple[int, ...], num_classes: int
) -> nn.Module:
    if isinstance(source, Network | Adapted):
        return source
    if isinstance(source, nn.Module):
        return Adapted(source, num_classes, shape)
    build = _import(source) if isinstance(source, str) else source
    module = build(num_classes=num_classes, shape=shape)
    if not isinstance(module, nn.Module):
        raise NetworkError(f"{source} returned a {type(module).__name__}, not a torch.nn.Module")
    return _adapted(module, shape, num_classes)


def _import(path: str) -> Callable[..., nn.Module]:
    """`"package.module:callable"` -> the callable."""
    module_name, _, attribute = path.partition(":")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        raise NetworkError(
            f"{path!r}: there is no module {error.name!r}; is it installed, or on PYTHONPATH?"
        ) from error
    found = getattr(module, attribute, None)
    if not callable(found):
        raise NetworkError(f"{path!r}: {module_name} has no callable {attribute!r}")
    result: Callable[..., nn.Module] = found
    return result
