"""Fine-tuning: what changes in which epoch."""

import pytest
import torch
from torch import nn

from csot._core.errors import NetworkError
from csot.nets.network import Network
from csot.training.finetune import SLOWER, Pretrained, last_parameters


class Body(nn.Module):
    """A stem, four blocks with batch normalisation, and a last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(6, 5)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5)) for _ in range(4)
        )
        self.last = nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x.flatten(1))
        for block in self.blocks:
            x = block(x)
        out: torch.Tensor = self.last(x)
        return out


def changed(network: Network) -> set[str]:
    """Names of the parameters and buffers that a step changes."""
    before = {name: value.clone() for name, value in network.state_dict().items()}
    free = [value for value in network.parameters() if value.requires_grad]
    optimiser = torch.optim.SGD(free, lr=1.0)
    network.train()
    network(torch.randn(8, 6)).logits.square().sum().backward()
    optimiser.step()
    return {name for name, value in network.state_dict().items() if not value.equal(before[name])}


def test_the_head_comes_first_and_then_the_last_blocks() -> None:
    torch.manual_seed(0)
    network = Network(Pretrained(Body(), 3, head_epochs=2, tuned=0.5), 4)
    backbone = network.backbone
    assert isinstance(backbone, Pretrained)
    head = {"classifier.weight", "classifier.bias"}
    for epoch in (1, 2):
        backbone.begin_epoch(epoch)
        assert changed(network) == head
    backbone.begin_epoch(3)
    found = changed(network) - head
    assert {name.split(".")[2] for name in found} == {"blocks", "last"}
    assert {name.split(".")[3] for name in found if ".blocks." in name} == {"2", "3"}
    assert not any("running" in name for name in found)


def test_the_backbone_learns_more_slowly() -> None:
    torch.manual_seed(0)
    body, inputs = Body().eval(), torch.randn(4, 6)
    (expected,) = torch.autograd.grad(body(inputs).square().sum(), body.last.weight)
    backbone = Pretrained(body, 3, head_epochs=0, tuned=1.0)
    backbone.begin_epoch(1)
    backbone(inputs).square().sum().backward()
    assert body.last.weight.grad is not None
    torch.testing.assert_close(body.last.weight.grad, SLOWER * expected)


def test_which_parameters_are_last() -> None:
    body = Body()
    names = [name for name, _ in body.named_parameters()]
    assert last_parameters(body, 0.0) == []
    assert last_parameters(body, 0.25) == names[names.index("blocks.3.0.weight") :]
    assert last_parameters(body, 1.0) == names[2:]
    assert last_parameters(nn.Linear(2, 2), 0.5) == ["weight", "bias"]


@pytest.mark.parametrize("options", [{"head_epochs": -1}, {"tuned": 1.5}])
def test_wrong_options(options: dict[str, float]) -> None:
    with pytest.raises(NetworkError, match="must not be negative"):
        Pretrained(Body(), 3, **options)  # type: ignore[arg-type]
