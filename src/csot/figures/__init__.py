"""Figures and tables from plans and from the records of runs. Knows nothing of training."""

from csot.figures.comparison import Comparison as Comparison
from csot.figures.comparison_files import write_comparison as write_comparison
from csot.figures.confusion import confusion as confusion
from csot.figures.convergence import convergence as convergence
from csot.figures.convergence import draw_convergence as draw_convergence
from csot.figures.couplings import couplings as couplings
from csot.figures.couplings import draw_plans as draw_plans
from csot.figures.couplings import epsilons as epsilons
from csot.figures.curves import curves as curves
from csot.figures.drawing import Drawing as Drawing
from csot.figures.history import write_history as write_history
from csot.figures.mappings import mappings as mappings
from csot.figures.noise_matrices import noise_matrix as noise_matrix
from csot.figures.overview import overview as overview
from csot.figures.precision_recall import precision_recall as precision_recall
from csot.figures.reliability import reliability as reliability
from csot.figures.sensitivity import sensitivity as sensitivity
from csot.figures.stages import stages as stages
from csot.figures.suspects import suspects as suspects
from csot.figures.times import epoch_time as epoch_time
from csot.figures.times import total_time as total_time
from csot.figures.timing import timing as timing
from csot.figures.verified import verified as verified
from csot.runs.snapshots import Snapshot as Snapshot
