"""MOIT+: the rows, the classifier, the learning rate and the targets of its last epochs."""

import copy

import pytest
import torch

from csot.methods.moit_plus import FINETUNE, MoitPlus
from csot.methods.parts.mixing import draw_mix
from methods.helpers import TRAIN, Tiny, accuracy, make_method, make_tiny, run_epochs
from reference import training as oracle


def trained(epochs: int = 8, **settings: object) -> tuple[MoitPlus, Tiny]:
    """After MOIT, three epochs before the end."""
    tiny = make_tiny(noise=0.3, epochs=epochs)
    tiny.context.labels[50:60] = -1
    method = make_method("moit_plus", tiny, plus_epochs=3, neighbours=20, first_stage=3, **settings)
    assert isinstance(method, MoitPlus)
    run_epochs(method, tiny, 1, epochs - 3)
    return method, tiny


def test_new_classifier_on_trusted_rows():
    method, tiny = trained()
    before = copy.deepcopy(method.network.state_dict())
    assert {stream for step in method.steps(5) for stream in step} == {TRAIN}
    method.begin_epoch(6)
    trusted = method.trusted.clone()
    after = method.network.state_dict()
    fresh = tiny.context.make_network(1).classifier.state_dict()
    for name, value in after.items():
        is_new = name.startswith("classifier")
        expected = fresh[name.removeprefix("classifier.")] if is_new else before[name]
        assert torch.equal(value, expected)
    taken = {int(row) for step in method.steps(6) for row in step[FINETUNE]}
    assert taken <= set(trusted.nonzero()[:, 0].tolist()) - set(range(6)) - set(range(50, 60))
    run_epochs(method, tiny, 7, 8)
    assert torch.equal(method.trusted, trusted)  # those of the end of MOIT
    assert accuracy(method, tiny) > 0.9


def test_schedule_starts_again_at_a_lower_rate():
    method, _ = trained()
    assert [method.schedule_epoch(epoch) for epoch in (1, 5, 6, 8)] == [
        (1, 5),
        (5, 5),
        (1, 3),
        (3, 3),
    ]
    groups = [{"lr": 0.1} for _ in range(2)]
    method.update_param_group(5, groups[0])
    method.update_param_group(6, groups[1])
    assert [group["lr"] for group in groups] == [0.1, pytest.approx(0.001)]


@pytest.mark.parametrize("epoch", [6, 7])
def test_targets(epoch):
    """One epoch of the three is without predictions."""
    method, tiny = trained(bootstrap_after=1)
    method.epoch = epoch
    batch = tiny.batch({FINETUNE: torch.arange(60, 72)})
    part, views = batch[FINETUNE], tiny.context.views
    generator = copy.deepcopy(tiny.context.generator)
    loss = method(batch)["finetune"].item()
    strong = part.view(views.strong, generator)
    mix = draw_mix(12, 1.0, generator, tiny.context.ranks)
    logits = method.network(part.view(views.plain, generator)).logits
    share = 0.2 if epoch == 7 else 0.0
    guessed = oracle.hot(logits.argmax(-1).tolist(), 3)
    targets = (1 - share) * oracle.hot(part.labels.tolist(), 3) + share * guessed
    inputs = oracle.mixed(strong.double().numpy(), mix.keep, mix.partners.tolist())
    seen = method.network(torch.from_numpy(inputs).float()).logits.detach().double().numpy()
    targets = oracle.mixed(targets, mix.keep, mix.partners.tolist())
    assert loss == pytest.approx(oracle.cross_entropy(seen, targets), abs=1e-5)
