"""Train on noisy labels: configuration, the loop, checkpoints, evaluation, records."""

from csot.training.train import Trained as Trained
from csot.training.train import train as train
