"""A figure and the numbers behind it: drawn in light and dark, saved as PNG, SVG and CSV."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pandas as pd

from csot._core.files import atomic_write, write_text
from csot._core.text import one_line
from csot.figures.style import Theme, ThemeName, find_theme
from csot.runs.tables import write_csv

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "svg")

Tables: TypeAlias = Mapping[str, pd.DataFrame]
"""What a figure shows, by the name of each table."""
Painter: TypeAlias = Callable[[Tables, Theme], "Figure"]
"""Draws the tables, and nothing that is not in them."""


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure that is not drawn yet.

    Attributes
    ----------
    name : str
        Name of the files.
    tables : mapping of DataFrame
        The numbers that are drawn, and nothing else: the figure can be drawn again from them.
    paint : callable
        Draws the tables in a theme.
    texts : mapping of str
        Further files, by the ending of their name: a LaTeX table beside the figure.
    """

    name: str
    tables: Tables
    paint: Painter
    texts: Mapping[str, str] | None = None

    @property
    def data(self) -> pd.DataFrame:
        """The first table, which most figures have alone."""
        return next(iter(self.tables.values()))

    def draw(self, theme: ThemeName = "light") -> Figure:
        """The figure of matplotlib, to be changed or embedded."""
        from matplotlib import rc_context

        found = find_theme(theme)
        shown = {name: _drawable(table) for name, table in self.tables.items()}
        with rc_context(found.rc()):
            return self.paint(shown, found)

    def save(
        self,
        out: str | Path,
        *,
        themes: Sequence[ThemeName] = ("light", "dark"),
        formats: Sequence[str] = FORMATS,
    ) -> list[Path]:
        """Write NAME.png, NAME.svg, NAME-dark.png, NAME-dark.svg and NAME.csv; returns the paths.

        Parameters
        ----------
        out : str or Path
            Folder, which is made.
        themes : sequence of "light" and "dark"
        formats : sequence of "png", "svg" and what else matplotlib writes
        """
        folder = Path(out)
        folder.mkdir(parents=True, exist_ok=True)
        written = []
        for theme in themes:
            written += self._write_pictures(folder, theme, formats)
        for part, table in self.tables.items():
            # One table has the name of the figure, several have their own as well.
            ending = f"-{part}" if len(self.tables) > 1 else ""
            written.append(folder / f"{self.name}{ending}.csv")
            write_csv(written[-1], table)
        for ending, text in (self.texts or {}).items():
            written.append(folder / f"{self.name}.{ending}")
            write_text(written[-1], text)
        return written

    def _write_pictures(self, folder: Path, theme: ThemeName, formats: Sequence[str]) -> list[Path]:
        from matplotlib import rc_context

        figure = self.draw(theme)
        written = []
        with rc_context(find_theme(theme).rc()), warnings.catch_warnings():
            # A name in a script that the font lacks is drawn as boxes; the CSV has it as it is.
            warnings.filterwarnings("ignore", r"Glyph .* missing from (current )?font")
            for kind in formats:
                written.append(folder / f"{self.name}{'-dark' if theme == 'dark' else ''}.{kind}")
                # Without a date the same numbers give the same file.
                metadata = {"Date": None} if kind == "svg" else {}
                with atomic_write(written[-1]) as file:
                    figure.savefig(file, format=kind, metadata=metadata)
                # Arranging text and axes takes most of the time, and once is enough.
                figure.set_layout_engine("none")
        return written


def _drawable(table: pd.DataFrame) -> pd.DataFrame:
    """Put names on one line and escape dollars, which would begin a formula."""
    found = table.copy()
    for name in found:
        if found[name].dtype == object or pd.api.types.is_string_dtype(found[name].dtype):
            cells = [
                one_line(cell).replace("$", r"\$") if isinstance(cell, str) else cell
                for cell in found[name]
            ]
            found[name] = pd.Series(cells, index=found.index, dtype=object)
    return found
