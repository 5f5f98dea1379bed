"""What a command leaves behind: the findings table and the run folder. Knows no torch."""

from csot.records.atomic import atomic_write as atomic_write
from csot.records.findings import FINDINGS_COLUMNS as FINDINGS_COLUMNS
from csot.records.findings import STATUSES as STATUSES
from csot.records.findings import check_findings as check_findings
from csot.records.run import Run as Run
