"""New data for a trained run: read and prepared as its training data was."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from csot._core.errors import DataError, naming
from csot._core.pictures import fault
from csot.clean.saved_cleaner import without_missing
from csot.data import TableFeatures
from csot.data.readers.labelled_table import Columns
from csot.data.readers.read_data import read_data
from csot.data.readers.table_file import is_table
from csot.data.readers.to_predict import Inputs, Wanted, labels_of, read_inputs
from csot.data.readers.training import to_float32, warn_skipped
from csot.data.samples import InMemory
from csot.embed.embedder import confirmed_embedder
from csot.embed.images import NETWORKS, read_pixels
from csot.embed.preparation import Preparation, features_of, medium_of, plan_embedding
from csot.training.run_folder import INPUTS, InputFacts


@dataclass(frozen=True)
class RunInputs:
    """What a run takes, and how to make it of files and tables.

    Attributes
    ----------
    run : Path
        Folder of the run, for errors.
    wanted : Wanted
        Kind and shape of what its network takes, and its classes.
    prepared : Preparation or None
        How images or texts become features; None where the network takes the data as it is.
    columns : Columns
        Columns of the table that it was trained on.
    embedder : str or None
        As the user named it, for `confirmed_embedder`.
    """

    run: Path
    wanted: Wanted
    prepared: Preparation | None
    columns: Columns
    embedder: str | None = None

    @staticmethod
    def of(run: Path, facts: InputFacts, embedder: str | None = None) -> RunInputs:
        """Read inputs.yaml; an error names the file."""
        prepared = None
        with naming(run / INPUTS, "a description of the inputs", "train it again"):
            table = None if facts.table is None else TableFeatures.from_dict(facts.table)
            if facts.prepared is not None:
                prepared = Preparation.from_dict(facts.prepared)
                table = prepared.table
            columns = Columns(**(facts.columns or {}))
        wanted = Wanted(facts.kind, tuple(facts.shape), list(facts.class_names), table)
        return RunInputs(run, wanted, prepared, columns, embedder)

    @property
    def medium(self) -> str:
        """What it takes: "images", "texts", "columns" of a table or "arrays"."""
        if self.prepared is not None:
            return self.prepared.medium
        if self.wanted.kind == "images":
            return "images"
        return "arrays" if self.wanted.table_features is None else "columns"

    @property
    def pixels(self) -> int | None:
        """Side of the images of a run whose features are made by a network of csot, else None."""
        how = self.prepared
        if how is None or how.table is not None or how.embedder not in NETWORKS:
            return None
        return NETWORKS[how.embedder].side

    def read_pixels(self, data: str | Path, rows: int) -> Tensor:
        """uint8 (n, 3, side, side) of the first images, as the network of the features wants."""
        assert self.pixels is not None
        path = Path(data)
        found = read_data(path, self._columns(Columns(), path), labelled=False)
        assert found.images is not None
        images = [read_pixels(image, self.pixels) for image in found.images[:rows]]
        return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).contiguous()

    def describe(self) -> str:
        """What an exported network takes, for its model card."""
        wanted, how = self.wanted, self.prepared
        shape = ", ".join(map(str, wanted.shape))
        if self.pixels is not None:
            return (
                f"uint8 images (N, 3, {self.pixels}, {self.pixels}): the whole image scaled to "
                "that size (bicubic), RGB; normalisation is inside"
            )
        if how is not None:
            return f"float32 features (N, {shape}), made by csot of {how.medium} ({how.embedder})"
        if wanted.kind == "features":
            table = wanted.table_features
            made = f", made by csot of the columns {', '.join(table.names)}" if table else ""
            return f"float32 features (N, {shape}){made}"
        if wanted.shape[0] == 1:
            return f"uint8 images (N, {shape}) of one channel; normalisation is inside"
        return (
            f"uint8 images (N, {shape}): shorter side scaled, centre cut out, RGB; normalisation "
            "is inside"
        )

    def read(
        self,
        data: str | Path | pd.DataFrame,
        columns: Columns | None = None,
        root: Path | None = None,
        data_dir: Path | None = None,
        allow_outside: bool = False,
    ) -> Inputs:
        """A path, or the name of a data set for its test set; images and texts also as a table."""
        if self.prepared is None:
            assert not isinstance(data, pd.DataFrame)
            if is_table(Path(data)):
                columns = self._columns(columns or Columns(), Path(data))
            return read_inputs(
                data,
                self.wanted,
                columns=columns,
                root=root,
                data_dir=data_dir,
                allow_outside=allow_outside,
            )
        return self._embedded(self.prepared, data, columns or Columns(), root, allow_outside)

    def _embedded(
        self,
        how: Preparation,
        data: str | Path | pd.DataFrame,
        asked: Columns,
        root: Path | None,
        allow_outside: bool,
    ) -> Inputs:
        source = data if isinstance(data, pd.DataFrame) else Path(data)
        path = source if isinstance(source, Path) else None
        if path is not None and not path.exists():
            raise DataError(f"{path} does not exist; the run was trained on {how.medium}")
        columns = self._columns(asked, source)
        if medium_of(path, columns) != how.medium:
            raise DataError(
                f"{path or 'the table'} holds no {how.medium}, which {self.run} was trained on; "
                f"name their column with `{'image' if how.medium == 'images' else 'text'}`"
            )
        embedder = confirmed_embedder(self.run, how.embedder, self.embedder)
        # In a folder of its own: the run keeps the embeddings of its training data.
        with tempfile.TemporaryDirectory(prefix="csot-") as folder:
            planned = plan_embedding(path, Path(folder), columns, root, embedder)
            assert planned is not None
            if planned.embedder.name != how.embedder:
                raise DataError(f"`embedder` {embedder}: {self.run} used {how.embedder}")
            if planned.embedder.version != how.embedder_version:
                raise DataError(
                    f"the embedder {how.embedder} has changed since {self.run} was made (other "
                    "weights, preparation or code): train it again"
                )
            found = read_data(source, columns, root, fault, False, allow_outside, fitted=how.table)
            features, _ = features_of(found, planned, None, how)
        where = str(path or "the table")
        warn_skipped(where, found)
        samples = InMemory(to_float32(features, where))
        return Inputs(samples, found.ids, labels_of(found, self.wanted, Path(where)))

    def _columns(self, asked: Columns, source: Path | pd.DataFrame) -> Columns:
        """Fill in columns that were not named from the training data."""
        if isinstance(source, Path) and not is_table(source):
            return asked
        known = {role: getattr(self.columns, role) for role in ("label", "text", "image", "id")}
        if asked.text or asked.image:
            known["text"] = known["image"] = None
        chosen = replace(
            asked, **{role: getattr(asked, role) or name for role, name in known.items()}
        )
        return without_missing(chosen, asked, source)
