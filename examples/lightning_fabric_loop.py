"""CSOT in a loop with Lightning Fabric, which places the model and scales its gradients.

The relabeller's state goes into the same checkpoint as model and optimiser, so that a run that was
interrupted goes on with the budget it had reached.

    python examples/lightning_fabric_loop.py
"""

import tempfile
from pathlib import Path

import torch
from lightning_fabric import Fabric
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Subset, TensorDataset

import csot

EPOCHS, WARMUP = 30, 10


class Network(nn.Module):
    """Returns logits and the features that the classifier reads."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 128), nn.ReLU())
        self.classifier = nn.Linear(128, 10)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        features = self.body(inputs)
        return self.classifier(features), features


def noisy_digits() -> tuple[TensorDataset, Tensor, TensorDataset]:
    """Training inputs with labels of which half are drawn anew, the true labels, and test data."""
    generator = torch.Generator().manual_seed(0)
    pixels, digits = map(torch.from_numpy, load_digits(return_X_y=True))
    order = torch.randperm(len(digits), generator=generator)
    inputs, truth = pixels[order].float() / 16, digits[order]
    noisy = torch.rand(1347, generator=generator) < 0.5
    labels = torch.where(noisy, torch.randint(10, (1347,), generator=generator), truth[:1347])
    train = TensorDataset(inputs[:1347], labels, torch.arange(1347))
    return train, truth[:1347], TensorDataset(inputs[1347:], truth[1347:])


def train(checkpoint: Path, stop_after: int = EPOCHS) -> float:
    """Train, going on from the checkpoint if there is one; returns the test accuracy."""
    fabric = Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    data, _, test = noisy_digits()
    inputs, labels, _ = data.tensors
    torch.manual_seed(0)
    network = Network()
    model, optimiser = fabric.setup(network, torch.optim.Adam(network.parameters(), lr=1e-3))
    relabeller = csot.Relabeller(epochs=EPOCHS - WARMUP, num_classes=10)

    first = 0
    if checkpoint.exists():
        saved = fabric.load(checkpoint, {"model": model, "optimiser": optimiser})
        relabeller.load_state_dict(saved["relabeller"])
        first = saved["epoch"]
    for epoch in range(first, min(EPOCHS, stop_after)):
        rows, targets = torch.arange(len(labels)), labels
        if epoch >= WARMUP:
            model.eval()
            with torch.no_grad():
                logits, features = model(inputs)
            found = relabeller.update(logits, features, labels)
            rows, targets = found.selected.nonzero()[:, 0], found.pseudo_labels
        order = torch.Generator().manual_seed(epoch)
        loader = DataLoader(Subset(data, rows.tolist()), 32, shuffle=True, generator=order)
        model.train()
        for batch, _, numbers in fabric.setup_dataloaders(loader):
            loss = cross_entropy(model(batch)[0], targets[numbers])
            optimiser.zero_grad()
            fabric.backward(loss)
            optimiser.step()
        parts = {"model": model, "optimiser": optimiser, "epoch": epoch + 1}
        fabric.save(checkpoint, {**parts, "relabeller": relabeller.state_dict()})

    model.eval()
    with torch.no_grad():
        predicted = model(test.tensors[0])[0].argmax(1)
    return float((predicted == test.tensors[1]).float().mean())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(f"test accuracy {train(Path(folder) / 'checkpoint.pt'):.1%}")
