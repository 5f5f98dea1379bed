"""Train on noisy labels: configuration, the loop, checkpoints, evaluation, results, comparison."""

from csot.runs.predicted import Predicted as Predicted
from csot.training.compare import compare as compare
from csot.training.export import Exported as Exported
from csot.training.export import export as export
from csot.training.predict import Predictor as Predictor
from csot.training.predict import predict as predict
from csot.training.presets import make_config as make_config
from csot.training.presets import preset_names as preset_names
from csot.training.presets import read_preset as read_preset
from csot.training.progress import Progress as Progress
from csot.training.train import Source as Source
from csot.training.train import Trained as Trained
from csot.training.train import train as train
