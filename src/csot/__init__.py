"""CSOT: find wrong labels, fix them, and train models that survive them."""

from csot import curriculum as curriculum
from csot.allocate import Allocation as Allocation
from csot.allocate import allocate as allocate
from csot.clean import LabelCleaner as LabelCleaner
from csot.clean import find_label_issues as find_label_issues
from csot.ot import ConvergenceWarning as ConvergenceWarning
from csot.ot import Plan as Plan
from csot.ot import solve as solve
