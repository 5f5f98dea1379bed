"""Tables and plots from the records of runs. Knows nothing of training."""

from csot.figures.compare import Comparison as Comparison
from csot.figures.compare import write_comparison as write_comparison
