"""Label noise by the conventions of the literature: from a generator, with what it did."""

from csot.data.noise.models import Noise as Noise
from csot.data.noise.models import NoisyLabels as NoisyLabels
from csot.data.noise.parse import parse_noise as parse_noise
