"""report.html: gather, draw, write."""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from csot._core.errors import clip
from csot._core.pictures import Containment, has_pillow
from csot._core.text import breakable
from csot.report import charts, confused_pairs, sections
from csot.report.coded_findings import encode
from csot.report.headline import headline
from csot.report.rows import TEXT_LIMIT, select_rows, show_rows, unbroken
from csot.report.sections import annotator_section, odd_data, odd_section
from csot.runs import Run, atomic_write
from csot.runs.oddities import find_oddities
from csot.runs.run import CORRECTED_TABLE, FINDINGS, LABEL_STUDIO
from csot.runs.source import clean_again
from csot.runs.summary import measured_accuracies

MAX_ROWS = 2000
LISTED = 200
"""Skipped files and rounds shown at most."""
LISTED_CLASSES = 1000
LISTED_PAIRS = 20_000
HISTOGRAM = (240, 96)


def write_report(
    run: Run, *, title: str | None = None, max_rows: int = MAX_ROWS, allow_outside: bool = False
) -> Path:
    """Write report.html into the run and return its path.

    The file needs nothing else: styles, script, data and thumbnails are inside. At most
    `max_rows` rows are embedded, the most suspicious ones; everything is counted over all rows.
    Pictures outside of the data folder are embedded only with `allow_outside`.
    """
    if max_rows < 1:
        raise ValueError(f"max_rows must be at least 1, got {max_rows}")
    findings, summary = run.read_findings(), run.read_summary()
    coded = encode(findings, list(summary["class_names"]))
    odd = find_oddities(run, findings.index, coded.given, coded.notes)
    rows = select_rows(coded, max_rows, odd)
    shown = show_rows(run, coded, findings, rows, Containment(run.image_root, allow_outside))
    found = confused_pairs.pairs(coded)
    classes = sections.class_rows(coded, found)
    worst = np.argsort([-row.wrong for row in classes], kind="stable")
    drawn = np.sort(worst[: charts.SHOWN_CLASSES])
    confused = confused_pairs.confusions(coded, summary, found, drawn)
    chart = charts.matrix_chart(confused, drawn, coded.names)
    listed = set(worst[:LISTED_CLASSES].tolist())
    data = {
        "classes": coded.names,
        "pairs": [[pair.given, pair.suggested, pair.count] for pair in found[:LISTED_PAIRS]],
        "matrix": {
            "classes": chart.classes,
            "values": chart.values,
            "cell": chart.cell,
            "kind": confused.kind,
        },
        "rows": shown.data,
        "odd": odd_data(odd, rows),
        "medium": shown.medium,
    }
    html = _environment().get_template("report.html")
    text = html.render(
        title=title or _title(summary) or run.path.resolve().name,
        head=headline(coded, summary),
        names=coded.names,
        classes=[row for row in classes if row.number in listed],
        annotators=annotator_section(run.read_annotators(), summary),
        confusions=found[:12],
        n_pairs=len(found),
        confused=confused,
        odd=odd_section(coded, odd),
        chart=chart,
        histograms=charts.histogram_charts(sections.histogram(coded), *HISTOGRAM),
        histogram_size=HISTOGRAM,
        shown=shown,
        n_shown=len(rows),
        has_pillow=has_pillow(),
        steps=_next_steps(run),
        facts=_facts(summary),
        history=[row for row in summary.get("history") or [] if isinstance(row, dict)][:LISTED],
        skipped=(summary.get("skipped") or [])[:LISTED],
        data=Markup(script_json(data)),  # escaped by script_json
        policy=_policy(),
    )
    with atomic_write(run.report_path) as file:
        file.write(text.encode("utf-8", "replace"))
    return run.report_path


def script_json(value: Any) -> str:
    """JSON that can stand inside a script element: no text in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _next_steps(run: Run) -> dict[str, Any]:
    """Paths and commands as they can be typed in the folder where the run was made."""
    files = [run.path / name for name in (CORRECTED_TABLE, FINDINGS, LABEL_STUDIO)]
    return {
        "files": [str(path) for path in files if path.exists()],
        "review": shlex.join(["csot", "review", str(run.path)]),
        "apply": shlex.join(["csot", "apply", str(run.path)]) if _can_apply(run) else "",
        "again": clean_again(run, run.path / "verified.csv"),
    }


def _can_apply(run: Run) -> bool:
    """Whether the run is one of `csot clean` on files with one label per row."""
    summary = run.read_summary()
    source = summary.get("source")
    on_files = isinstance(source, dict) and isinstance(source.get("path"), str)
    return on_files and "method" not in summary and "n_annotators" not in summary


def _facts(summary: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Tables of names and values for the end of the report."""
    groups = []
    measured = [(f"{one.test}, {one.when}", one.text()) for one in measured_accuracies(summary)]
    if measured:
        groups.append(("Test accuracy", measured))
    for key, caption in (
        ("source", "Data"),
        ("settings", "Settings"),
        ("versions", "Versions"),
        ("timings", "Seconds"),
    ):
        found = summary.get(key)
        if isinstance(found, dict) and found:
            told = [(name, _value(value)) for name, value in found.items() if value is not None]
            groups.append((caption, told))
    return groups


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return clip(text, TEXT_LIMIT)


def _title(summary: Mapping[str, Any]) -> str:
    source = summary.get("source")
    path = source.get("path") if isinstance(source, dict) else None
    return Path(path).name if isinstance(path, str) else ""


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("csot.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["count"] = lambda value: f"{value:,.0f}"
    environment.filters["amount"] = lambda value: f"{value:,.{0 if value >= 9.95 else 1}f}"
    environment.filters["percent"] = lambda value: f"{value * 100:.1f} %"
    environment.filters["value"] = _value
    environment.filters["breakable"] = breakable
    environment.filters["unbroken"] = unbroken
    environment.globals["source"] = lambda name: Markup(_source(name))
    return environment


def _source(name: str) -> str:
    """A style sheet or script of ours, word for word."""
    loader = PackageLoader("csot.report")
    return loader.get_source(Environment(autoescape=True), name)[0]


@cache
def _policy() -> str:
    """The browser itself keeps the page off the network and runs our script only."""
    digest = hashlib.sha256(_source("report.js").encode("utf-8")).digest()
    script = f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
    return (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {script}; "
        "base-uri 'none'; form-action 'none'"
    )
