"""The house style: colours that colour-blind readers tell apart, on light and on dark pages.

Sizes are those of a two-column paper: text of 8 points stays readable at column width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from csot._core.errors import nearest

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

ThemeName = Literal["light", "dark"]
COLUMN, PAGE = 3.4, 7.0
"""Widths in inches: one column, and both."""
DOTS_PER_INCH = 200
DASHES = ("-", "--", "-.", ":")
"""Lines differ in colour and, beyond the first, in dashes: they can be told apart in print."""


@dataclass(frozen=True)
class Theme:
    """Colours of one theme."""

    name: ThemeName
    background: str
    text: str
    faint: str
    """Grid lines and what is not meant to be looked at."""
    series: tuple[str, ...]
    """Colours of lines and bars (Okabe and Ito)."""
    classes: tuple[str, ...]
    """Colours of classes (Paul Tol's muted scheme)."""
    ramp: tuple[str, ...]
    """Colours of matrices, from zero to the largest entry."""

    def rc(self) -> dict[Any, Any]:
        """Parameters of matplotlib."""
        return {
            "figure.facecolor": self.background,
            "savefig.facecolor": self.background,
            "axes.facecolor": self.background,
            "axes.edgecolor": self.text,
            "axes.labelcolor": self.text,
            "axes.titlecolor": self.text,
            "text.color": self.text,
            "xtick.color": self.text,
            "ytick.color": self.text,
            "grid.color": self.faint,
            "legend.frameon": False,
            "font.size": 8,
            "axes.titlesize": 8,
            "axes.labelsize": 8,
            "xtick.labelsize": 7,
            "ytick.labelsize": 7,
            "legend.fontsize": 7,
            "figure.titlesize": 9,
            "axes.linewidth": 0.6,
            "grid.linewidth": 0.5,
            "xtick.major.width": 0.6,
            "ytick.major.width": 0.6,
            "lines.linewidth": 1.3,
            "lines.markersize": 4,
            "font.family": ["DejaVu Sans"],
            "figure.dpi": DOTS_PER_INCH,
            "savefig.dpi": DOTS_PER_INCH,
            # The same figure is the same file.
            "svg.hashsalt": "csot",
        }

    def colour(self, number: int) -> str:
        """Colour of a line or bar."""
        return self.series[number % len(self.series)]

    def class_colour(self, number: int) -> str:
        """Colour of a class."""
        return self.classes[number % len(self.classes)]

    def colormap(self) -> LinearSegmentedColormap:
        """From the background to the strongest colour."""
        from matplotlib.colors import LinearSegmentedColormap

        return LinearSegmentedColormap.from_list("csot", [self.background, *self.ramp])


LIGHT = Theme(
    name="light",
    background="#ffffff",
    text="#1d2127",
    faint="#c9ced6",
    series=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a7a7a"),
    classes=(
        *("#cc6677", "#332288", "#c9b04c", "#117733", "#5fb4de"),
        *("#882255", "#44aa99", "#999933", "#aa4499", "#6e6e6e"),
    ),
    ramp=("#cfe3f2", "#6aaed6", "#2171b5", "#08306b"),
)
DARK = Theme(
    name="dark",
    background="#14171c",
    text="#e6e9ee",
    faint="#3c434e",
    series=("#5ab0ea", "#ff8b4d", "#2cc79d", "#e8a5cd", "#f3bd55", "#9adcff", "#a9b0ba"),
    classes=(
        *("#e58a99", "#8f86f0", "#e3d27a", "#4cb96f", "#88ccee"),
        *("#d36a9c", "#5fd0bd", "#c3c35e", "#d27ac3", "#b9bec6"),
    ),
    ramp=("#1d3247", "#2a659c", "#5ab0ea", "#e3f3ff"),
)
THEMES: dict[str, Theme] = {"light": LIGHT, "dark": DARK}


def find_theme(name: str) -> Theme:
    """The theme of that name."""
    if name not in THEMES:
        known = " or ".join(map(repr, THEMES))
        raise ValueError(f"`theme` must be {known}, got {name!r}{nearest(name, THEMES)}")
    return THEMES[name]


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches; text and axes arrange themselves."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def plain(axis: Axes, *, grid: bool = True) -> None:
    """Two spines, a faint grid behind the data."""
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_axisbelow(True)
    if grid:
        axis.grid(True)


def bare(axis: Axes) -> None:
    """No ticks: for planes whose units mean nothing, such as t-SNE's."""
    axis.set_xticks([])
    axis.set_yticks([])
    axis.spines[:].set_color("grey")


def whole_numbers(axis: Axes) -> None:
    """Ticks of epochs and iterations."""
    from matplotlib.ticker import MaxNLocator

    axis.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))


def matrix_panel(
    axis: Axes, cells: Any, theme: Theme, *, largest: float | None = None, aspect: str = "auto"
) -> Any:
    """A matrix from zero (the background) upwards; returns the image, for a colour bar."""
    top = float(cells.max()) if largest is None else largest
    return axis.imshow(
        cells,
        cmap=theme.colormap(),
        vmin=0,
        vmax=top or 1.0,
        aspect=aspect,  # type: ignore[arg-type]
        interpolation="nearest",
    )
