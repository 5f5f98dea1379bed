"""The report in a real browser: it works, says nothing to the console and asks nobody anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browsers import CHROMIUM, NO_BROWSER, running_chromium
from csot.report import write_report
from report.sample_runs import digits_run, rows_run, texts_run, write_run

api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_BROWSER)

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with running_chromium() as running:
        yield running


@pytest.fixture
def visit(browser: Any) -> Iterator[Open]:
    """Open a report; at the end, check what it said and asked for."""
    contexts, said, asked = [], [], []

    def visit(path: Path, *, width: int = 1280, scheme: str = "light") -> Any:
        context = browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": 900}, accept_downloads=False
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]")
        return page

    yield visit
    for context in contexts:
        context.close()
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("PIL")
    return write_report(digits_run(tmp_path_factory.mktemp("digits"), 500))


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report(texts_run(tmp_path_factory.mktemp("texts")))


def column(page: Any, number: int) -> list[str]:
    found: list[str] = page.locator(f"#row-table tbody tr td:nth-child({number})").all_inner_texts()
    return [text.strip() for text in found]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_every_screen(visit: Open, digits: Path, scheme: str, width: int) -> None:
    page = visit(digits, width=width, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("#gallery .card").count() == 50
    assert page.locator("#gallery img").first.evaluate("image => image.naturalWidth") == 8
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 22, 25)"
    assert dark == (scheme == "dark")


def test_the_theme_can_be_chosen(visit: Open, digits: Path) -> None:
    page = visit(digits)
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.click("#theme")
    assert page.evaluate(colour) != light
    assert page.inner_text("#theme") == "Light"
    page.reload()
    assert page.evaluate(colour) != light, "the choice is remembered"
    page.click("#theme")
    assert page.evaluate(colour) == light


@pytest.mark.parametrize("width", [1280, 390])
def test_a_picture_can_be_enlarged(visit: Open, digits: Path, width: int) -> None:
    page = visit(digits, width=width)
    card = page.locator("#gallery .card").first
    small = card.locator("img").bounding_box()
    assert small["width"] > 120
    card.locator("button").click()
    api.expect(page.locator("#zoom")).to_be_visible()
    assert page.locator("#zoom img").bounding_box()["width"] > small["width"]
    first = page.inner_text("#zoom-id")
    assert first in card.inner_text()
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#zoom-id") != first
    page.click("[data-turn='-1']")
    assert page.inner_text("#zoom-id") == first
    page.keyboard.press("Escape")
    api.expect(page.locator("#zoom")).to_be_hidden()
    page.click("[data-view=table]")
    assert page.locator("#row-table tbody tr").count() == 50
    page.locator("#row-table .small-picture").first.click()
    api.expect(page.locator("#zoom")).to_be_visible()


def test_long_names_are_whole(visit: Open, tmp_path: Path) -> None:
    names = [f"balance_not_updated_after_cheque_or_deposit_{k}" for k in range(10)]
    truth = np.arange(400) % 10
    path = write_report(write_run(tmp_path / "run", truth, names, np.random.default_rng(0)))
    page = visit(path)
    outside = """() => {
      const frame = document.getElementById('matrix').getBoundingClientRect();
      return [...document.querySelectorAll('#matrix text')].filter((text) => {
        const box = text.getBoundingClientRect();
        return box.left < frame.left - 1 || box.top < frame.top - 1 || box.right > frame.right + 1;
      }).length; }"""
    assert page.evaluate(outside) == 0
    overprinted = """() => [...document.querySelectorAll('#class-table tbody tr')].filter((row) =>
      row.cells[0].firstElementChild.getBoundingClientRect().right
        > row.cells[1].getBoundingClientRect().right - 20).length"""
    assert page.evaluate(overprinted) == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_verified_rows_are_marked(visit: Open, tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    run = digits_run(tmp_path, 60)
    findings = run.read_findings()
    rows = findings.index[:5]
    findings.loc[rows, "note"] = "verified"
    findings.loc[rows, "is_label_issue"] = False
    run.write_findings(findings)
    page = visit(write_report(run))
    page.select_option("#status", label="Verified")
    assert page.inner_text("#matches") == "1\u20135 of 5 rows"
    marks = page.locator("#gallery .card-foot").all_inner_texts()
    assert all("verified" in text and "score" not in text for text in marks)
    page.click("[data-view=table]")
    assert set(column(page, 5)) == {"\u2013"}
    assert all(text.endswith("verified") for text in column(page, 6))


def test_no_choice_is_cut_off(visit: Open, texts: Path) -> None:
    page = visit(texts, width=1400)
    assert page.locator("#status option").all_inner_texts()[-1] == "Uncertain", "none is verified"
    text_width = """(node) => {
      const pen = document.createElement('canvas').getContext('2d');
      const style = getComputedStyle(node);
      pen.font = `${style.fontSize} ${style.fontFamily}`;
      return pen.measureText(node.placeholder || node.selectedOptions[0].textContent).width; }"""
    for name in ("#search", "#sort"):
        field = page.locator(name)
        # 10 pixels at each side, and room for the arrow or the cross.
        assert field.evaluate(text_width) + 40 < field.bounding_box()["width"]


def test_a_wide_table_says_so(visit: Open, digits: Path) -> None:
    page = visit(digits, width=390)
    box, cue = page.locator(".scroll:has(#class-table)"), page.locator(".cue:has(+ .scroll)")
    api.expect(cue.first).to_be_visible()
    api.expect(box).to_have_class("scroll more")
    box.evaluate("box => box.scrollTo(box.scrollWidth, 0)")
    api.expect(box).to_have_class("scroll")
    page.set_viewport_size({"width": 1280, "height": 900})
    api.expect(cue.first).to_be_hidden()


def test_filters(visit: Open, texts: Path) -> None:
    page = visit(texts)
    assert page.inner_text("#matches") == "1\u201350 of 600 rows"
    page.select_option("#given", label="sport")
    assert set(column(page, 2)) == {"sport"}
    page.select_option("#status", label="Corrected")
    assert {text.splitlines()[0] for text in column(page, 6)} == {"Corrected"}
    page.select_option("#suggested", label="weather")
    assert {text.splitlines()[0] for text in column(page, 3)} == {"weather"}
    assert "flagged with this pair in all" in page.inner_text("#matches")
    page.fill("#search", "no such words anywhere")
    page.wait_for_selector("#empty:visible")
    assert page.inner_text("#matches").startswith("No rows")
    page.click("#clear")
    api.expect(page.locator("#matches")).to_contain_text("of 600 rows")
    page.fill("#search", "FROST item")
    api.expect(page.locator("#matches")).not_to_contain_text("of 600 rows")
    assert all("Frost" in text for text in column(page, 1))
    page.click("#clear")
    page.select_option("#given", label="(no label)")
    assert set(column(page, 2)) == {"none"}
    assert len(column(page, 2)) == 20


def test_sorting_and_pages(visit: Open, texts: Path) -> None:
    page = visit(texts)
    scores = [float(text) for text in column(page, 5)]
    assert scores == sorted(scores)
    page.click("#row-table th[data-sort=confidence] button")
    sure = [float(text) for text in column(page, 4)]
    assert sure == sorted(sure, reverse=True)
    assert page.get_attribute("#row-table th[data-sort=confidence]", "aria-sort") == "descending"
    assert page.input_value("#sort") == "confidence"
    page.click("#row-table th[data-sort=confidence] button")
    sure = [float(text) for text in column(page, 4)]
    assert sure == sorted(sure)
    page.select_option("#sort", "id")
    ids = [int(text.splitlines()[-1]) for text in column(page, 1)]
    assert ids == list(range(50))
    page.locator("[data-step='1']").first.click()
    assert page.inner_text("#matches") == "51\u2013100 of 600 rows"
    assert int(column(page, 1)[0].splitlines()[-1]) == 50


def test_the_class_table_sorts(visit: Open, digits: Path) -> None:
    page = visit(digits)

    def cells(number: int) -> list[float]:
        found = page.locator(f"#class-table tbody tr > :nth-child({number})")
        return [
            float(value) for value in found.evaluate_all("cells => cells.map(c => c.dataset.value)")
        ]

    head = page.locator("#class-table thead th").nth(2)
    head.locator("button").click()
    assert cells(3) == sorted(cells(3), reverse=True)
    assert head.get_attribute("aria-sort") == "descending"
    head.locator("button").press("Enter")
    assert cells(3) == sorted(cells(3))
    page.locator("#class-table thead th").nth(0).locator("button").click()
    assert cells(1) == list(range(10))


def test_pairs_lead_to_their_rows(visit: Open, digits: Path) -> None:
    page = visit(digits)
    page.click("[data-view=table]")
    row = page.locator("#confusions table tbody tr").first
    given, _, count, _ = row.locator("td").all_inner_texts()
    row.locator("button").click()
    api.expect(page.locator("#matches")).to_contain_text("with this pair")
    assert set(column(page, 2)) == {given}
    assert f"{count} flagged" in page.inner_text("#matches")
    assert len(column(page, 1)) >= int(count)
    page.click("#clear")
    # The matrix by keyboard: down once from the first cell is true class 1, given label 0.
    page.focus("#matrix")
    page.keyboard.press("ArrowDown")
    assert "truly “1” were given the label “0”" in page.inner_text("#readout")
    page.keyboard.press("Enter")
    api.expect(page.locator("#given")).to_have_value("0")
    assert page.input_value("#suggested") == "1"
    # And by pointer.
    left = float(page.get_attribute("#matrix", "data-left"))
    top = float(page.get_attribute("#matrix", "data-top"))
    page.locator("#matrix").hover(position={"x": left + 46 * 2.5, "y": top + 46 * 0.5})
    assert "truly “0” were given the label “2”" in page.inner_text("#readout")


def test_hostile_text_is_shown_not_run(visit: Open, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    evil = '</script><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
    run = write_run(
        tmp_path / "run",
        rng.integers(0, 2, 40),
        [evil, "{{ 7 * 7 }}"],
        rng,
        samples={"text": [evil] * 40},
        extra={"settings": {evil: evil}, "source": {"path": evil}},
    )
    page = visit(write_report(run, title=evil))
    assert page.evaluate("window.hacked") is None
    assert evil in page.inner_text("h1")
    assert evil in column(page, 1)[0]
    assert {evil, "{{ 7 * 7 }}"} >= set(column(page, 2))
    assert page.locator("img").count() == 0


def cpu_seconds(page: Any) -> float:
    """Of the process that draws the page, since it began: a busy machine does not lengthen it."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    metrics = {
        metric["name"]: metric["value"]
        for metric in session.send("Performance.getMetrics")["metrics"]
    }
    session.detach()
    return float(metrics["ProcessTime"])


@pytest.mark.parametrize(("n", "classes"), [(10, 3), (100_000, 10), (20_000, 100), (30_000, 1000)])
def test_it_is_quick_at_any_size(visit: Open, tmp_path: Path, n: int, classes: int) -> None:
    path = write_report(rows_run(tmp_path, n, classes))
    assert path.stat().st_size < 8e6
    page = visit(path)
    drawn = cpu_seconds(page)
    assert 0 < drawn < 5, "loading and drawing"
    assert f"{n:,} labels" in page.inner_text(".claim")
    assert page.locator("#row-table tbody tr").count() == min(n, 50)
    before = cpu_seconds(page)
    page.select_option("#status", label="Uncertain")
    page.fill("#search", "a")
    # What is typed is searched for 120 ms later: a timer set after that one also ends after it.
    page.evaluate("new Promise((done) => setTimeout(done, 150))")
    assert cpu_seconds(page) - before < 2, "filtering"


def test_it_can_be_read_by_keyboard_and_screen_reader(visit: Open, texts: Path) -> None:
    page = visit(texts)
    unnamed = """[...document.querySelectorAll('input, select')].filter(e => !e.labels.length)"""
    assert page.evaluate(f"{unnamed}.length") == 0
    assert page.evaluate("document.querySelectorAll('table thead th:not([scope])').length") == 0
    assert page.evaluate("document.querySelectorAll('h1').length") == 1
    assert page.evaluate("document.querySelectorAll('main').length") == 1
    page.focus("#search")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "given"
