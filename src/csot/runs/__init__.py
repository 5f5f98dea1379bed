"""Results of a command: the findings table and the run folder. Without torch."""

from csot._core.files import atomic_write as atomic_write
from csot.runs.findings import FINDINGS_COLUMNS as FINDINGS_COLUMNS
from csot.runs.findings import STATUSES as STATUSES
from csot.runs.findings import check_findings as check_findings
from csot.runs.run import Run as Run
