"""Our solver against the published algorithm, in one run: seconds, ratio, and the same answer.

    python benchmarks/solver.py                 the table of the paper's sizes, and one big problem
    python benchmarks/solver.py --scaling       time and memory from 10,000 to 1,000,000 rows
    python benchmarks/solver.py --methods       our inner methods against each other

``--plain`` turns numba off.

The baseline is ``published.py``: the paper's Algorithms 1 and 2 as stated (float64, dense
similarity, 10 x 100 fixed iterations, Armijo), and beside it ``lean``, the same without work that a
careful author would avoid. Ours is ``csot.solve`` with its defaults on the same numbers in float32.
Both are timed alternately, the best of the repeats counts, and the results must agree: the
objective (float64, evaluated by one function for both, on plans rounded onto the polytope) no more
than 1e-4 relative above the baseline's, and the same argmax on 99.5 % of the rows.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

import csot
from csot.figures.solver.timing_cells import timing_problem
from csot.ot.execution import OneShard
from csot.ot.inner import newton_choice as compiled
from csot.ot.plan import round_onto
from csot.ot.problem import Marginals
from published import objective_of, solve_published

RESULTS = Path(__file__).parent / "results"
FEATURES = 512

# (N, C): at least so many times faster; the paper's seconds on an A100 (its Table 3, ESI-based).
SIZES = {
    (1024, 10): (40, 0.82),
    (1024, 50): (12, 0.80),
    (1024, 100): (12, 0.80),
    (50, 50): (6, 0.79),
    (100, 100): (6, 0.80),
    (500, 500): (6, 0.87),
    (1000, 1000): (12, 0.81),
    (2000, 2000): (25, 0.98),
    (3000, 3000): (25, 0.99),
}
METHOD_SIZES = ((100, 100), (1024, 10), (1024, 100), (500, 500), (50_000, 10))
WHOLE = (50_000, 10, 1024, 60)
"""One problem of 50,000 rows against batches of 1024, and the ratio wanted."""


@dataclass(frozen=True)
class Row:
    """One size: seconds are the best of the repeats, spread is (worst - best) / best."""

    rows: int
    classes: int
    published_seconds: float
    lean_seconds: float
    csot_seconds: float
    csot_spread: float
    ratio: float
    ratio_to_lean: float
    wanted: float
    a100_seconds: float | None
    objective_excess: float | None
    same_argmax: float | None
    converged: bool

    @property
    def met(self) -> bool:
        agrees = self.objective_excess is None or self.objective_excess <= 1e-4
        same = self.same_argmax is None or self.same_argmax >= 0.995
        return self.ratio >= self.wanted and agrees and same


def timed(job: Callable[[], object]) -> tuple[float, object]:
    start = time.perf_counter()
    result = job()
    return time.perf_counter() - start, result


def comparable_objective(
    coupling: torch.Tensor,
    problem: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    budget: float,
) -> float:
    """The paper's objective in float64 at the nearest feasible plan: a plan that breaks its row
    constraints would look better than the optimum."""
    n, c = coupling.shape
    plan = coupling.double().T[None].contiguous()
    marginals = Marginals(
        a=plan.new_full((1, n), 1 / n),
        b=plan.new_full((1, c), budget / c),
        balanced=budget == 1,
    )
    feasible = round_onto(plan, marginals, OneShard())[0].T
    return objective_of(feasible, *problem)


def compare(n: int, c: int, budget: float, repeats: int, seed: int) -> Row:
    """Time both on one problem, alternating, and compare what they found."""
    problem = timing_problem(n, c, seed)
    probs, features, labels = problem
    ours: list[float] = []
    theirs: list[float] = []
    lean: list[float] = []
    csot.solve(probs, features=features, labels=labels, budget=budget)
    for _ in range(repeats):
        seconds, plan = timed(
            lambda: csot.solve(probs, features=features, labels=labels, budget=budget)
        )
        ours.append(seconds)
        seconds, rival = timed(lambda: solve_published(probs, features, labels, budget))
        theirs.append(seconds)
        seconds, _ = timed(lambda: solve_published(probs, features, labels, budget, lean=True))
        lean.append(seconds)
    best = comparable_objective(rival.coupling, problem, budget)
    excess = (comparable_objective(plan.coupling, problem, budget) - best) / abs(best)
    wanted, a100 = SIZES[n, c]
    return Row(
        rows=n,
        classes=c,
        published_seconds=min(theirs),
        lean_seconds=min(lean),
        csot_seconds=min(ours),
        csot_spread=(max(ours) - min(ours)) / min(ours),
        ratio=min(theirs) / min(ours),
        ratio_to_lean=min(lean) / min(ours),
        wanted=wanted,
        a100_seconds=a100,
        objective_excess=excess,
        same_argmax=float((plan.coupling.argmax(-1) == rival.coupling.argmax(-1)).double().mean()),
        converged=bool(plan.converged),
    )


def compare_whole(budget: float, repeats: int, seed: int) -> Row:
    """50,000 rows as one problem against the published way, batches of 1024."""
    n, c, size, wanted = WHOLE
    probs, features, labels = timing_problem(n, c, seed)
    parts = [slice(i, i + size) for i in range(0, n, size)]

    def by_batches(lean: bool) -> None:
        for part in parts:
            solve_published(probs[part], features[part], labels[part], budget, lean=lean)

    ours = []
    for _ in range(repeats):
        seconds, plan = timed(
            lambda: csot.solve(probs, features=features, labels=labels, budget=budget)
        )
        ours.append(seconds)
    theirs, _ = timed(lambda: by_batches(lean=False))
    lean, _ = timed(lambda: by_batches(lean=True))
    return Row(
        rows=n,
        classes=c,
        published_seconds=theirs,
        lean_seconds=lean,
        csot_seconds=min(ours),
        csot_spread=(max(ours) - min(ours)) / min(ours),
        ratio=theirs / min(ours),
        ratio_to_lean=lean / min(ours),
        wanted=wanted,
        a100_seconds=None,
        objective_excess=None,
        same_argmax=None,
        converged=bool(plan.converged),
    )


def measure_size(n: int, seed: int) -> None:
    """Child process of ``--scaling``: solve one size and print seconds and peak memory."""
    generator = torch.Generator().manual_seed(seed)
    probs = (3 * torch.randn(n, 10, generator=generator)).softmax(-1)
    features = torch.randn(n, 128, generator=generator)
    labels = torch.randint(0, 10, (n,), generator=generator)
    csot.solve(probs[:1000], features=features[:1000], labels=labels[:1000], budget=0.5)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = []
    for _ in range(3):
        elapsed, plan = timed(
            lambda: csot.solve(probs, features=features, labels=labels, budget=0.5)
        )
        seconds.append(elapsed)
    inputs = sum(x.numel() * x.element_size() for x in (probs, features, labels))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    print(
        json.dumps(
            {
                "rows": n,
                "seconds": min(seconds),
                "inputs_bytes": inputs,
                "peak_over_inputs": (inputs + grown) / inputs,
                "converged": bool(plan.converged),
            }
        )
    )


def scaling(seed: int, console: Console) -> list[dict[str, float]]:
    """Each size in a process of its own, so that peak memory is its own."""
    found = []
    for n in track((10_000, 30_000, 100_000, 300_000, 1_000_000), console=console):
        command = [sys.executable, __file__, "--one-size", str(n), "--seed", str(seed)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found.append(json.loads(printed))
    table = Table(title="C = 10, D = 128, float32, budget 0.5")
    for column in ("rows", "seconds", "exponent from the row above", "peak memory / inputs"):
        table.add_column(column, justify="right")
    for before, row in zip([None, *found[:-1]], found, strict=True):
        slope = "" if before is None else f"{_exponent(before, row):.2f}"
        table.add_row(
            f"{row['rows']:,}", f"{row['seconds']:.3f}", slope, f"{row['peak_over_inputs']:.2f}"
        )
    console.print(table)
    console.print(f"time grows as N^{_exponent(found[0], found[-1]):.2f} from first to last")
    return found


def methods(budget: float, repeats: int, seed: int, console: Console) -> list[dict[str, object]]:
    """Newton, the scaling iteration and Dykstra, each until it is as precise as the others."""
    found: list[dict[str, object]] = []
    table = Table(title=f"csot.solve by inner method, float32, D = {FEATURES}, budget {budget:g}")
    for column in ("(N, C)", "method", "seconds", "inner steps", "converged"):
        table.add_column(column, justify="right")
    for n, c in track(METHOD_SIZES, description="sizes", console=console):
        probs, features, labels = timing_problem(n, c, seed)
        for method in ("newton", "scaling", "dykstra"):
            if method == "dykstra" and n * c > 100_000:
                continue  # minutes: its whole plan is corrected in every step
            job = partial(
                csot.solve,
                probs,
                features=features,
                labels=labels,
                budget=budget,
                method=method,
                max_inner=20_000,
            )
            runs = [timed(job) for _ in range(repeats)]
            seconds, plan = min(run[0] for run in runs), runs[0][1]
            row = {
                "rows": n,
                "classes": c,
                "method": method,
                "seconds": seconds,
                "inner_iterations": plan.inner_iterations,
                "converged": bool(plan.converged),
            }
            found.append(row)
            table.add_row(
                f"({n}, {c})",
                method,
                f"{seconds:.4f}",
                f"{plan.inner_iterations:,}",
                "yes" if plan.converged else "NO",
            )
    console.print(table)
    return found


def _exponent(before: dict[str, float], after: dict[str, float]) -> float:
    times = torch.tensor([before["seconds"], after["seconds"]]).log()
    sizes = torch.tensor([float(before["rows"]), float(after["rows"])]).log()
    return float((times[1] - times[0]) / (sizes[1] - sizes[0]))


def show(rows: list[Row], console: Console) -> None:
    table = Table(title=f"seconds, D = {FEATURES}; ours in float32, the rival in float64")
    for column in (
        "(N, C)", "published", "lean", "csot", "spread", "ratio", "wanted", "to lean",
        "paper's A100", "objective excess", "same argmax", "met",
    ):  # fmt: skip
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            f"({row.rows}, {row.classes})",
            f"{row.published_seconds:.3f}",
            f"{row.lean_seconds:.3f}",
            f"{row.csot_seconds:.4f}",
            f"{row.csot_spread:.0%}",
            f"{row.ratio:.1f}",
            f"{row.wanted:g}",
            f"{row.ratio_to_lean:.1f}",
            "" if row.a100_seconds is None else f"{row.a100_seconds:.2f}",
            "" if row.objective_excess is None else f"{row.objective_excess:+.1e}",
            "" if row.same_argmax is None else f"{row.same_argmax:.2%}",
            "yes" if row.met else "NO",
        )
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=float, default=0.5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--largest", type=int, default=3000, help="leave out larger N")
    parser.add_argument("--scaling", action="store_true", help="time against N instead")
    parser.add_argument("--plain", action="store_true", help="without what numba compiles")
    parser.add_argument("--methods", action="store_true", help="our inner methods instead")
    parser.add_argument("--one-size", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one_size:
        measure_size(arguments.one_size, arguments.seed)
        return
    if arguments.plain:
        compiled.MAX_ENTRIES = 0
    console = Console(width=140)
    RESULTS.mkdir(exist_ok=True)
    about = {
        "command": " ".join(sys.argv),
        "torch": torch.__version__,
        "compiled": compiled.is_available() and not arguments.plain,
        "threads": torch.get_num_threads(),
        "processor": platform.processor() or platform.machine(),
        "seed": arguments.seed,
    }
    if arguments.scaling:
        about["scaling"] = scaling(arguments.seed, console)
        target = RESULTS / "solver_scaling.json"
    elif arguments.methods:
        about["methods"] = methods(arguments.budget, arguments.repeats, arguments.seed, console)
        target = RESULTS / "solver_methods.json"
    else:
        sizes = [size for size in SIZES if size[0] <= arguments.largest]
        rows = []
        with warnings.catch_warnings():
            warnings.simplefilter("error", csot.ConvergenceWarning)
            for n, c in track(sizes, description="sizes", console=console):
                repeats = arguments.repeats if n < 2000 else max(1, arguments.repeats // 3)
                rows.append(compare(n, c, arguments.budget, repeats, arguments.seed))
            rows.append(compare_whole(arguments.budget, arguments.repeats, arguments.seed))
        show(rows, console)
        median = statistics.median(row.ratio for row in rows)
        console.print(f"median ratio {median:.0f}; budget {arguments.budget:g}")
        about |= {"budget": arguments.budget, "rows": [asdict(row) for row in rows]}
        target = RESULTS / ("solver_plain.json" if arguments.plain else "solver.json")
    target.write_text(json.dumps(about, indent=2) + "\n")
    console.print(f"written to {target.relative_to(Path(__file__).parent.parent)}")


if __name__ == "__main__":
    main()
