"""From a run to one self-contained HTML file. Depends only on `csot.runs`."""

from csot.report.write import write_report as write_report
