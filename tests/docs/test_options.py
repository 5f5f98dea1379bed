"""The table of options in docs/train.md has every option of CSOT, with its defaults."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from csot.methods.parts.csot_settings import CsotSettings

PAGE = Path(__file__).parents[2] / "docs" / "train.md"


def test_every_option_is_there_with_its_defaults() -> None:
    found = {
        row[1]: (row[3], row[4])
        for row in re.finditer(
            r"^\|`(\w+)`\|(\d*)\|([^|]*)\|([^|]*)\|", PAGE.read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    paper, published = CsotSettings(variant="paper"), CsotSettings(variant="published")
    assert found.keys() == CsotSettings.model_fields.keys() - {"variant"}
    for name, defaults in found.items():
        wanted = getattr(paper, name), getattr(published, name)
        # YAML takes 1e-06 for text.
        read = [yaml.safe_load(text) for text in defaults]
        given = tuple(
            float(value) if isinstance(default, float) else value
            for value, default in zip(read, wanted, strict=True)
        )
        assert given == wanted, name
