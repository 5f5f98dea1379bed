"""From a run to one self-contained HTML file. Knows only records."""

from csot.report.write import write_report as write_report
