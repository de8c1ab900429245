"""Linearisation with training: resumed bit for bit, what omega does, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from catalog.training_checkpoints import load_training, save_training
from survey import (
    CaptureError,
    CheckpointError,
    InputError,
    LabelledImages,
    LinearisationSettings,
    Linearised,
    SettingsError,
    linearise,
)
from survey.linearising.results import TrainingState
from survey.linearising.training import Training

SETTINGS = LinearisationSettings(omega=0.02, seed=3, epochs=3, plain_epochs=2, images_per_step=16)


def net() -> nn.Sequential:
    torch.manual_seed(1)
    first = nn.Sequential(nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Dropout(0.2))
    return nn.Sequential(first, nn.Flatten(), nn.Linear(54, 8), nn.ReLU(), nn.Linear(8, 2))


def data(n: int = 100, seed: int = 0) -> LabelledImages:
    images = torch.randn(n, 1, 5, 5, generator=torch.Generator().manual_seed(seed))
    # A parabola: no affine network separates it.
    return LabelledImages(images, (images[:, 0, 0, 0].square() > 0.5).long())


def trained(settings: LinearisationSettings = SETTINGS, **options: object) -> Linearised:
    return linearise(net(), data(), data(200, seed=1), settings, **options)  # type: ignore[arg-type]


def bits(result: Linearised) -> dict[str, bytes]:
    return {name: each.numpy().tobytes() for name, each in result.network.state_dict().items()}


@pytest.fixture(scope="module", params=[False, True], ids=["late", "early"])
def whole(request: pytest.FixtureRequest) -> tuple[Linearised, list[TrainingState]]:
    states: list[TrainingState] = []
    settings = replace(SETTINGS, penalty_first=request.param)
    return trained(settings, keep=states.append), states


@pytest.mark.parametrize("done", [1, 2, 3, 4, 5])
def test_a_resumed_training_ends_bit_for_bit_as_an_uninterrupted_one(
    done: int, whole: tuple[Linearised, list[TrainingState]], tmp_path: Path
) -> None:
    result, states = whole
    path = tmp_path / "some" / "state.safetensors"
    save_training(path, states[done - 1])
    torch.manual_seed(done)
    kept: list[TrainingState] = []
    resumed = trained(result.settings, resume=load_training(path), keep=kept.append)
    assert len(kept) == 5 - done
    assert bits(resumed) == bits(result)
    assert resumed.passes == result.passes
    assert resumed.top1 == result.top1
    assert [path] == list(path.parent.iterdir())


def test_another_seed_gives_other_weights_and_the_caller_s_numbers_stay() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    built = net()
    torch.manual_seed(7)
    first = linearise(built, data(), data(), replace(SETTINGS, epochs=1, plain_epochs=0))
    assert torch.equal(torch.rand(3), expected)
    other = linearise(built, data(), data(), replace(SETTINGS, epochs=1, plain_epochs=0, seed=4))
    assert bits(first) != bits(other)


def test_the_model_itself_is_not_trained() -> None:
    built = net().train()
    before = {name: value.clone() for name, value in built.state_dict().items()}
    linearise(built, data(), data(), replace(SETTINGS, epochs=1))
    assert all(torch.equal(before[name], value) for name, value in built.state_dict().items())
    assert built.training
    assert not any(each._forward_hooks for each in built.modules())


def test_without_a_penalty_the_path_length_is_kept_and_slopes_are_learnt() -> None:
    result = trained(replace(SETTINGS, omega=0.0, epochs=4))
    assert result.path_length == result.full_path_length == 2.0
    assert result.path_length_normalised == result.full_path_length_normalised == 2.0
    assert result.active_fraction == 1.0
    assert (result.network.slopes != 0).any()


def test_plain_passes_leave_every_relu_one() -> None:
    states: list[TrainingState] = []
    trained(keep=states.append)
    assert [bool(state.tensors["network.slopes"].any()) for state in states] == [
        False, False, True, True, True,
    ]  # fmt: skip


def test_plain_passes_after_the_penalty_keep_its_slopes_and_train_the_weights() -> None:
    states: list[TrainingState] = []
    result = trained(replace(SETTINGS, omega=0.3, penalty_first=True), keep=states.append)
    assert len(states) == 5
    slopes = [state.tensors["network.slopes"] for state in states]
    assert slopes[0].any()
    assert torch.equal(slopes[2], slopes[4])
    assert states[2].passes[-1].active == result.passes[-1].active
    weights = [state.tensors["network.model.2.weight"] for state in states]
    assert not torch.equal(weights[2], weights[4])


def test_both_orders_have_the_same_passes() -> None:
    late = replace(SETTINGS, epochs=3, plain_epochs=2)
    early = replace(late, penalty_first=True)
    for settings, firsts in ((late, [0, 0, 2, 2, 2]), (early, [0, 0, 0, 3, 3])):
        phases = [settings.phase(number) for number in range(settings.passes)]
        assert sum(each.penalised for each in phases) == 3
        assert [each.first for each in phases] == firsts
        assert all(each.passes == (3 if each.penalised else 2) for each in phases)


def test_a_great_penalty_makes_the_network_affine() -> None:
    result = trained(replace(SETTINGS, omega=1.0, epochs=8))
    assert result.path_length == result.path_length_normalised == 0.0
    assert [(site.name, site.channels, site.active) for site in result.sites] == [
        ("0.2#1", 6, 0),
        ("3#1", 8, 0),
    ]
    a, b = data(4, seed=5).images, data(4, seed=6).images
    network = result.network
    with torch.no_grad():
        assert network((a + b) / 2) == pytest.approx((network(a) + network(b)) / 2, abs=1e-4)
    assert [each.active for each in result.passes] == sorted(
        (each.active for each in result.passes), reverse=True
    )


def test_the_first_step_is_that_of_the_loss_written_out() -> None:
    settings = LinearisationSettings(
        omega=0.05, epochs=1, images_per_step=100, momentum=0.0, weight_decay=0.0
    )
    built = nn.Sequential(nn.Flatten(), nn.Linear(25, 8), nn.PReLU(8, 0.0), nn.Linear(8, 2))
    plain = nn.Sequential(built[0], built[1], nn.ReLU(), built[3])
    images = data()
    training = Training(plain, images, settings)
    (state,) = training.passes()
    shares = built(images.images).log_softmax(1).gather(1, images.labels[:, None])
    slope = built[2].weight
    loss = -shares.mean() + 0.05 * (1 - slope).abs().pow(0.5).sum()
    loss.backward()
    rate = settings.learning_rate_at(0, 1)
    assert state.passes[0].loss == pytest.approx(-shares.mean().item(), rel=1e-5)
    assert state.tensors["network.slopes"] == pytest.approx(-rate * slope.grad, abs=1e-6)
    moved = (built[1].weight - rate * built[1].weight.grad).detach()
    assert state.tensors["network.model.1.weight"] == pytest.approx(moved, abs=1e-6)


def test_the_learning_rate_rises_to_its_highest_and_falls() -> None:
    rates = [LinearisationSettings().learning_rate_at(step, 100) for step in range(100)]
    assert max(rates) == rates[29] == pytest.approx(0.1)
    assert rates[:30] == sorted(rates[:30])
    assert rates[29:] == sorted(rates[29:], reverse=True)
    assert 0 < rates[-1] < 1e-4


def test_a_tick_says_how_far_it_is_and_can_end_the_training() -> None:
    parts: list[float] = []
    trained(tick=parts.append)
    assert len(parts) == 5 * 6
    assert parts == pytest.approx([(i + 1) / 30 for i in range(30)])

    def stop(part: float) -> None:
        raise KeyboardInterrupt

    states: list[TrainingState] = []
    with pytest.raises(KeyboardInterrupt):
        trained(tick=stop, keep=states.append)
    assert not states


def test_the_state_of_another_training_is_refused(
    whole: tuple[Linearised, list[TrainingState]],
) -> None:
    state = whole[1][0]
    for settings in (replace(SETTINGS, omega=0.03), replace(SETTINGS, seed=4)):
        with pytest.raises(SettingsError, match="another"):
            trained(settings, resume=state)
    other = net()
    with torch.no_grad():
        other[2].weight[0, 0] += 1
    with pytest.raises(SettingsError, match="another"):
        linearise(other, data(), data(), SETTINGS, resume=state)
    with pytest.raises(SettingsError, match="another"):
        linearise(net(), data(101), data(), SETTINGS, resume=state)


def test_a_damaged_state_is_refused_and_a_missing_one_is_none(
    whole: tuple[Linearised, list[TrainingState]], tmp_path: Path
) -> None:
    path = tmp_path / "state.safetensors"
    assert load_training(path) is None
    save_training(path, whole[1][0])
    content = path.read_bytes()
    for damaged in (content[:100], content[:-1], b"", b"\x80\x04." + content):
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="no state of a training"):
            load_training(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("omega", -0.1), ("omega", float("nan")), ("omega", float("inf")), ("omega", "0.1"),
        ("seed", -1), ("seed", 1.5), ("seed", 1 << 63), ("epochs", 0), ("plain_epochs", -1),
        ("images_per_step", 0), ("learning_rate", 0), ("momentum", 1), ("weight_decay", -1),
        ("epochs", True), ("penalty_first", 1),
    ],
)  # fmt: skip
def test_settings_that_are_not_allowed_are_refused(name: str, value: object) -> None:
    with pytest.raises(SettingsError, match=name):
        LinearisationSettings(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "made",
    [
        lambda: LabelledImages(torch.zeros(3, 4), torch.zeros(2).long()),
        lambda: LabelledImages(torch.zeros(3, 4), torch.zeros(3)),
        lambda: LabelledImages(torch.zeros(3, 4), torch.tensor([0, -1, 1])),
        lambda: LabelledImages(torch.zeros(3, 4).long(), torch.zeros(3).long()),
        lambda: LabelledImages(torch.full((3, 4), torch.nan), torch.zeros(3).long()),
        lambda: LabelledImages(torch.zeros(1, 4), torch.zeros(1).long()),
        lambda: LabelledImages([0.0], torch.zeros(1).long()),  # type: ignore[arg-type]
    ],
)
def test_images_without_a_class_each_are_refused(made: Callable[[], LabelledImages]) -> None:
    with pytest.raises(InputError):
        made()


def test_networks_that_do_not_suit_the_labels_are_refused() -> None:
    images = data()
    with pytest.raises(InputError, match="label is 1, and the network has 1 outputs"):
        linearise(nn.Sequential(nn.Flatten(), nn.Linear(25, 1), nn.ReLU()), images, images)
    with pytest.raises(InputError, match="row of outputs"):
        linearise(nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU()), images, images)
    with pytest.raises(InputError, match="not finite in pass 1"):
        linearise(net(), images, images, replace(SETTINGS, learning_rate=1e30))
    unknown = LabelledImages(images.images, images.labels + 2)
    passes: list[TrainingState] = []
    with pytest.raises(InputError, match="the least label is 2"):
        linearise(net(), images, unknown, SETTINGS, keep=passes.append)
    wide = LabelledImages(torch.randn(4, 1, 9, 9), torch.tensor([0, 1, 0, 1]))
    with pytest.raises(InputError, match="does not take images of shape"):
        linearise(net(), images, wide, SETTINGS, keep=passes.append)
    assert not passes
    some = LabelledImages(images.images, images.labels + 1)
    assert linearise(net(), images, some, SETTINGS).heldout == int((some.labels == 1).sum())


def test_what_cannot_be_trained_is_refused() -> None:
    with pytest.raises(InputError, match="no weight of the network is trainable"):
        linearise(net().requires_grad_(requires_grad=False), data(), data(), SETTINGS)
    pooled = nn.Sequential(nn.Flatten(), nn.Linear(25, 8), nn.BatchNorm1d(8), nn.ReLU())
    with pytest.raises(InputError, match="cannot be trained"):
        linearise(pooled, data(), data(), replace(SETTINGS, images_per_step=1))
    made, images, heldout = net(), data(), data(200, seed=1)
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode:
            result = linearise(made, images, heldout, SETTINGS)
        assert bits(result) == bits(trained())


@pytest.mark.parametrize("passes", [1, 4, 6])
def test_a_failure_of_the_machine_is_raised_as_it_is(passes: int) -> None:
    class Failing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.left = net(), passes

        def forward(self, x: torch.Tensor) -> object:
            self.left -= not x.is_meta
            if not self.left:
                raise torch.AcceleratorError("CUDA error: unspecified launch failure")
            return self.body(x)

    with pytest.raises(torch.AcceleratorError):
        linearise(Failing(), data(), data(), SETTINGS)


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad:UserWarning")
@pytest.mark.parametrize(
    ("reentrant", "refusal"), [(True, "runs without gradients"), (False, "cannot be trained")]
)
def test_activation_checkpointing_is_refused(reentrant: bool, refusal: str) -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = net()

        def forward(self, x: torch.Tensor) -> object:
            return checkpoint(self.body, x, use_reentrant=reentrant)

    with pytest.raises((CaptureError, InputError), match=refusal):
        linearise(Checkpointed(), data(), data(), SETTINGS)


def test_images_stay_as_they_are_whatever_the_network_does_to_them() -> None:
    class InPlace(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sub_(0.5).div_(0.25)

    def made() -> nn.Sequential:
        return nn.Sequential(InPlace(), net())

    images, heldout = data(), data(600, seed=1)
    copies = images.images.clone(), heldout.images.clone()
    states: list[TrainingState] = []
    first = linearise(made(), images, heldout, SETTINGS, keep=states.append)
    again = linearise(made(), images, heldout, SETTINGS, resume=states[1])
    assert torch.equal(images.images, copies[0])
    assert torch.equal(heldout.images, copies[1])
    assert bits(again) == bits(first)
    with torch.no_grad():
        outputs = first.network(heldout.images.clone())
    assert isinstance(outputs, torch.Tensor)
    assert first.top1 == again.top1 == (outputs.argmax(1) == heldout.labels).double().mean().item()
