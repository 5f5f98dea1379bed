"""Tables and plots from the records of runs. Knows nothing of training."""

from csot.figures.comparison import Comparison as Comparison
from csot.figures.comparison_files import write_comparison as write_comparison
from csot.figures.history import write_history as write_history
from csot.figures.measured import read_measured as read_measured
from csot.figures.paper import paper_table as paper_table
from csot.figures.results_table import results_table as results_table
from csot.figures.table_formats import as_text as as_text
