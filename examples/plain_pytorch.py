"""CSOT in a training loop of your own: plain PyTorch, on scikit-learn's digits.

Half of the labels are drawn anew at random. Each epoch the network predicts all training rows, the
relabeller says which labels to trust and which to replace, and the network trains on those.

    python examples/plain_pytorch.py
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

import csot

EPOCHS, WARMUP = 30, 10


def main() -> tuple[float, float]:
    """Test accuracy with CSOT, and share of right labels among those trained on at the end."""
    generator = torch.Generator().manual_seed(0)
    pixels, digits = map(torch.from_numpy, load_digits(return_X_y=True))
    order = torch.randperm(len(digits), generator=generator)
    inputs, truth = pixels[order].float() / 16, digits[order]
    train, test = slice(0, 1347), slice(1347, None)
    noisy = torch.rand(1347, generator=generator) < 0.5
    random = torch.randint(10, (1347,), generator=generator)
    labels = torch.where(noisy, random, truth[train])

    torch.manual_seed(0)
    body, head = nn.Sequential(nn.Linear(64, 128), nn.ReLU()), nn.Linear(128, 10)
    optimiser = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=1e-3)
    relabeller = csot.Relabeller(epochs=EPOCHS - WARMUP, num_classes=10)
    rows, targets = torch.arange(1347), labels
    for epoch in range(EPOCHS):
        if epoch >= WARMUP:
            with torch.no_grad():
                features = body(inputs[train])
                found = relabeller.update(head(features), features, labels)
            rows = found.selected.nonzero()[:, 0]
            targets = found.pseudo_labels
        for batch in rows[torch.randperm(len(rows), generator=generator)].split(32):
            loss = cross_entropy(head(body(inputs[batch])), targets[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

    with torch.no_grad():
        accuracy = (head(body(inputs[test])).argmax(1) == truth[test]).float().mean()
    right = (targets[rows] == truth[rows]).float().mean()
    return float(accuracy), float(right)


if __name__ == "__main__":
    accuracy, right = main()
    print(f"test accuracy {accuracy:.1%}; {right:.1%} of the labels trained on are right")
