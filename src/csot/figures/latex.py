"""What the LaTeX tables have in common: escaped text, rules below groups, notes below the table."""

from __future__ import annotations

import re
from collections.abc import Sequence

SPECIAL = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "±": r"$\pm$",
        **{mark: "\\" + mark for mark in "_%&#$"},
    }
)
TERM = re.compile(r"\b(Omega|L)\^(\w+)")
"""The names of the paper's terms: Omega^P, L^sup."""


def escape(text: str) -> str:
    """Text for LaTeX; the paper's terms as formulas."""
    found = []
    end = 0
    for term in TERM.finditer(text):
        base = r"\Omega" if term[1] == "Omega" else r"\mathcal{L}"
        found += [text[end : term.start()].translate(SPECIAL)]
        found += [rf"${base}^{{\mathrm{{{term[2].translate(SPECIAL)}}}}}$"]
        end = term.end()
    return "".join([*found, text[end:].translate(SPECIAL)])


def group_heads(groups: Sequence[tuple[str, int]], before: int) -> list[str]:
    """Two lines: names over groups of columns, after `before` columns, and rules below them."""
    cells = [rf"\multicolumn{{{count}}}{{c}}{{{escape(name)}}}" for name, count in groups]
    rules, first = [], before + 1
    for name, count in groups:
        if name:
            rules.append(rf"\cmidrule(lr){{{first}-{first + count - 1}}}")
        first += count
    return [rf"{'& ' * before}{' & '.join(cells)} \\", " ".join(rules)]


def notes_below(notes: Sequence[str]) -> list[str]:
    """Lines after the table, which wrap and do not widen its columns; `notes` are LaTeX."""
    if not notes:
        return []
    lines = (r"\\" + "\n").join(notes)
    return [r"\par\smallskip", rf"{{\footnotesize\raggedright {lines}\par}}"]
