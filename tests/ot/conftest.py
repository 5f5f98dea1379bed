"""Every test of the solver runs with and without what numba compiles."""

from __future__ import annotations

import pytest

from csot.ot.inner import newton_choice as compiled


@pytest.fixture(autouse=True, params=["compiled", "torch"])
def loops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "torch":
        monkeypatch.setattr(compiled, "_loops", lambda: None)
    else:
        pytest.importorskip("numba")
    return str(request.param)


@pytest.fixture(scope="session")
def numba_works() -> bool:
    """Asked by a test, not as tests are collected: each worker of pytest would compile at once."""
    return compiled.is_available()


@pytest.fixture
def methods(numba_works: bool, loops: str) -> tuple[str, ...]:
    """The inner methods to try. What is compiled is Newton's alone: the others run once."""
    return ("newton",) if numba_works and loops == "torch" else ("newton", "scaling", "dykstra")
