"""LaTeX tables are compiled, where LaTeX is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from csot.figures import Comparison, read_measured, results_table, timing
from csot.figures.comparison.comparison import latex
from csot.figures.comparison.table_model import LAYOUTS, as_latex
from csot.figures.latex import escape, group_heads, notes_below
from figures.made_cells import write_cells

PREAMBLE = (
    r"\documentclass{article}\usepackage[landscape,margin=1cm]{geometry}\usepackage{booktabs}"
)
HOSTILE = r"50 % of a_b & c#1 {x} ~ $y \z < > ^ ±"

needs_latex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="LaTeX is not installed")


def compiled(folder: Path, tables: list[str]) -> str:
    """The log; a page for each table."""
    (folder / "all.tex").write_text(
        PREAMBLE
        + r"\begin{document}\noindent"
        + "\n\\clearpage\n".join(tables)
        + "\\end{document}",
        encoding="utf-8",
    )
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "all.tex"],
        cwd=folder, capture_output=True, encoding="utf-8", errors="replace", timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-1500:]
    return done.stdout


@needs_latex
def test_all_tables_compile(tmp_path: Path) -> None:
    places = write_cells(tmp_path, {"csot": 0.95, "cross_entropy": 0.8}, ["sym:0.5"], range(2))
    comparison = Comparison.read(places)
    drawing = timing([(20, 3)], repeats=1)
    assert drawing.texts is not None
    tables = [
        as_latex(results_table("main", read_measured([tmp_path]), with_paper=True)),
        *(as_latex(results_table(name, pd.DataFrame(), with_paper=True)) for name in LAYOUTS),
        latex(comparison.table(), comparison),
        drawing.texts["tex"],
        "\n".join([escape(HOSTILE), *notes_below([escape(HOSTILE), "2"])]),
    ]
    log = compiled(tmp_path, tables)
    assert f"({len(tables)} pages" in log
    assert "Missing character" not in log


def test_terms_of_the_paper_are_formulas() -> None:
    assert escape("(d) CSOT w/o Omega^P") == r"(d) CSOT w/o $\Omega^{\mathrm{P}}$"
    assert escape("GMM + L^sup, 5 %") == r"GMM + $\mathcal{L}^{\mathrm{sup}}$, 5 \%"
    assert escape("a^b") == r"a\textasciicircum{}b"


def test_rules_below_groups() -> None:
    names, rules = group_heads([("a_1", 2), ("", 1), ("b", 3)], 2)
    assert names.startswith(r"& & \multicolumn{2}{c}{a\_1} & ")
    assert rules == r"\cmidrule(lr){3-4} \cmidrule(lr){6-8}"
    assert notes_below([]) == []
