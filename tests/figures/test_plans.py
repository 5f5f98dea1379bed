"""The numbers behind the figures of plans, against the oracle."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import csot
from csot.figures import (
    Drawing,
    Snapshot,
    convergence,
    couplings,
    draw_convergence,
    draw_plans,
    epsilons,
    mappings,
    overview,
)
from csot.figures.solver.mappings import class_centroids
from csot.figures.solver.snapshot_plans import warm_digits
from helpers import PLAN_TOLERANCE, make_instance
from reference import transport

N, C = 20, 3
TOLERANCE = PLAN_TOLERANCE["float32"]


@cache
def snapshot() -> Snapshot:
    made = make_instance(N, C, seed=3, dim=2)
    truth = np.where(made.labels < 0, 0, made.labels)
    return Snapshot(made.pred_probs, made.features, made.labels, truth, ["a", "b", "c"])


@cache
def reference(budget: float, epsilon: float = 0.1, kappa: float = 1.0) -> np.ndarray:
    """N Q of the same problem, in float64."""
    seen = snapshot()
    assert seen.labels is not None
    found = transport.csot(
        seen.pred_probs.astype(np.float64),
        seen.features.astype(np.float64),
        seen.labels,
        budget,
        np.full(C, 1 / C),
        np.full(N, 1 / N),
        epsilon,
        kappa,
        kappa,
        outer=15,
        inner=800,
    )
    return N * found.Q


def matrix(table: pd.DataFrame, rows: str) -> np.ndarray:
    return table.pivot(index=rows, columns="class", values="share").to_numpy()


def test_overview_shows_three_ways_to_label() -> None:
    drawing = overview(snapshot())
    shares = {
        name: matrix(part, "sample") for name, part in drawing.tables["shares"].groupby("method")
    }
    assert shares["prediction"] == pytest.approx(snapshot().pred_probs, abs=1e-6)
    cost = transport.cost_matrix(snapshot().pred_probs.astype(np.float64))
    classical = transport.sinkhorn(cost, np.full(N, 1 / N), np.full(C, 1 / C), 0.1, 2000)
    assert shares["OT"] == pytest.approx(N * classical, abs=TOLERANCE)
    assert shares["SOT"] == pytest.approx(reference(1.0), abs=1e-3)


def test_overview_of_the_toy_mends_a_pair() -> None:
    drawing = overview()
    samples, shares = drawing.tables["samples"], drawing.tables["shares"]
    first, second = samples[samples["pair"]]["sample"]
    labels = {name: matrix(part, "sample").argmax(1) for name, part in shares.groupby("method")}
    assert labels["OT"][first] != labels["OT"][second]
    assert labels["SOT"][first] == labels["SOT"][second]
    # The pair is nearer than most: neighbours, not any two samples.
    points = samples[["x", "y"]].to_numpy()
    apart = np.linalg.norm(points[:, None] - points, axis=-1)
    assert apart[first, second] < np.quantile(apart[apart > 0], 0.2)


def test_mappings_are_the_selection_of_the_plan() -> None:
    drawing = mappings(snapshot(), budgets=(0.5, 1.0))
    for budget, part in drawing.tables["mapping"].groupby("budget"):
        assert isinstance(budget, float)
        expected = transport.allocate(
            reference(budget) / N,
            np.zeros(N, dtype=np.int64),
            budget,
            np.full(C, 1 / C),
            np.full(N, 1 / N),
            "paper",
        )
        assert part["class"].tolist() == expected.pseudo_labels.tolist()
        assert part["confidence"].to_numpy() == pytest.approx(expected.confidence, abs=1e-3)
        assert part["selected"].tolist() == expected.selected.tolist()


def test_centroids_are_means_weighted_by_predictions() -> None:
    probs, features = snapshot().pred_probs, snapshot().features
    found = class_centroids(probs, features)
    for k in range(C):
        total = sum(float(probs[i, k]) for i in range(N))
        mean = sum(float(probs[i, k]) * features[i].astype(np.float64) for i in range(N)) / total
        assert found[k] == pytest.approx(mean, rel=1e-6)
    table = mappings(snapshot(), budgets=(1.0,)).tables["centroids"]
    # Features of two dimensions are drawn as they are.
    assert table[["x", "y"]].to_numpy() == pytest.approx(found)
    assert table["name"].tolist() == ["a", "b", "c"]


def test_couplings_and_their_sums() -> None:
    drawing = couplings(snapshot(), budgets=(0.4, 1.0))
    for title, budget in (("m = 0.4", 0.4), ("m = 1", 1.0)):
        cells, rows, columns = (part[part["plan"] == title] for part in drawing.tables.values())
        expected = reference(budget)
        found = matrix(cells, "sample")
        assert found == pytest.approx(expected, abs=1e-3)
        sums = rows.set_index("sample")["row_sum"].loc[list(range(N))]
        assert sums.to_numpy() == pytest.approx(expected.sum(1), abs=1e-3)
        assert columns["column_sum"].to_numpy() == pytest.approx(np.full(C, budget / C), rel=1e-4)
    # From left to right by true class.
    truth = snapshot().truth
    assert truth is not None
    ordered = truth[rows.sort_values("place")["sample"]]
    assert (np.diff(ordered) >= 0).all()


def test_a_smaller_epsilon_is_sharper() -> None:
    drawing = epsilons(snapshot(), epsilons=(0.05, 0.5), budget=0.5)
    cells = {
        title: matrix(part, "sample") for title, part in drawing.tables["cells"].groupby("plan")
    }
    assert cells["ε = 0.5"] == pytest.approx(reference(0.5, epsilon=0.5), abs=1e-3)
    assert cells["ε = 0.05"].max() > cells["ε = 0.5"].max()


def test_your_own_plans_are_drawn() -> None:
    plan = csot.solve(snapshot().pred_probs, budget=0.5)
    table = draw_plans(plan, order=np.arange(N)[::-1]).tables["rows"]
    assert table["sample"].tolist() == list(range(N))[::-1]
    with pytest.raises(ValueError, match="`order` must hold the numbers 0 to 19 once each"):
        draw_plans(plan, order=[0, 1])
    batch = csot.solve(np.stack([snapshot().pred_probs] * 2))
    with pytest.raises(ValueError, match="one shape"):
        draw_plans({"batch": batch})
    with pytest.raises(ValueError, match="'batch' is a batch"):
        draw_convergence({"batch": batch})


def test_convergence_is_the_objective_after_each_step() -> None:
    seen = snapshot()
    assert seen.labels is not None
    trace = convergence(seen, coherences=(5.0,)).tables["trace"]
    assert trace["outer_iteration"].tolist() == list(range(1, 11))
    # The last one is the objective of the equations at the plan itself.
    probs = seen.pred_probs.astype(np.float64)
    plan = csot.solve(
        probs,
        features=seen.features.astype(np.float64),
        labels=seen.labels,
        budget=0.5,
        coherence=5.0,
        method="scaling",
        inner_iterations=100,
        tolerance=0,
    )
    value = transport.objective(
        np.asarray(plan.coupling),
        transport.cost_matrix(probs),
        0.1,
        5.0,
        5.0,
        transport.cosine_similarity(seen.features.astype(np.float64)),
        probs,
        transport.one_hot(seen.labels, C),
    )
    assert trace["objective"].iloc[-1] == pytest.approx(value, rel=1e-9)
    assert trace["above_lowest"].min() == 0
    assert (trace["objective"].diff().dropna() <= 1e-9).all()


def test_digits_after_a_warm_up_are_half_learned() -> None:
    seen = warm_digits()
    assert len(seen) == 200
    assert seen.truth is not None
    right = (seen.pred_probs.argmax(1) == seen.truth).mean()
    assert 0.6 < right < 0.97
    assert 0.3 < (seen.labels != seen.truth).mean() < 0.6


@pytest.mark.parametrize("make", [overview, mappings, couplings, epsilons, convergence])
def test_drawn_from_the_tables_alone(make: object, tmp_path: Path) -> None:
    assert callable(make)
    drawing = make(snapshot())
    assert isinstance(drawing, Drawing)
    written = drawing.save(tmp_path, themes=("dark",), formats=("png",))
    ending = [f"-{part}" for part in drawing.tables] if len(drawing.tables) > 1 else [""]
    name = drawing.name
    assert [path.name for path in written] == [
        f"{name}-dark.png",
        *(f"{name}{part}.csv" for part in ending),
    ]
    read = {
        part: pd.read_csv(tmp_path / f"{name}{end}.csv", dtype={"name": str})
        for part, end in zip(drawing.tables, ending, strict=True)
    }
    again = Drawing(name, read, drawing.paint)
    assert len(again.draw("light").axes) >= 2


def test_the_same_numbers_are_the_same_file(tmp_path: Path) -> None:
    drawing = convergence(snapshot(), coherences=(1.0,))
    for folder in ("one", "two"):
        drawing.save(tmp_path / folder, themes=("light",))
    for name in ("convergence.svg", "convergence.png", "convergence.csv"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_bad_snapshots_and_themes() -> None:
    with pytest.raises(ValueError, match=r"`features` \(N, D\) of the same N samples"):
        Snapshot(np.ones((3, 2)), np.ones((4, 2)))
    with pytest.raises(ValueError, match="`labels` must be from -1 to 1, got 2"):
        Snapshot(np.ones((3, 2)), np.ones((3, 2)), np.array([0, 1, 2]))
    with pytest.raises(ValueError, match="`labels` must be 3 whole numbers"):
        Snapshot(np.ones((3, 2)), np.ones((3, 2)), np.array([0.0, 1.0, 1.0]))
    with pytest.raises(ValueError, match="must be finite"):
        Snapshot(np.full((3, 2), np.nan), np.ones((3, 2)))
    with pytest.raises(ValueError, match="`theme` must be 'light' or 'dark', got 'drak'"):
        convergence(snapshot(), coherences=(1.0,)).draw("drak")  # type: ignore[arg-type]


def test_what_is_not_a_snapshot_or_a_plan() -> None:
    seen = snapshot()
    with pytest.raises(ValueError, match=r"must be a csot\.figures\.Snapshot.*, got tuple"):
        couplings((seen.pred_probs, seen.features))  # type: ignore[arg-type]
    plan = csot.solve(seen.pred_probs, budget=0.5)
    assert set(draw_convergence(plan).data["plan"]) == {""}
    for draw in (draw_plans, draw_convergence):
        with pytest.raises(ValueError, match=r"plans by title .*, got list"):
            draw([plan])  # type: ignore[arg-type]
