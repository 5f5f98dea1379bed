"""Figures and tables from plans and from the records of runs. Knows nothing of training."""

from csot.figures.comparison import Comparison as Comparison
from csot.figures.comparison_files import write_comparison as write_comparison
from csot.figures.convergence import convergence as convergence
from csot.figures.convergence import draw_convergence as draw_convergence
from csot.figures.couplings import couplings as couplings
from csot.figures.couplings import draw_plans as draw_plans
from csot.figures.couplings import epsilons as epsilons
from csot.figures.drawing import Drawing as Drawing
from csot.figures.history import write_history as write_history
from csot.figures.mappings import mappings as mappings
from csot.figures.overview import overview as overview
from csot.figures.timing import timing as timing
from csot.runs.snapshots import Snapshot as Snapshot
