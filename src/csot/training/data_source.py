"""Where the data of a run is, how it is read, and what is known about its labels."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from csot._core.errors import DataError
from csot._core.text import canonical_noise
from csot.data.datasets.core.dataset_registry import data_path, read_training_data
from csot.data.readers.labelled_table import Columns
from csot.data.readers.verified import FilesLike, as_paths
from csot.data.types import TrainingData
from csot.methods import find_method
from csot.runs import Run
from csot.runs.run import FINDINGS
from csot.training.config import RunConfig
from csot.training.embedded_data import Place, read_pending
from csot.training.finetune import is_pretrained, wanted_inputs
from csot.training.label_knowledge import CleanedRun, with_consensus, with_verified
from csot.training.run_folder import CONFIG

NOISE_FILES = ("file", "matrix")
"""Kinds of noise that are read from a file."""


@dataclass(frozen=True)
class Source:
    """Where to read the data from, if a name or path alone does not say it.

    Parameters
    ----------
    data_dir : Path, optional
        Folder of the named data sets; by default `./data`.
    test : Path, optional
        Test data of the same kind as the training data.
    columns : Columns, optional
        Columns of a table.
    root : Path, optional
        Folder that image paths of a table are relative to; by default the folder of the table.
    download : bool
        Download a public data set that is missing.
    allow_outside : bool
        Read images that lie outside of the data folder.
    cache : Path, optional
        Folder that embeddings, and scaled copies of images, are kept in for several runs; by
        default the run keeps its embeddings, and images are decoded every time.
    verified : path or sequence of paths, optional
        CSV files with the columns id and label: decisions that are final. Several are merged.
    from_clean : Path, optional
        A run of `csot.clean_dataset` on the same data: training starts from what it says about
        each label, and from its embeddings.
    """

    data_dir: Path | None = None
    test: Path | None = None
    columns: Columns | None = None
    root: Path | None = None
    download: bool = False
    allow_outside: bool = False
    cache: Path | None = None
    verified: FilesLike | None = None
    from_clean: Path | None = None

    def place(self, path: Path, out: Path) -> Place:
        """Where to read images or texts that are embedded."""
        return Place(
            path,
            out,
            self.columns or Columns(),
            root=self.root,
            test=self.test,
            allow_outside=self.allow_outside,
            cache=self.cache,
            known=self.from_clean,
        )


def read_source(config: RunConfig, source: Source) -> TrainingData:
    """Read the data that a configuration names, as its network wants it."""
    name, size = config.training.network.name, config.dataset.image_size
    wanted = wanted_inputs(name) if is_pretrained(name) else None
    if wanted is not None and data_path(config.data) is not None:
        size = size or wanted.side
    data = read_training_data(
        config.data,
        data_dir=source.data_dir,
        test=source.test,
        columns=source.columns,
        root=source.root,
        image_size=size,
        download=source.download,
        allow_outside=source.allow_outside,
        limit=config.dataset.limit,
        whole=config.dataset.whole,
        cache=source.cache,
    )
    if wanted is None or data.train.kind != "images":
        return data
    return replace(data, mean=wanted.mean, std=wanted.std)


def check_knowledge(config: RunConfig, source: Source, data: TrainingData | None = None) -> None:
    """Raise before any work is done if what is known about the labels cannot be used."""
    votes = (source.columns or Columns()).annotator is not None
    posterior = votes or (
        data is not None and (data.votes is not None or data.posterior is not None)
    )
    if canonical_noise(config.noise) != "none" and (posterior or source.from_clean is not None):
        named = "`from_clean`" if source.from_clean is not None else "`annotator`"
        raise DataError(
            f"noise {config.noise} and {named}: what is known about the labels before the noise "
            "would be trained on; leave out one of the two"
        )
    for path in as_paths(source.verified):
        if not path.exists():
            raise DataError(f"{path} does not exist (`verified`)")
    if source.from_clean is not None:
        Run.open(source.from_clean)
        if (source.from_clean / CONFIG).exists():
            raise DataError(
                f"`from_clean` {source.from_clean} is a training run: give a run of csot clean"
            )
        if not find_method(config.method).uses_posterior:
            raise DataError(
                f"`from_clean` {source.from_clean}: {config.method} cannot start from "
                "probabilities; leave it out, or train by csot"
            )


def record_knowledge(config: RunConfig, source: Source) -> RunConfig:
    """The configuration with what identifies the source, so that `resume` notices another one."""
    kind, _, noise_file = config.noise.strip().partition(":")
    files = {
        "verified": as_paths(source.verified),
        "from_clean": () if source.from_clean is None else (source.from_clean / FINDINGS,),
        "noise_file": (Path(noise_file),) if kind in NOISE_FILES else (),
    }
    columns = asdict(source.columns or Columns())
    found: dict[str, Any] = {
        "columns": {role: _plain(name) for role, name in columns.items() if name is not None}
        or None,
        "test": None if source.test is None else str(source.test),
        "root": None if source.root is None else str(source.root),
    }
    for name, paths in files.items():
        # What is missing is reported by its reader.
        contents = [path.read_bytes() for path in paths if path.is_file()]
        found[name] = _digest(contents) if contents else None
    return _with_facts(config, found)


def record_content(config: RunConfig, data: TrainingData) -> RunConfig:
    """The configuration with a digest of ids, labels and class names, before noise."""
    tests = {test.name: test.labels.tolist() for test in data.tests}
    votes = None if data.votes is None else data.votes.astype(str).to_numpy().tolist()
    values = [data.class_names, data.ids, data.labels.tolist(), tests, votes]
    digest = hashlib.sha256(json.dumps(values).encode()).hexdigest()
    return _with_facts(config, {"content": digest})


def read_outline(config: RunConfig, source: Source, out: Path) -> TrainingData:
    """The data that a configuration names; where it is to be embedded, without features."""
    if config.dataset.embedder is None:
        return read_source(config, source)
    place = source.place(Path(config.data), out)
    return read_pending(place, config.dataset, config.machine.devices).outline()


def check_knowledge_fits(data: TrainingData, source: Source) -> None:
    """Raise if verified labels or the run of a cleaner do not fit the data; features are not used.

    Warnings are left to `with_knowledge`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if as_paths(source.verified):
            with_verified(data, as_paths(source.verified))
        if source.from_clean is not None:
            CleanedRun.read(source.from_clean, data)


def with_knowledge(data: TrainingData, source: Source) -> tuple[TrainingData, CleanedRun | None]:
    """Add what is known about the labels: verified ones, a consensus, the run of a cleaner."""
    if as_paths(source.verified):
        data = with_verified(data, as_paths(source.verified))
    if source.from_clean is None:
        return with_consensus(data), None
    cleaned = CleanedRun.read(source.from_clean, data)
    return replace(data, posterior=cleaned.posterior), cleaned


def _with_facts(config: RunConfig, found: dict[str, Any]) -> RunConfig:
    return config.model_copy(update={"dataset": config.dataset.model_copy(update=found)})


def _digest(contents: Sequence[bytes]) -> str:
    """SHA-256 of one content, or of the digests of several."""
    digests = [hashlib.sha256(content).digest() for content in contents]
    return digests[0].hex() if len(digests) == 1 else hashlib.sha256(b"".join(digests)).hexdigest()


def _plain(name: str | Sequence[str]) -> str | list[str]:
    return name if isinstance(name, str) else list(name)
