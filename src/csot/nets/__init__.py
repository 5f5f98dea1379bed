"""Networks: inputs -> logits and features. Independent of losses."""

from csot._core.errors import NetworkError, NetworkWarning
from csot.nets.build import NETWORKS, build_network
from csot.nets.network import Adapted, Network, Outputs, SimSiamPredictor
from csot.nets.weights import load_weights

__all__ = [
    "NETWORKS",
    "Adapted",
    "Network",
    "NetworkError",
    "NetworkWarning",
    "Outputs",
    "SimSiamPredictor",
    "build_network",
    "load_weights",
]
