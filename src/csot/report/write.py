"""report.html: gather, draw, write."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from csot._core.pictures import Containment
from csot.report import charts, numbers
from csot.report.annotators import annotator_section
from csot.report.coded import Coded, Ints, encode
from csot.report.numbers import select_rows
from csot.report.thumbnails import has_pillow, thumbnails
from csot.runs import Run, atomic_write

MAX_ROWS = 2000
TEXT_LIMIT = 400
ID_LIMIT = 300
IMAGE_BUDGET = 5_000_000
TEXT_BUDGET = 600_000
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
    ``max_rows`` rows are embedded, the most suspicious ones; everything is counted over all rows.
    Pictures outside of the data folder are embedded only with ``allow_outside``.
    """
    if max_rows < 1:
        raise ValueError(f"max_rows must be at least 1, got {max_rows}")
    findings, summary = run.read_findings(), run.read_summary()
    coded = encode(findings, list(summary["class_names"]))
    rows = select_rows(coded, max_rows)
    samples = run.read_samples()
    confusions = numbers.pairs(coded)
    classes = numbers.class_rows(coded, confusions)
    worst = np.argsort([-row.wrong for row in classes], kind="stable")
    drawn = np.sort(worst[: charts.SHOWN_CLASSES])
    matrix, estimated = numbers.noise_matrix(coded, summary, drawn)
    chart = charts.matrix_chart(matrix, drawn, coded.names)
    listed = set(worst[:LISTED_CLASSES].tolist())
    allowed = Containment(run.image_root, allow_outside)
    shown = _row_data(coded, findings, rows, samples, allowed)
    data = {
        "classes": coded.names,
        "pairs": [[pair.given, pair.suggested, pair.count] for pair in confusions[:LISTED_PAIRS]],
        "matrix": {"classes": chart.classes, "values": chart.values, "cell": chart.cell},
        "rows": shown,
    }
    html = _environment().get_template("report.html")
    text = html.render(
        title=title or _title(summary) or run.path.resolve().name,
        head=numbers.headline(coded, summary),
        names=coded.names,
        classes=[row for row in classes if row.number in listed],
        annotators=annotator_section(run.read_annotators(), summary),
        confusions=confusions[:12],
        n_pairs=len(confusions),
        chart=chart,
        estimated=estimated,
        histograms=charts.histogram_charts(numbers.histogram(coded), *HISTOGRAM),
        histogram_size=HISTOGRAM,
        n_shown=len(rows),
        medium=_medium(shown),
        images_missing=_images_missing(samples, rows, shown),
        has_pillow=has_pillow(),
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


def _row_data(
    coded: Coded,
    findings: pd.DataFrame,
    rows: Ints,
    samples: pd.DataFrame | None,
    allowed: Containment,
) -> dict[str, Any]:
    """Columns of the rows shown. Scores and confidences are whole thousandths."""
    used = dict.fromkeys(["", *(coded.notes[row] for row in rows)])
    notes = {note: i for i, note in enumerate(used)}
    ids = findings.index[rows]
    data: dict[str, Any] = {
        "id": [_clip(str(value), ID_LIMIT) for value in ids],
        "given": coded.given[rows].tolist(),
        "predicted": coded.predicted[rows].tolist(),
        "corrected": coded.corrected[rows].tolist(),
        "issue": coded.issue[rows].astype(int).tolist(),
        "score": np.rint(np.nan_to_num(coded.score[rows], nan=-1) * 1000).astype(int).tolist(),
        "confidence": np.rint(coded.confidence[rows] * 1000).astype(int).tolist(),
        "status": coded.status[rows].tolist(),
        "note": [notes[coded.notes[row]] for row in rows],
        "notes": [_clip(note, TEXT_LIMIT) for note in notes],
        "reason": [_clip(_unbroken(coded.reasons[row]), TEXT_LIMIT) for row in rows],
        "text": [],
        "image": [],
    }
    if samples is None:
        return data
    if "text" in samples:
        limit = max(min(TEXT_LIMIT, TEXT_BUDGET // max(len(rows), 1)), 40)
        texts = samples["text"].reindex(ids).fillna("").tolist()
        data["text"] = [_clip(text, limit) for text in texts]
    if "image" in samples:
        names = samples["image"].reindex(ids).fillna("").tolist()
        data["image"] = thumbnails(names, allowed, IMAGE_BUDGET)
    return data


def _medium(shown: Mapping[str, Any]) -> str:
    return "image" if any(shown["image"]) else "text" if any(shown["text"]) else "row"


def _images_missing(samples: pd.DataFrame | None, rows: Ints, shown: Mapping[str, Any]) -> int:
    """Rows shown without the image that they have."""
    if samples is None or "image" not in samples:
        return 0
    return len(rows) - sum(1 for url in shown["image"] if url)


def _facts(summary: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Tables of names and values for the end of the report."""
    groups = []
    for key, caption in (
        ("source", "Data"),
        ("settings", "Settings"),
        ("versions", "Versions"),
        ("timings", "Seconds"),
    ):
        found = summary.get(key)
        if isinstance(found, dict) and found:
            groups.append((caption, [(name, _value(value)) for name, value in found.items()]))
    return groups


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _clip(text, TEXT_LIMIT)


def _title(summary: Mapping[str, Any]) -> str:
    source = summary.get("source")
    path = source.get("path") if isinstance(source, dict) else None
    return Path(path).name if isinstance(path, str) else ""


def _unbroken(text: str) -> str:
    """A number and its per cent sign stay on one line."""
    return text.replace(" %", "\u00a0%")


def _clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


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
    environment.filters["unbroken"] = _unbroken
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
