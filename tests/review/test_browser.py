"""The review in a real browser: by keyboard, in two tabs, through kills, at 100,000 rows."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browsers import CHROMIUM, NO_BROWSER, running_chromium
from csot.review.domain.filters import Filter
from csot.review.domain.ledger import CODES
from csot.review.domain.session import Session
from csot.runs import Run
from report.sample_runs import digits_run, texts_run, write_run
from review.serving import command, serving

api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_BROWSER)

Visit = Callable[..., Any]
READY = "html[data-ready]"
WATCH = """() => {
  window.waits = [];
  let start = 0;
  addEventListener('keydown', () => { start = performance.now(); }, true);
  new MutationObserver(() => waits.push(performance.now() - start))
    .observe(document.getElementById('item'), { childList: true });
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with running_chromium() as running:
        yield running


@pytest.fixture
def visit(browser: Any) -> Iterator[Visit]:
    """Enter by the printed address, then go to a page; at the end, check what was said and asked.

    Chromium itself reports every answer that is an error, and a server that is away.
    """
    contexts, said, asked = [], [], []

    def visit(
        url: str, path: str = "/", *, width: int = 1280, scheme: str = "light", beside: Any = None
    ) -> Any:
        if beside is None:
            context = browser.new_context(
                color_scheme=scheme, viewport={"width": width, "height": 800}
            )
            contexts.append(context)
        else:
            context = beside.context
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(url)
        page.goto(url.partition("/?")[0] + path)
        page.wait_for_selector(READY)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert [text for text in said if "Failed to load resource" not in text] == []
    assert [url for url in asked if not url.startswith("http://127.0.0.1:")] == []


def press(page: Any, key: str) -> None:
    """A key that decides: wait until the next row is there."""
    row = page.get_attribute(".item", "data-row")
    page.keyboard.press(key)
    page.wait_for_selector(f'.item:not([data-row="{row}"])')


def standing(run: Run, reviewer: str = "ana") -> Any:
    """The decisions as a new process finds them."""
    session = Session(run, reviewer)
    session.close()
    return session.person


def texts(folder: Path, n: int = 400) -> Run:
    run = texts_run(folder, n)
    run.write_features(np.random.default_rng(0).normal(size=(n, 16)))
    return run


def test_decide_by_keyboard(visit: Visit, tmp_path: Path) -> None:
    run = texts(tmp_path)
    with serving(run) as (server, _):
        page = visit(server.url, "/one")
        c = server.session.catalogue
        rows: list[int] = []
        for key in "aku":
            rows.append(int(page.get_attribute(".item", "data-row")))
            press(page, key)
        # Choose another class: type to search.
        rows.append(int(page.get_attribute(".item", "data-row")))
        page.keyboard.press("c")
        page.keyboard.type("cook")
        api.expect(page.locator("#choose-list li")).to_have_text(["cooking", "New class “cook”"])
        press(page, "Enter")
        person = server.session.person
        assert person.label[rows[0]] == c.suggested[rows[0]]
        assert person.label[rows[1]] == c.given[rows[1]]
        assert person.label[rows[2]] == -1
        assert person.decided[rows[2]]
        assert c.names[person.label[rows[3]]] == "cooking"
        # One of the likely classes, by its number.
        rows.append(int(page.get_attribute(".item", "data-row")))
        third = int(page.locator(".choice").nth(2).get_attribute("data-label"))
        press(page, "3")
        assert person.label[rows[4]] == third
        assert "5 of" in page.inner_text("#progress")
        # A key held down decides once.
        rows.append(int(page.get_attribute(".item", "data-row")))
        page.keyboard.down("a")
        page.wait_for_selector(f'.item:not([data-row="{rows[5]}"])')
        for _ in range(5):
            page.keyboard.down("a")
        page.keyboard.up("a")
        assert person.decided.sum() == 6
        press(page, "z")
        assert page.get_attribute(".item", "data-row") == str(rows[5])
        # Next and previous decide nothing.
        here = page.get_attribute(".item", "data-row")
        press(page, "ArrowRight")
        press(page, "ArrowLeft")
        assert page.get_attribute(".item", "data-row") == here
        # Undo, twice; the row comes back.
        press(page, "z")
        assert page.get_attribute(".item", "data-row") == str(rows[4])
        press(page, "z")
        assert page.get_attribute(".item", "data-row") == str(rows[3])
        assert person.decided.sum() == 3
        # A reload shows the same row and the same counts; undo still knows what this tab did.
        page.reload()
        page.wait_for_selector(READY)
        assert page.get_attribute(".item", "data-row") == str(rows[3])
        assert "3 of" in page.inner_text("#progress")
        press(page, "z")
        assert page.get_attribute(".item", "data-row") == str(rows[2])
        assert page.locator(".near li").count() == 8
    assert standing(run).decided.sum() == 2


def test_bulk_decisions_in_the_grid(visit: Visit, tmp_path: Path) -> None:
    run = texts(tmp_path)
    with serving(run) as (server, _):
        page = visit(server.url, "/grid")
        person, c = server.session.person, server.session.catalogue
        page.select_option("#confusion", index=1)  # as by an arrow: nothing moves until Show
        with page.expect_navigation():
            page.click(".confusion button")
        page.wait_for_selector(READY)
        rows = [
            int(row)
            for row in page.locator(".card").evaluate_all("all => all.map(c => c.dataset.row)")
        ]
        assert len({(c.given[row], c.suggested[row]) for row in rows}) == 1, "one confusion"
        # By keyboard: the first by Space, two more on the way of Shift and an arrow.
        page.keyboard.press(" ")
        page.keyboard.press("Shift+ArrowRight")
        page.keyboard.press("Shift+ArrowRight")
        assert page.inner_text("#selected") == "3 selected"
        page.keyboard.press("k")
        page.wait_for_selector(".card.kept")
        assert (person.label[rows[:3]] == c.given[rows[:3]]).all()
        assert page.locator(".card.kept").count() == 3
        chosen = page.locator("#confusion option:checked")
        api.expect(chosen).to_contain_text(f"({len(rows) - 3} left)")
        # Select all means what is left, so that the three are not decided anew.
        page.keyboard.press("s")
        assert page.inner_text("#selected") == f"{len(rows) - 3} selected"
        page.keyboard.press("Escape")
        page.keyboard.press("z")
        page.wait_for_selector(".card.kept", state="detached")
        assert not person.decided.any()
        api.expect(chosen).to_contain_text(f"({len(rows)} left)")
        # All of them, by pointer.
        page.click("[data-do=all]")
        page.click("[data-do=accept]")
        page.wait_for_selector(".card.accepted")
        assert (person.label[rows] == c.suggested[rows]).all()
        assert person.decided.sum() == len(rows)
        api.expect(chosen).to_contain_text("(0 left)")
        # And undone at one stroke, after a reload.
        page.reload()
        page.wait_for_selector(READY)
        page.keyboard.press("z")
        api.expect(page.locator("#toast")).to_contain_text("undone")
        assert not person.decided.any()
    assert not standing(run).decided.any()


def test_killed_in_the_middle_and_gone_on(visit: Visit, tmp_path: Path) -> None:
    """SIGKILL while a tab is open; the decision made meanwhile is saved by the next server."""
    run = texts(tmp_path)
    with command(run.path, "--reviewer", "ana", "--port", "0") as (process, url):
        port = url.partition("/?")[0].rpartition(":")[2]
        page = visit(url, "/one")
        for _ in range(3):
            press(page, "a")
        waiting = int(page.get_attribute(".item", "data-row"))
        process.kill()
        process.wait()
        page.keyboard.press("k")
        api.expect(page.locator("#trouble")).to_contain_text("does not answer")
        assert "3 of" in page.inner_text("#progress"), "nothing is called saved before it is"
    assert standing(run).decided.sum() == 3, "what was confirmed is there"
    with command(run.path, "--reviewer", "ana", "--port", port) as (restarted, url):
        api.expect(page.locator("#trouble")).to_contain_text("open the address", timeout=10_000)
        other = visit(url, "/one", beside=page)
        page.wait_for_selector(f'.item:not([data-row="{waiting}"])')
        api.expect(page.locator("#trouble")).to_be_hidden()
        assert "4 of" in page.inner_text("#progress")
        press(page, "a")
        other.reload()
        assert "5 of" in other.inner_text("#progress")
        restarted.send_signal(signal.SIGINT)
        # Connections of open tabs would be closed after 30 seconds.
        assert restarted.wait(25) == 0, "Ctrl-C does not wait for open tabs"
    person = standing(run)
    assert person.decided.sum() == 5
    assert person.decided[waiting]


def test_entered_by_a_link_of_another_site(visit: Visit, shown: str) -> None:
    """A terminal in a web page shows the address as a link; the strict cookie must still come."""
    page = visit(shown)
    page.context.clear_cookies()
    page.goto("about:blank")
    page.set_content(f'<a href="{shown}">open</a>')
    page.click("a")
    page.wait_for_selector(READY)
    assert "token" not in page.url


def test_discards_and_new_classes(visit: Visit, tmp_path: Path) -> None:
    run = texts(tmp_path)
    with serving(run) as (server, _):
        page = visit(server.url, "/one")
        first = int(page.get_attribute(".item", "data-row"))
        press(page, "d")
        second = int(page.get_attribute(".item", "data-row"))
        page.keyboard.press("c")
        page.keyboard.type("Ópera")
        api.expect(page.locator("#choose-list li")).to_have_text(["New class “Ópera”"])
        press(page, "Enter")
        api.expect(page.locator("#toast")).to_have_text("Changed: Ópera")
        page.keyboard.press("c")
        page.keyboard.type("opera")
        api.expect(page.locator("#choose-list li").first).to_have_text("Ópera")
        page.keyboard.press("Escape")
        person = server.session.person
        assert server.session.catalogue.name(int(person.label[second])) == "Ópera"
        assert (person.action[first], person.label[first]) == (CODES["discard"], -1)
        page.wait_for_selector("html:not([data-busy])")
        page.keyboard.press("r")
        api.expect(page.locator("#again-command")).to_contain_text("--verified")
        assert (run.path / "verified.csv").read_text().splitlines() == [
            "id,label",
            f"{second},Ópera",
        ]


def test_a_finger_opens_a_card(visit: Visit, shown: str) -> None:
    page = visit(shown, "/grid", width=390)
    card = page.locator(".card").nth(2)
    row = card.get_attribute("data-row")
    assert ".png" in card.locator(".file").inner_text(), "the file is named"
    card.locator(".open").click(force=True)
    page.wait_for_selector(f'.item[data-row="{row}"]')
    # Small pictures show their pixels, or are smoothed.
    style = "getComputedStyle(document.querySelector('.picture img')).imageRendering"
    page.wait_for_selector("#pixels:visible")
    assert page.evaluate(style) == "pixelated"
    page.click("#pixels")
    assert page.evaluate(style) == "auto"
    # The end of the page is above the bar.
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    bottom, top = (page.locator(name).bounding_box() for name in ("#item", ".bar"))
    assert bottom["y"] + bottom["height"] <= top["y"]


def test_two_tabs_at_once(visit: Visit, tmp_path: Path) -> None:
    run = texts(tmp_path)
    with serving(run) as (server, _):
        person = server.session.person
        first = visit(server.url, "/one")
        second = visit(server.url, "/one?order=doubt", beside=first)
        mine, theirs = [], []
        for _ in range(4):
            mine.append(int(first.get_attribute(".item", "data-row")))
            press(first, "a")
            theirs.append(int(second.get_attribute(".item", "data-row")))
            press(second, "u")
        assert set(np.flatnonzero(person.decided)) == {*mine, *theirs}
        # Each takes back its own, although the other was the last to decide.
        press(first, "z")
        assert first.get_attribute(".item", "data-row") == str(mine[-1])
        assert person.decided[theirs[-1]]
        press(second, "z")
        assert set(np.flatnonzero(person.decided)) == {*mine[:-1], *theirs[:-1]}
        # The same row in both: the later decision stands, undoing the earlier changes nothing.
        row = mine[-1]
        second.goto(f"{server.url.partition('/?')[0]}/one?status=any&row={row}")
        second.wait_for_selector(READY)
        press(first, "a")
        press(second, "u")
        press(first, "z")
        assert person.action[row] == 4


def test_hostile_names_and_texts(visit: Visit, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    evil = '<img src=x onerror="window.hacked=1">"><script>window.hacked=1</script>'
    files = ["a b#?%2e&.png", "'\"<b>.png", "\u202etxt.png", "ünï.png", evil.replace("/", "_")]
    root = tmp_path / "data"
    root.mkdir()
    for name in files:
        image.fromarray(np.zeros((40, 40), np.uint8)).save(root / name, "PNG")
    rng = np.random.default_rng(0)
    run = write_run(
        tmp_path / "run",
        rng.integers(0, 2, 5),
        [evil, "{{ 7 * 7 }}"],
        rng,
        ids=files,
        samples={"image": files},
        extra={"source": {"kind": "images", "path": evil, "root": str(root)}},
    )
    run.write_features(rng.normal(size=(5, 4)))
    with serving(run, reviewer=evil[:40]) as (server, _):
        page = visit(server.url, "/one?status=any&decided=any")
        for row in range(5):
            page.goto(f"{server.url.partition('/?')[0]}/one?status=any&decided=any&row={row}")
            page.wait_for_selector(READY)
            assert page.locator(".picture img").evaluate(
                "i => i.decode().then(() => i.naturalWidth)"
            )
            assert page.inner_text(".id") == files[row]
            assert page.evaluate("window.hacked") is None
        page.keyboard.press("c")
        api.expect(page.locator("#choose-list li").first).to_have_text(evil)
        page.keyboard.press("Enter")
        api.expect(page.locator("#toast")).to_contain_text(evil)
        for path in ("/grid?status=any&decided=any", "/reviewers", "/export", "/precision", "/"):
            page.goto(server.url.partition("/?")[0] + path)
            page.wait_for_selector(READY)
            assert page.evaluate("window.hacked") is None
            assert page.locator("script:not([src])").count() == 0


def test_a_hundred_thousand_rows(visit: Visit, big_run: Run) -> None:
    """Fifty decisions by keyboard, and the longest wait from the key to the next row."""
    with serving(big_run) as (server, _):
        page = visit(server.url, "/one")
        page.evaluate(WATCH)
        start = page.evaluate("performance.now()")
        for number in range(50):
            press(page, "aakau"[number % 5])
        seconds = (page.evaluate("performance.now()") - start) / 1000
        waits = sorted(page.evaluate("waits"))
        assert len(waits) == 50
        print(
            f"50 decisions by keyboard in {seconds:.1f} s, {3000 / seconds:.0f} a minute; "
            f"waits: median {waits[25]:.0f} ms, longest {waits[-1]:.0f} ms"
        )
        assert server.session.person.decided.sum() == 50
        # The grid, to the end and back.
        page.goto(f"{server.url.partition('/?')[0]}/grid?status=any&decided=any")
        page.wait_for_selector(READY)
        assert page.inner_text("#matches") == "1\u201360 of 100,000"
        for _ in range(3):
            here = page.url
            page.keyboard.press("n")
            page.wait_for_url(lambda url, here=here: url != here)
            page.wait_for_selector(READY)
        assert page.inner_text("#matches") == "181\u2013240 of 100,000"
        every = Filter(status="any", decided="any")
        last = server.session.selector.rows(every, server.session.person)[-1]
        page.goto(f"{server.url.partition('/?')[0]}/grid?status=any&decided=any&start={last}")
        assert page.inner_text("#matches") == "100,000\u2013100,000 of 100,000"
        page.click("#previous")
        page.wait_for_selector(READY)
        assert page.inner_text("#matches") == "99,940\u201399,999 of 100,000"
    assert standing(big_run).decided.sum() == 50


def test_accept_all_above_says_what_to_expect(visit: Visit, tmp_path: Path) -> None:
    run = texts(tmp_path)
    with serving(run) as (server, _):
        page = visit(server.url, "/precision")
        assert "not known" in page.inner_text("#forecast")
        page.goto(f"{server.url.partition('/?')[0]}/one?status=changed&order=random")
        page.wait_for_selector(READY)
        for key in "aaaaakaaaa":
            press(page, key)
        page.goto(f"{server.url.partition('/?')[0]}/precision")
        page.wait_for_selector(READY)
        assert page.inner_text("h1").startswith("90\u00a0% of the suggestions")
        page.fill("#threshold", "0.8")
        api.expect(page.locator("#forecast")).to_contain_text("at least 0.8")
        assert "95 % interval" in page.inner_text("#forecast")
        page.click("#accept-above")
        page.click("#confirm-yes")
        api.expect(page.locator("#toast")).to_contain_text("accepted")
        person = server.session.person
        assert person.decided.sum() > 10
        assert person.seen.sum() == 10
        page.keyboard.press("z")
        api.expect(page.locator("#toast")).to_contain_text("undone")
        assert person.decided.sum() == 10


def test_an_audit_by_keyboard(visit: Visit, tmp_path: Path) -> None:
    """Start, answer, search, skip, undo, reload; the result, and more rows."""
    run = texts(tmp_path)
    with serving(run) as (server, _):
        page = visit(server.url, "/")
        page.click("text=Audit: how many are wrong?")
        page.wait_for_selector(READY)
        assert "±" in page.inner_text(".sizes")
        page.click("[data-rows='50']")
        page.wait_for_selector(".item[data-row]")
        page.wait_for_selector(READY)
        session = server.session
        plan, person, c = session.auditing.plan, session.person, session.catalogue
        assert plan is not None
        order = [str(row) for row in plan.rows]

        def here() -> str:
            return str(page.get_attribute(".item", "data-row"))

        assert here() == order[0]
        for key in "ak":  # of the other list: here they do nothing
            page.keyboard.press(key)
        press(page, "2")
        assert person.label[plan.rows[0]] == 1
        assert "1 of 50" in page.inner_text("#progress")
        api.expect(page.locator("#toast")).to_have_text(f"Saved: {c.names[1]}")
        page.keyboard.press("c")
        page.keyboard.type("trav")
        api.expect(page.locator("#choose-list li")).to_contain_text(["travel", "New class"])
        press(page, "Enter")
        assert c.names[person.label[plan.rows[1]]] == "travel"
        press(page, "u")
        assert here() == order[3]
        press(page, "ArrowRight")
        press(page, "z")
        assert here() == order[2]
        press(page, "1")
        assert here() == order[3], "what was skipped comes before what was not reached"
        page.reload()
        page.wait_for_selector(READY)
        assert here() == order[3]
        assert "3 of 50" in page.inner_text("#progress")
        press(page, "ArrowLeft")
        assert "You said" in page.inner_text(".standing")
        press(page, "ArrowRight")
        for number in range(3, 50):
            page.click(".pick >> nth=0")
            if number < 49:
                page.wait_for_selector(f'.item[data-row="{order[number + 1]}"]')
        page.click("text=See what they say")
        page.wait_for_selector(READY)
        assert "of the labels are wrong" in page.inner_text("h1")
        assert page.locator(".shares tbody tr").count() == 4
        page.click("#write")
        api.expect(page.locator("#written")).to_contain_text("verified.csv")
        assert len((run.path / "verified.csv").read_text().splitlines()) == 51
        page.click("[data-rows='100']")
        page.wait_for_selector(".item[data-row]")
        assert "50 of 100" in page.inner_text("#progress")
    assert standing(run).seen.sum() == 50


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("PIL")
    run = digits_run(tmp_path_factory.mktemp("digits"), 300)
    run.write_features(np.random.default_rng(0).normal(size=(300, 8)))
    with serving(run) as (server, _):
        session = server.session
        session.auditing.start(50)
        plan = session.auditing.plan
        assert plan is not None
        for number, row in enumerate(plan.rows[:30].tolist()):
            session.decide([row], "choose", row % 10, "audit", f"audited-{number:03d}")
        yield server.url


VIEWS = (
    "/",
    "/one",
    "/grid",
    "/audit",
    "/audit/result",
    "/precision",
    "/reviewers",
    "/export",
    "/one?status=odd",
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_every_screen(visit: Visit, shown: str, scheme: str, width: int) -> None:
    page = visit(shown, width=width, scheme=scheme)
    for path in VIEWS:
        page.goto(shown.partition("/?")[0] + path)
        page.wait_for_selector(READY)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 22, 25)"
        assert dark == (scheme == "dark")
    page.click("#theme")
    page.reload()
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 22, 25)"
    assert dark != (scheme == "dark"), "the choice is remembered"


def test_all_is_in_reach_on_a_phone(visit: Visit, shown: str) -> None:
    page = visit(shown, "/one", width=390)
    for link in page.locator(".top nav a").all():
        box = link.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390, link.inner_text()
    top = page.locator(".bar").bounding_box()["y"]
    assert page.locator(".choice").first.bounding_box()["y"] < top, "seen without scrolling"
    page.evaluate("scrollTo(0, 1e6)")
    last = page.locator(".near li").last.bounding_box()
    assert last["y"] + last["height"] <= top, "the bar covers nothing at the end"


def test_the_place_in_the_list(visit: Visit, tmp_path: Path) -> None:
    with serving(texts(tmp_path)) as (server, _):
        total = int(server.session.catalogue.flagged.sum())
        page = visit(server.url, "/one")
        assert page.inner_text(".place") == f"1 of {total}"
        press(page, "a")
        assert page.inner_text(".place") == f"2 of {total}", "what is decided still counts"
        press(page, "ArrowRight")
        assert page.inner_text(".place") == f"3 of {total}"
        page.keyboard.press("r")
        api.expect(page.locator("#again-command")).to_contain_text("--verified")
        assert page.inner_text("#again-title") == "Use my decisions in the next run"


def test_it_can_be_read_by_keyboard_and_screen_reader(visit: Visit, shown: str) -> None:
    page = visit(shown)
    for path in VIEWS:
        page.goto(shown.partition("/?")[0] + path)
        page.wait_for_selector(READY)
        unnamed = """[...document.querySelectorAll('input, select, button, a, img, [role=listbox]')]
          .filter(e => !(e.labels && e.labels.length) && !e.getAttribute('aria-label')
            && !e.innerText.trim() && !e.textContent.trim() && !e.hasAttribute('alt')).length"""
        assert page.evaluate(unnamed) == 0, path
        assert page.evaluate("document.querySelectorAll('h1').length") == 1, path
        assert page.evaluate("document.querySelectorAll('main').length") == 1, path
        assert page.evaluate("document.querySelectorAll('thead th:not([scope])').length") == 0
        assert page.evaluate("document.querySelectorAll('[style], script:not([src])').length") == 0
    page.goto(shown.partition("/?")[0] + "/one")
    page.wait_for_selector(READY)
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    press(page, "ArrowRight")
    assert "Given" in page.inner_text("#announce")
    page.focus("[data-do=next]")
    press(page, "Enter")


def test_a_missing_picture_says_why(visit: Visit, shown: str) -> None:
    page = visit(shown, "/one?status=any&decided=any&row=3")
    api.expect(page.locator(".picture")).to_contain_text("No picture: the file is not a picture")
