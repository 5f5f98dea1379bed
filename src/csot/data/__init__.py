"""Readers: what a user has on disk -> `LabelledData`. Knows nothing of methods."""

from csot.data.errors import DataError as DataError
from csot.data.errors import DataWarning as DataWarning
from csot.data.errors import MissingExtraError as MissingExtraError
from csot.data.labelled import LabelledData as LabelledData
from csot.data.labelled import Skipped as Skipped
from csot.data.read import read_data as read_data
from csot.data.table import Columns as Columns
from csot.data.verified import read_verified as read_verified
from csot.data.votes import all_votes as all_votes
