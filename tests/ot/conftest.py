"""Every test of the solver runs with and without what numba compiles."""

from __future__ import annotations

import pytest

from csot.ot.inner import newton_choice as compiled

NUMBA = compiled.is_available()


@pytest.fixture(autouse=True, params=["compiled", "torch"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "torch":
        monkeypatch.setattr(compiled, "_loops", lambda: None)
    else:
        pytest.importorskip("numba")
    return str(request.param)


@pytest.fixture
def methods(loops: str) -> tuple[str, ...]:
    """The inner methods to try. What is compiled is Newton's alone: the others run once."""
    return ("newton",) if NUMBA and loops == "torch" else ("newton", "scaling", "dykstra")
