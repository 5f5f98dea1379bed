"""Readers: what a user has on disk -> `LabelledData`. Independent of methods."""

from csot._core.errors import DataError as DataError
from csot._core.errors import DataWarning as DataWarning
from csot._core.errors import MissingExtraError as MissingExtraError
from csot.data.columns import TableFeatures as TableFeatures
from csot.data.datasets.core.dataset_registry import read_training_data as read_training_data
from csot.data.readers.labelled_table import Columns as Columns
from csot.data.readers.read_data import read_data as read_data
from csot.data.readers.to_predict import read_inputs as read_inputs
from csot.data.readers.verified import all_votes as all_votes
from csot.data.readers.verified import read_verified as read_verified
from csot.data.samples import InMemory as InMemory
from csot.data.samples import Samples as Samples
from csot.data.types import LabelledData as LabelledData
from csot.data.types import Skipped as Skipped
from csot.data.types import TestSet as TestSet
from csot.data.types import TrainingData as TrainingData
