"""Tables and plots from the records of runs. Knows nothing of training."""

from csot.figures.comparison import Comparison as Comparison
from csot.figures.comparison_files import write_comparison as write_comparison
from csot.figures.history import write_history as write_history
