"""What the report counts, shows and escapes."""

from __future__ import annotations

import base64
import io
import json
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import csot.report.write as writer
from csot._core.pictures import Containment
from csot.report import charts, sections, write_report
from csot.report import confused_pairs as confusions
from csot.report import rows as report_rows
from csot.report.coded_findings import Coded, encode
from csot.report.confused_pairs import ConfusedPair, ConfusionSummary
from csot.report.headline import headline
from csot.report.rows import Thumbnails, select_rows, suspicion_order, thumbnail, thumbnails
from csot.runs import Run
from report.sample_runs import rows_run, texts_run, write_run

EVIL = '</script><img src=x onerror="window.hacked=1">'
STYLE = Path(writer.__file__).parent / "templates" / "style.css"


class Page(HTMLParser):
    """Every element with its attributes, the text of scripts, and all visible text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.inside = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self.inside = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == self.inside:
            self.inside = ""

    def handle_data(self, data: str) -> None:
        (self.scripts if self.inside == "script" else self.words).append(data)

    @property
    def data(self) -> Any:
        return json.loads(self.scripts[0])

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def small() -> tuple[Coded, dict[str, Any]]:
    """Six rows of three classes; the last has no label."""
    findings = pd.DataFrame(
        {
            "given_label": ["a", "a", "b", "b", "c", None],
            "predicted_label": ["a", "b", "b", "a", "b", "c"],
            "corrected_label": ["a", "b", "b", "a", "c", "c"],
            "is_label_issue": [False, True, False, True, True, False],
            "label_score": [0.9, 0.1, 0.8, 0.2, 0.3, np.nan],
            "confidence": [0.9, 0.9, 0.8, 0.8, 0.3, 1.0],
            "status": ["clean", "corrected", "clean", "corrected", "uncertain", "corrected"],
            "note": ["", "", "", "", "no class fits", "no label given"],
            "reason": ["", "Looks like b (90 %), not a (10 %).", "", "", "", ""],
        }
    )
    return encode(findings, ["a", "b", "c", "d"]), {"class_names": ["a", "b", "c", "d"]}


def test_the_headline_by_hand() -> None:
    coded, summary = small()
    head = headline(coded, summary)
    assert (head.rows, head.labelled, head.issues, head.unlabelled) == (6, 5, 3, 1)
    assert (head.right, head.replaced, head.kept, head.uncertain) == (2, 2, 1, 1)
    assert sum(number for _, _, number in head.parts) == head.rows
    assert head.expected == pytest.approx(0.1 + 0.9 + 0.2 + 0.8 + 0.7)
    variance = 2 * 0.09 + 2 * 0.16 + 0.21
    assert head.spread == pytest.approx(2 * variance**0.5)
    assert head.noise.rate == pytest.approx(2.7 / 5)
    assert head.informative
    assert headline(coded, {**summary, "noise_rate": 0.25}).noise.rate == 0.25
    said = {"noise_rate": 0.25, "warning": "Too weak.", "informative": False}
    told = headline(coded, {**summary, **said})
    assert (told.warning, told.informative) == ("Too weak.", False)


@pytest.mark.parametrize("informative", [True, False])
def test_the_warning_and_the_reasons_are_in_the_page(tmp_path: Path, informative: bool) -> None:
    known = {"noise_rate_interval": [0.02, 0.33], "noise_rate": 0.12, "informative": informative}
    run = write_run(
        tmp_path / "run",
        np.arange(40) % 2,
        ["cat", "dog"],
        np.random.default_rng(0),
        extra={**known, "warning": "The prediction differs from <20> labels."},
    )
    found = run.read_findings()
    found["reason"] = "Looks like dog (97 %), not cat (1 %)."
    run.write_findings(found)
    page = write_report(run).read_text(encoding="utf-8")
    assert page.count("The prediction differs from &lt;20&gt; labels.") == 1
    assert ("between 2\u00a0% and 33\u00a0%" in page) == informative
    assert "do not predict the labels beyond chance" not in page, "the warning says it already"
    assert "Looks like dog (97\u00a0%), not cat (1\u00a0%)." in page
    run.write_summary({**run.read_summary(), "warning": ""})
    page = write_report(run).read_text(encoding="utf-8")
    assert ("do not predict the labels beyond chance" in page) != informative


def test_pairs_classes_and_histogram_by_hand() -> None:
    coded, _ = small()
    found = confusions.pairs(coded)
    assert {(pair.given, pair.suggested, pair.count) for pair in found} == {
        (0, 1, 1),
        (1, 0, 1),
        (2, 1, 1),  # kept for want of evidence; the model prefers b
    }
    rows = sections.class_rows(coded, found)
    assert [(row.name, row.count) for row in rows] == [("a", 2), ("b", 2), ("c", 1), ("d", 0)]
    assert rows[0].wrong == pytest.approx(1.0)
    assert rows[0].confusion == "b"
    assert rows[3].confusion is None
    assert rows[3].share == 0
    counts = sections.histogram(coded, bins=2)
    assert counts == {"clean": [0, 2], "corrected": [0, 3], "uncertain": [1, 0]}


def test_the_noise_matrix_is_the_runs_or_counted() -> None:
    coded, summary = small()
    every = np.arange(4)
    counted, estimated = confusions.noise_matrix(coded, summary, every)
    assert not estimated
    np.testing.assert_allclose(counted[0], [0.5, 0.5, 0, 0])  # truly a: one given a, one given b
    part, _ = confusions.noise_matrix(coded, summary, np.array([1, 2]))
    np.testing.assert_allclose(part, counted[1:3, 1:3])
    stored = np.eye(4).tolist()
    matrix, estimated = confusions.noise_matrix(coded, {**summary, "noise_matrix": stored}, every)
    assert estimated
    np.testing.assert_array_equal(matrix, np.eye(4))
    _, estimated = confusions.noise_matrix(coded, {**summary, "noise_matrix": [[1.0]]}, every)
    assert not estimated


def test_selection_keeps_the_worst_and_some_of_everything(tmp_path: Path) -> None:
    run = rows_run(tmp_path, 5000, 6)
    coded = encode(run.read_findings(), run.read_summary()["class_names"])
    order = suspicion_order(coded)
    assert coded.issue[order[0]]
    assert coded.score[order[0]] == coded.score[coded.issue].min()
    rows = select_rows(coded, 400)
    assert len(rows) == len(set(rows.tolist())) == 400
    assert set(order[:300].tolist()) <= set(rows.tolist())
    assert coded.has_status("uncertain")[rows].sum() >= 25
    pairs = {(pair.given, pair.suggested) for pair in confusions.pairs(coded)}
    shown = set(zip(coded.given[rows].tolist(), coded.corrected[rows].tolist(), strict=True))
    assert len(pairs & shown) >= 20
    assert len(select_rows(coded, 10**6)) == 5000


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = [EVIL, "<u>under</u>", '" onmouseover="window.hacked=1']
    run = write_run(
        tmp_path / "run",
        rng.integers(0, 3, 60),
        names,
        rng,
        ids=[f"{EVIL}{i}" for i in range(60)],
        samples={"text": [f"<script>window.hacked=1</script> {EVIL} {i}" for i in range(60)]},
        extra={
            "settings": {EVIL: EVIL, "nested": {"x": EVIL}},
            "versions": {"<i>": "<i>"},
            "skipped": [{"id": EVIL, "reason": EVIL}],
            "history": [{EVIL: EVIL}],
            "source": {"path": EVIL},
        },
    )
    page = Page(write_report(run, title=EVIL))
    tags = [tag for tag, _ in page.elements]
    assert tags.count("script") == 2
    assert not {"img", "u", "i", "iframe"} & set(tags)
    assert not [name for _, found in page.elements for name in found if name.startswith("on")]
    assert page.data["classes"] == names
    assert EVIL in page.data["rows"]["text"][0]
    assert EVIL in page.text


def test_nothing_points_outside(tmp_path: Path) -> None:
    path = write_report(texts_run(tmp_path))
    page = Page(path)
    for tag, attributes in page.elements:
        for name in ("src", "href", "action", "data", "srcset"):
            link = attributes.get(name) or "#"
            assert link.startswith(("#", "data:")), f"{tag} {name}={link}"
    text = path.read_text(encoding="utf-8")
    assert "http://" not in text
    assert "https://" not in text
    assert "url(" not in text
    policy = dict(page.elements[3][1])["content"] or ""
    assert policy.startswith("default-src 'none'")


def test_names_that_are_not_unicode(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    ids = pd.Index([f"\udcff{i}.png" for i in range(20)], dtype=object)
    run = write_run(tmp_path / "run", rng.integers(0, 2, 20), ["a", "b"], rng, ids=ids)  # type: ignore[arg-type]
    assert all(name.startswith("?") for name in Page(write_report(run)).data["rows"]["id"])


@pytest.mark.parametrize(("n", "words"), [(0, "no rows"), (1, "labels"), (10, "of 10 labels")])
def test_few_rows(tmp_path: Path, n: int, words: str) -> None:
    assert words in Page(write_report(rows_run(tmp_path, n, 3))).text


def test_without_any_label_or_any_optional_key(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run")
    found = pd.DataFrame(
        {
            "given_label": pd.Series([None, None], dtype=object),
            "predicted_label": [1, 2],
            "corrected_label": [1, 2],
            "is_label_issue": False,
            "label_score": [np.nan, np.nan],
            "confidence": [0.5, 0.6],
            "status": "corrected",
            "note": "no label given",
        }
    )
    run.write_findings(found)
    run.write_summary({"n_rows": 2, "class_names": [1, 2]})
    page = Page(write_report(run))
    assert "None of the 2 rows has a label" in page.text
    assert page.data["rows"]["given"] == [-1, -1]


def _as_large_as_it_may_be(path: Path, room: int) -> str:
    return "data:," + "x" * (min(room, 20_000) - 6)


def test_the_file_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    n = 3000
    long = ["語" * 5000] * n
    run = write_run(
        tmp_path / "run",
        rng.integers(0, 4, n),
        list("abcd"),
        rng,
        samples={"text": long, "image": [f"{i}.jpg" for i in range(n)]},
    )
    monkeypatch.setattr("csot.report.rows.thumbnail", _as_large_as_it_may_be)
    monkeypatch.setattr(Containment, "find", lambda self, name: tmp_path / name)
    path = write_report(run)
    assert path.stat().st_size < 13e6
    rows = Page(path).data["rows"]
    assert len(rows["id"]) == writer.MAX_ROWS
    assert sum(map(len, rows["image"])) <= report_rows.IMAGE_BUDGET
    assert all(rows["image"]), "no row goes without a picture"
    assert len(rows["image"][0]) == 20_000, "the worst have large ones"
    with pytest.raises(ValueError, match="max_rows"):
        write_report(run, max_rows=0)


def test_thumbnails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image")
    noise = np.random.default_rng(0).integers(0, 255, (900, 600, 3), dtype=np.uint8)
    image.fromarray(noise).save(tmp_path / "big.jpg")
    image.fromarray(noise[:8, :8, 0]).save(tmp_path / "tiny.png")
    image.fromarray(np.dstack([noise, noise[..., :1]])).save(tmp_path / "alpha.png")
    image.fromarray(noise[..., 0].astype(np.uint16) * 200).save(tmp_path / "deep.png")
    (tmp_path / "broken.png").write_bytes(b"\x89PNG nothing")
    inside = Containment(tmp_path)
    assert _size(image, thumbnail(tmp_path / "big.jpg", 10**6)) == (192, 288)
    assert len(thumbnail(tmp_path / "big.jpg", 12_000) or "") <= 12_000
    assert thumbnail(tmp_path / "big.jpg", 100) == ""
    assert (thumbnail(tmp_path / "tiny.png", 10**6) or "").startswith("data:image/png;base64,")
    assert _size(image, thumbnail(tmp_path / "tiny.png", 10**6)) == (8, 8)
    assert thumbnail(tmp_path / "alpha.png", 10**6)
    assert thumbnail(tmp_path / "deep.png", 10**6)
    assert thumbnail(tmp_path / "broken.png", 10**6) is None
    with monkeypatch.context() as patch:
        patch.setattr(image, "MAX_IMAGE_PIXELS", 100)
        assert thumbnail(tmp_path / "alpha.png", 10**6) is None
    assert thumbnails(["tiny.png", ""], inside, 10) == Thumbnails(["", ""], 0, 1)
    assert thumbnails(["broken.png", "absent.png"], inside, 10**6).unreadable == 2
    many = thumbnails(["big.jpg"] * 40, inside, 200_000)
    assert all(many.urls)
    assert sum(map(len, many.urls)) <= 200_000
    assert len(many.urls[0]) > len(many.urls[-1])
    monkeypatch.setattr("csot.report.rows.has_pillow", lambda: False)
    assert thumbnails(["tiny.png"], inside, 10**6).urls == [""]


def _size(image: Any, url: str | None) -> Any:
    assert url is not None
    with image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))) as opened:
        return opened.size


@pytest.mark.parametrize("size", [1, 3, 12, 20, 45, 100])
def test_the_matrix_is_drawn_for_any_number_of_classes(size: int) -> None:
    matrix = np.full((size, size), 0.1 / size) + 0.9 * np.eye(size)
    names = [f"a class with a long name {k}" for k in range(size + 5)]
    chart = charts.matrix_chart(
        ConfusionSummary("estimated", matrix, False), np.arange(size), names
    )
    assert len(chart.classes) == size
    assert chart.hidden == 5
    assert [label.text for label in chart.labels] == names[:size], "names are whole"
    assert sum(len(path) for _, path in chart.shades) < 300_000


def test_very_many_classes(tmp_path: Path) -> None:
    run = rows_run(tmp_path, 4000, 1500)
    summary = run.read_summary()
    del summary["noise_matrix"]
    run.write_summary(summary)
    page = Page(write_report(run))
    assert "The 100 classes with the most wrong labels are drawn" in page.text
    assert "The 1,000 classes with the most of them are listed, of 1,500" in page.text
    assert len(page.data["matrix"]["classes"]) == 100


def spread(size: int, counts: Any) -> list[ConfusedPair]:
    return [
        ConfusedPair(j, i, int(counts[i, j]))
        for i in range(size)
        for j in range(size)
        if counts[i, j]
    ]


@pytest.mark.parametrize("size", [3, 10, 77])
def test_random_mistakes_are_called_random_and_confusions_are_not(size: int) -> None:
    rng = np.random.default_rng(size)
    off = 1 - np.eye(size)
    frequent = rng.gamma(4, 1, (size, 1))  # rare and frequent true classes
    even = rng.poisson(frequent * off / (frequent * off).sum() * 40 * size)
    assert confusions.association(even.astype(float)) < confusions.RANDOM
    assert confusions.mistakes_look_random(spread(size, even), size)
    paired = even.copy()
    for k in range(size):
        paired[k, (k + 1) % size] += 20
    assert confusions.association(paired.astype(float)) > confusions.RANDOM
    assert not confusions.mistakes_look_random(spread(size, paired), size)
    one = even * (np.arange(size) == 0) * size
    assert not confusions.mistakes_look_random(spread(size, one), size), "all to one class"
    assert not confusions.mistakes_look_random(spread(size, np.minimum(even, 1))[:9], size), (
        "too few to say"
    )


def test_association_by_hand() -> None:
    # A cyclic permutation: E = n / (C - 1) off the diagonal, so X^2 = n C (C - 2).
    n, size = 50.0, 5
    counts = np.roll(np.eye(size), 1, axis=1) * n
    degrees = size * (size - 2)
    wanted = ((n * degrees - degrees) / (n * degrees)) ** 0.5
    assert confusions.association(counts) == pytest.approx(wanted)
    order = np.random.default_rng(0).permutation(size)
    assert confusions.association(counts[np.ix_(order, order)]) == pytest.approx(wanted)
    assert confusions.association(np.zeros((4, 4))) == 0


def test_even_noise_draws_what_was_found(tmp_path: Path) -> None:
    run = rows_run(tmp_path, 3000, 20)
    summary = run.read_summary()
    run.write_summary({**summary, "noise_matrix": np.full((20, 20), 0.005) + 0.9 * np.eye(20)})
    page = Page(write_report(run))
    assert page.data["matrix"]["kind"] == "found"
    cells = np.array(page.data["matrix"]["values"])
    assert cells.sum() == sum(count for _, _, count in page.data["pairs"])
    assert "the number of flagged rows that were given each label" in page.text
    assert "Mistakes look random" not in page.text, "half of the flips go to the next class"


def test_a_table_shows_its_values(tmp_path: Path) -> None:
    run = rows_run(tmp_path, 30, 3)
    found = run.read_findings()
    own = pd.DataFrame({"age": range(30), "city": "Köln", "kind": found["given_label"].to_numpy()})
    summary = run.read_summary()
    run.write_summary({**summary, "settings": {"label": "kind"}})
    run.write_corrected(own, found, label_column="kind")
    rows = Page(write_report(run)).data["rows"]
    assert rows["columns"] == ["age", "city"]
    assert rows["cells"] == [[key, "Köln"] for key in rows["id"]]


def test_what_next_names_the_real_paths(tmp_path: Path) -> None:
    data = tmp_path / "my photos"
    data.mkdir()
    command = shlex.join(["csot", "clean", str(data), "--out", str(tmp_path / "run")])
    run = write_run(
        tmp_path / "run",
        np.arange(20) % 2,
        ["cat", "dog"],
        np.random.default_rng(0),
        extra={"source": {"path": str(data)}, "settings": {"command": command}},
    )
    text = Page(write_report(run)).text
    assert shlex.join(["csot", "review", str(run.path)]) in text
    assert f"{command} --verified {shlex.quote(str(run.path / 'verified.csv'))}" in text
    assert str(run.path / "findings.csv") in text
    assert str(run.path / "corrected.csv") not in text, "the run has none"


def luminance(colour: str) -> float:
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_contrast_of_both_themes() -> None:
    themes = re.findall(r"--bg: [^}]*", STYLE.read_text(encoding="utf-8"))
    assert len(themes) == 3
    assert themes[1].split() == themes[2].split(), "dark by choice differs from dark by system"
    for theme in themes:
        colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", theme))
        text = [(a, b) for a in ("ink", "soft", "accent") for b in ("bg", "panel", "faint")]
        marks = [(a, "bg") for a in ("clean", "corrected", "uncertain")]
        pairs = [(*pair, 4.5) for pair in (*text, ("on-heat", "heat"))]
        for a, b, least in [*pairs, *((*pair, 3.0) for pair in marks)]:
            light, dark = sorted((luminance(colours[a]), luminance(colours[b])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= least, f"{a} on {b}"


def test_annotators_have_a_section(tmp_path: Path) -> None:
    run = rows_run(tmp_path, 40, 3)
    assert 'id="annotators"' not in write_report(run).read_text(encoding="utf-8")
    number = 500
    quality = np.linspace(0.99, 0.1, number)
    evil = "</script><b>eve</b>"
    frame = pd.DataFrame(
        {
            "annotator": [evil, *(f"worker {k}" for k in range(1, number))],
            "quality": quality,
            "quality_low": quality - 0.05,
            "quality_high": np.minimum(quality + 0.05, 1),
            "n_votes": 7,
            "agreement_with_consensus": quality,
            "agreement_with_others": None,
            "worst_class": "ba",
            "worst_class_accuracy": 0.5,
            "confused_class": None,
            "confused_as": None,
        }
    )
    run.write_annotators(frame)
    page = write_report(run).read_text(encoding="utf-8")
    assert evil not in page
    page = page.replace("<wbr>", "")
    assert "&lt;b&gt;eve&lt;/b&gt;" in page
    assert "3,500 votes of 500 annotators" in page
    assert "300 annotators in the middle are left out here" in page
    assert "worker 99<" in page
    assert "worker 100<" not in page
    assert "worker 400<" in page
    run.write_annotators(None)
    assert run.read_annotators() is None


def test_conflicts_strangers_and_rare_classes_have_a_section(tmp_path: Path) -> None:
    run = texts_run(tmp_path, 400)
    assert "Nothing of the kind was found" in Page(write_report(run)).text
    found = run.read_findings()
    found.iloc[20:23, found.columns.get_loc("note")] = "no class fits"
    run.write_findings(found)
    labelled = np.flatnonzero(found["given_label"].notna())
    labels = found["given_label"].iloc[labelled].to_numpy()
    one, other = labelled[labels == "sport"][0], labelled[labels == "travel"][0]
    alike = labelled[labels == "weather"][:2]
    groups = pd.Series(-1, index=found.index)
    groups.iloc[[one, other]] = 0
    groups.iloc[alike] = 1
    run.write_duplicates(groups)
    page = Page(write_report(run, max_rows=40))
    assert "4 rows have a near-duplicate, in 2 groups" in page.text
    assert "1 group of near-duplicates, 2 rows" in page.text
    assert "3 rows are far from every class" in page.text
    rows, odd = page.data["rows"], page.data["odd"]
    assert [{rows["id"][i] for i in group} for group in odd["conflicts"]] == [
        {str(one), str(other)}
    ]
    assert {"20", "21", "22"} >= {rows["id"][i] for i in odd["strangers"]} != set()
    conflict = [rows["id"][i] for i, kinds in enumerate(odd["kinds"]) if kinds & 1]
    assert set(conflict) == {str(one), str(other)}


def test_an_even_noise_matrix_is_not_drawn() -> None:
    """A wall of equal cells shows nothing: the flagged rows are drawn in its place."""
    even = 0.9 * np.eye(3) + 0.05 * (1 - np.eye(3))
    assert confusions.is_even(even)
    assert not confusions.is_even(np.eye(3)), "no mistakes at all"
    assert not confusions.is_even(even[:2, :2]), "two classes have one way to be confused"
    uneven = even.copy()
    uneven[0, 1] = 0.08
    assert not confusions.is_even(uneven)


def test_paths_break_after_a_separator(tmp_path: Path) -> None:
    run = rows_run(tmp_path, 20, 2)
    run.write_summary({**run.read_summary(), "source": {"path": "/data/photos"}})
    page = write_report(run).read_text(encoding="utf-8")
    assert "<td>/<wbr>data/<wbr>photos</td>" in page
