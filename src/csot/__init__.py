"""CSOT: find wrong labels, fix them, and train models that survive them."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from csot._core.threads import load_torch as _load_torch

if TYPE_CHECKING:
    from csot import curriculum
    from csot.allocation import Allocation as Allocation
    from csot.allocation import allocate as allocate
    from csot.audit import Audit as Audit
    from csot.audit import propose_audit as propose_audit
    from csot.clean import CleanRun as CleanRun
    from csot.clean import LabelCleaner as LabelCleaner
    from csot.clean import clean_dataset as clean_dataset
    from csot.clean import find_label_issues as find_label_issues
    from csot.clean.annotators import Consensus as Consensus
    from csot.clean.annotators import find_consensus as find_consensus
    from csot.embed import embed_images as embed_images
    from csot.embed import embed_texts as embed_texts
    from csot.loading import LoadedRun as LoadedRun
    from csot.loading import load as load
    from csot.ot import ConvergenceWarning as ConvergenceWarning
    from csot.ot import Plan as Plan
    from csot.ot import solve
    from csot.relabeller import Relabeller as Relabeller
    from csot.training import Trained as Trained
    from csot.training import train

__version__ = "0.1.0"

_HOMES = {
    "Allocation": "allocation",
    "Audit": "audit",
    "CleanRun": "clean",
    "Consensus": "clean.annotators",
    "ConvergenceWarning": "ot",
    "LabelCleaner": "clean",
    "LoadedRun": "loading",
    "Plan": "ot",
    "Relabeller": "relabeller",
    "Trained": "training",
    "allocate": "allocation",
    "clean_dataset": "clean",
    "embed_images": "embed",
    "embed_texts": "embed",
    "find_consensus": "clean.annotators",
    "find_label_issues": "clean",
    "load": "loading",
    "propose_audit": "audit",
    "solve": "ot",
    "train": "training",
}
"""Where each name lives; a name that is not here is a module of its own."""

__all__ = [
    "Allocation",
    "Audit",
    "CleanRun",
    "Consensus",
    "ConvergenceWarning",
    "LabelCleaner",
    "LoadedRun",
    "Plan",
    "Relabeller",
    "Trained",
    "allocate",
    "clean_dataset",
    "curriculum",
    "embed_images",
    "embed_texts",
    "find_consensus",
    "find_label_issues",
    "load",
    "propose_audit",
    "solve",
    "train",
]


def __getattr__(name: str) -> object:
    """Import a name on first access: `csot --help` should not wait for torch."""
    if name not in __all__:
        raise AttributeError(f"module 'csot' has no attribute {name!r}")
    if _HOMES.get(name) != "audit":
        _load_torch()
    home = _import_module(f"csot.{_HOMES.get(name, name)}")
    return getattr(home, name) if name in _HOMES else home


def __dir__() -> list[str]:
    return sorted(__all__)
