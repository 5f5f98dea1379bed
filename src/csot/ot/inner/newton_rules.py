"""The constants of Newton's method, shared by its torch and its numba form."""

from __future__ import annotations

from typing import NamedTuple


class NewtonRules(NamedTuple):
    """Every constant of Newton's method on the semi-dual (see `newton`).

    The numba form receives them as an argument: compiled code is cached on disk, and the cache
    would not notice a changed global.
    """

    far_off: float = 0.5
    """Column error above which the first step is a scaling step, since Newton's model is poor."""
    patience: int = 60
    """Stop after this many iterations without a smaller error: rounding error has been reached."""

    max_log_residual: float = 50.0
    """Bound on |log(b / Q'1)| in the right-hand side of Newton's equation."""
    max_step: float = 5.0
    """Bound on the change of a potential in one step: the model is poor away from the optimum."""
    ridge: float = 1e-13
    """Added to the diagonal of the Hessian, relative to the column sums."""

    slope_slack: float = 0.5
    """A step is accepted if the slope there is at most this share of the initial one."""
    max_trials: int = 3
    """Largest number of trial points of the line search beyond the full step."""
    min_shrink: float = 0.1
    max_shrink: float = 0.5
    """A trial point lies between these shares of the bracket."""

    short_step: float = 0.5
    """Share of the full step below which the damping is raised."""
    raise_damping: float = 64.0
    lower_damping: float = 8.0
    """Factors by which the damping is raised and lowered."""
    first_damping: float = 1e-3
    min_damping: float = 1e-5
    """The smallest damping after a short step, and the one below which it is set to zero."""
    kink_width: float = 10.0
    """log(Kv/a) up to which a fully damped row counts as unsaturated."""

    cholesky_classes: int = 192
    """Up to this many classes the Hessian is formed and factorised: N C^2 + C^3/3 per step."""
    fallback_classes: int = 1500
    """Up to this many it is factorised where conjugate gradients fail: it is nearly singular."""
    cg_iterations: int = 60
    """Largest number of iterations of conjugate gradients for one direction."""
    min_cg_tolerance: float = 1e-6
    max_cg_tolerance: float = 1e-2
    """Range of their tolerance, which is the column error."""
    min_diagonal: float = 1e-6
    """Lower bound on the diagonal of the preconditioner, relative to the column sums."""


RULES = NewtonRules()
