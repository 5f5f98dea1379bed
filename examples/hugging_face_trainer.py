"""CSOT as a callback of Hugging Face's `Trainer`: a tiny BERT, made here, on made-up sentences.

At the beginning of each epoch after the warm-up, the callback predicts all training rows, asks the
relabeller, and changes the labels that the `Trainer` is going to train on. Rows that are not
selected get the label -100, which the loss leaves out.

    pip install 'csot[hf]' accelerate
    python examples/hugging_face_trainer.py
"""

import tempfile
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

import csot

CLASSES, WORDS, LENGTH = 4, 80, 12
EPOCHS, WARMUP = 12, 6


class Sentences(Dataset[dict[str, Tensor]]):
    """Each class prefers words of its own; a share of the labels is drawn anew."""

    def __init__(self, rows: int, noise: float, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.truth = torch.randint(CLASSES, (rows,), generator=generator)
        common = torch.randint(1, WORDS, (rows, LENGTH), generator=generator)
        own = torch.randint(1, WORDS // CLASSES, (rows, LENGTH), generator=generator)
        own += self.truth[:, None] * (WORDS // CLASSES)
        is_own = torch.rand(rows, LENGTH, generator=generator) < 0.5
        self.words = torch.where(is_own, own, common)
        drawn = torch.randint(CLASSES, (rows,), generator=generator)
        is_wrong = torch.rand(rows, generator=generator) < noise
        self.given = torch.where(is_wrong, drawn, self.truth)
        self.targets = self.given.clone()

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        return {"input_ids": self.words[row], "labels": self.targets[row]}


class Relabelling(TrainerCallback):
    """Changes `data.targets` at the beginning of each epoch after the warm-up."""

    def __init__(self, data: Sentences) -> None:
        self.data = data
        self.relabeller = csot.Relabeller(epochs=EPOCHS - WARMUP, num_classes=CLASSES)

    @torch.no_grad()
    def on_epoch_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        if round(state.epoch) < WARMUP:
            return
        model = others["model"].eval()
        outputs = model(self.data.words.to(model.device), output_hidden_states=True)
        features = outputs.hidden_states[-1].mean(1)
        found = self.relabeller.update(outputs.logits.cpu(), features.cpu(), self.data.given)
        self.data.targets = torch.where(found.selected, found.pseudo_labels, -100)
        model.train()


def main() -> float:
    """Share of right predictions for new sentences."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=WORDS,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=LENGTH,
        num_labels=CLASSES,
    )
    model = BertForSequenceClassification(config)
    data, test = Sentences(600, noise=0.4, seed=0), Sentences(300, noise=0.0, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            output_dir=folder,
            num_train_epochs=EPOCHS,
            per_device_train_batch_size=32,
            learning_rate=3e-3,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            logging_strategy="no",
            dataloader_pin_memory=False,
        )
        trainer = Trainer(model, settings, train_dataset=data, callbacks=[Relabelling(data)])
        trainer.train()
    with torch.no_grad():
        predicted = model.eval()(test.words).logits.argmax(1)
    return float((predicted == test.truth).float().mean())


if __name__ == "__main__":
    print(f"accuracy on new sentences {main():.1%}")
