"""Every Python block of the README and of docs/ runs, and prints what the page says.

A ```python block is executed; the blocks of a page share a namespace and run in order. A ```text
block that follows one, with nothing but blank lines between, is what it prints.
"""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n*^```text\n(?P<printed>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Example:
    line: int
    code: str
    printed: str | None


def examples(text: str) -> list[Example]:
    return [
        Example(text.count("\n", 0, found.start("code")), found["code"], found["printed"])
        for found in BLOCK.finditer(text)
    ]


def run(page: str, text: str) -> None:
    namespace: dict[str, object] = {"__name__": "__main__"}
    for example in examples(text):
        printed = io.StringIO()
        # Errors then point at the line of the page.
        source = compile("\n" * example.line + example.code, page, "exec")
        with contextlib.redirect_stdout(printed):
            exec(source, namespace)
        # A block that prints has to say what.
        assert printed.getvalue() == (example.printed or ""), f"{page}, line {example.line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(str(page), page.read_text(encoding="utf-8"))


def test_the_readme_has_an_example() -> None:
    assert any(example.printed for example in examples(PAGES[0].read_text(encoding="utf-8")))


def test_no_python_block_escapes() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert len(examples(text)) == len(re.findall(r"^\s*```\s*python", text, re.MULTILINE)), page


@pytest.mark.parametrize(
    "text",
    [
        "```python\nprint(1)\n```\n\n```text\n2\n```\n",
        "```python\nprint(1)\n```\n\nNothing is said of it.\n",
        "```python\nx = 1\n```\n\n```text\n1\n```\n",
        "```python\nx = 1\n```\n\n```python\nprint(x + 1)\n```\n\n```text\n1\n```\n",
    ],
)
def test_a_wrong_page_is_found(text: str) -> None:
    with pytest.raises(AssertionError):
        run("page.md", text)


def test_a_page_keeps_its_names() -> None:
    run("page.md", "```python\nx = 1\n```\n\nThen:\n\n```python\nprint(x)\n```\n```text\n1\n```\n")
