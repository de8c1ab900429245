"""Measuring yields the same rows however images come, and leaves the network as it was."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import torch
import torchvision
from torch import nn

from survey import (
    CaptureError,
    InputError,
    MeasureSettings,
    SettingsError,
    SiteScore,
    measure,
    measure_batches,
    measure_network,
)
from survey.settings import Pooling
from tests.survey.nets import NETS, Net, build
from tests.survey.slow_affinity import slow_affinity

SETTINGS = MeasureSettings(images_per_score=12, micro_batch=4)

#: Networks whose output must not move by a bit, with an image size they take quickly.
BIT_FOR_BIT = {
    "alexnet": 96,
    "resnet18": 96,
    "vision transformer": 96,
    "mobilenet_v3_small": 96,
    "efficientnet_b0": 96,
    "googlenet": 96,
    "inception_v3": 96,
    "swin_t": 96,
    "convnext_tiny": 96,
}


def test_scores_equal_the_slow_computation_on_the_defined_pairs(subtests: pytest.Subtests) -> None:
    for name in NETS:
        with subtests.test(name=name):
            net: Net = build(name)
            images = net.images(24)
            rows = list(measure(net, [images], SETTINGS))
            expected = [
                slow_affinity(x.reshape(12, -1).numpy(), y.reshape(12, -1).numpy())
                for start in (0, 12)
                for x, y in net.expected(images[start : start + 12])
            ]
            assert [row.status for row in rows] == ["ok"] * len(rows)
            # The expected pairs are computed in float64, the network's in float32.
            assert [row.affinity for row in rows] == pytest.approx(expected, abs=1e-4)
            assert all(row.affinity is not None and 0 <= row.affinity <= 1 for row in rows)
            sites = len(rows) // 2
            assert [(row.batch, row.site) for row in rows] == [
                (b, s) for b in (0, 1) for s in range(sites)
            ]


def _varying(name: str, channels_last: bool) -> nn.Module:
    """Build a network whose output depends on the images, whatever its head starts as."""
    torch.manual_seed(0)
    if name == "vision transformer":
        # A small one: the weights of a published one take longer to draw than all else here.
        model = torchvision.models.VisionTransformer(96, 32, 3, 4, hidden_dim=64, mlp_dim=128)
    else:
        kwargs = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
        model = torchvision.models.get_model(name, weights=None, **kwargs)
    for module in model.modules():
        if isinstance(module, nn.Linear) and not bool(module.weight.any()):
            nn.init.normal_(module.weight, std=0.02)
        elif isinstance(module, nn.Conv2d):
            # Running variances of 1 keep a signal only where weights keep it.
            nn.init.kaiming_normal_(module.weight)
    return model.to(memory_format=torch.channels_last) if channels_last else model


def _measured_outputs(
    model: nn.Module, images: torch.Tensor, settings: MeasureSettings
) -> tuple[list[torch.Tensor], list[SiteScore]]:
    outputs: list[torch.Tensor] = []
    handle = model.register_forward_hook(lambda _module, _args, output: outputs.append(output))
    rows = list(measure(model, [images], settings))
    handle.remove()
    return outputs, rows


@pytest.mark.slow(seconds=7)
@pytest.mark.parametrize(
    ("name", "channels_last"),
    [*((name, False) for name in BIT_FOR_BIT), ("resnet18", True), ("mobilenet_v3_small", True)],
)
def test_outputs_are_the_same_bit_for_bit(name: str, channels_last: bool) -> None:
    model = _varying(name, channels_last)
    size = BIT_FOR_BIT[name]
    images = torch.randn(4, 3, size, size, generator=torch.Generator().manual_seed(1))
    if channels_last:
        images = images.to(memory_format=torch.channels_last)
    before = images.clone()
    settings = MeasureSettings(images_per_score=4, micro_batch=2)
    measured, rows = _measured_outputs(model, images, settings)
    model.eval()
    with torch.inference_mode():
        unmeasured = [model(part) for part in before.split(2)]
    varied = torch.cat(unmeasured)
    assert float(varied.std(dim=0).max()) > 1e-3 * float(varied.std())
    # The second pass finds the rounding noise of the first, the third whether it is the same again.
    first, disturbed, again, second = measured
    assert torch.equal(again, first)
    assert torch.equal(first, unmeasured[0])
    assert torch.equal(second, unmeasured[1])
    assert torch.allclose(disturbed, first, rtol=1e-3, atol=1e-3 * float(first.std()))
    assert all(row.status != "failed" for row in rows)
    assert len(rows) == {"googlenet": 57, "inception_v3": 94}.get(name, len(rows))


def test_batch_sizes_do_not_matter(subtests: pytest.Subtests) -> None:
    for sizes in [[24], [5, 7, 12], [1] * 24, [23, 1], [13, 11]]:
        with subtests.test(sizes=sizes):
            net = build("Residual")
            images = net.images(24)
            whole = list(measure(net, [images], SETTINGS))
            assert list(measure(net, images.split(sizes), SETTINGS)) == whole


def test_micro_batches_move_last_bits_only(subtests: pytest.Subtests) -> None:
    for micro_batch in [1, 5, 11, 12, 64]:
        for name in NETS:
            with subtests.test(name=name, micro_batch=micro_batch):
                net = build(name).double()
                images = net.images(12).double()
                ours, theirs = (
                    list(
                        measure(
                            net, [images], MeasureSettings(images_per_score=12, micro_batch=size)
                        )
                    )
                    for size in (4, micro_batch)
                )
                scores = [row.affinity for row in ours]
                assert [row.affinity for row in theirs] == pytest.approx(scores, abs=1e-6)
                assert [row.site_name for row in theirs] == [row.site_name for row in ours]


def test_a_partial_last_batch_counts_but_is_not_scored() -> None:
    net = build("Residual")
    images = net.images(29)
    labels = torch.arange(29) % 10
    batches = list(measure_batches(net, [(images, labels)], SETTINGS))
    assert [(b.batch, b.images, len(b.scores)) for b in batches] == [
        (0, 12, 4),
        (1, 12, 4),
        (2, 5, 0),
    ]
    with torch.inference_mode():
        order = net.eval()(images).argsort(dim=1, descending=True)
    top1 = int((order[:, 0] == labels).sum())
    top5 = int((order[:, :5] == labels[:, None]).any(dim=1).sum())
    result = [
        sum(getattr(b, name) for b in batches) for name in ("labelled", "top1_hits", "top5_hits")
    ]
    assert result == [29, top1, top5]
    assert all(b.seconds > 0 for b in batches)


def test_batches_already_measured_are_numbered_on() -> None:
    net = build("Residual")
    images = net.images(24)
    both = list(measure(net, [images], SETTINGS))
    (last,) = measure_batches(net, [images[12:]], SETTINGS, first_batch=1)
    assert list(last.scores) == both[len(both) // 2 :]


def test_at_most_one_micro_batch_is_inside_the_network_at_a_time() -> None:
    net = build("Residual")
    seen: list[int] = []
    net.register_forward_pre_hook(lambda _module, args: seen.append(len(args[0])))
    drawn: list[int] = []

    def batches() -> Iterator[torch.Tensor]:
        for number in range(30):
            drawn.append(number)
            assert len(drawn) * 3 <= sum(seen) + 4 + 3
            yield net.images(3, seed=number)

    list(measure(net, batches(), MeasureSettings(images_per_score=90, micro_batch=4)))
    assert max(seen) == 4
    # The first four images pass twice more, to find the rounding noise.
    assert sum(seen) == 90 + 2 * 4


@pytest.mark.parametrize(
    ("images", "message"), [(11, "only 11 images .* images_per_score .12."), (0, "no images")]
)
def test_too_few_images_are_an_error_that_names_the_setting(images: int, message: str) -> None:
    net = build("Residual").train()
    with pytest.raises(InputError, match=message):
        list(measure(net, [net.images(images)], SETTINGS))
    assert net.training
    with pytest.raises(InputError, match="no images"):
        list(measure(net, [], SETTINGS))


def test_images_of_two_sizes_are_an_error() -> None:
    net = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.ReLU())
    with pytest.raises(InputError, match="of one size"):
        list(measure(net, [torch.rand(7, 3, 8, 8), torch.rand(7, 3, 9, 9)], SETTINGS))


def test_a_name_is_no_network() -> None:
    with pytest.raises(InputError, match="not a str"):
        measure_network("resnet18", (3, 8, 8), "path_length")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="not a str"):
        next(measure("resnet18", [torch.zeros(4, 3)]))  # type: ignore[arg-type]


@pytest.mark.parametrize("settings", [{"images_per_score": 4}, {}, 4, "auto", MeasureSettings])
def test_settings_of_another_type_are_refused_in_words(settings: Any) -> None:
    with pytest.raises(SettingsError, match="must be MeasureSettings"):
        next(measure(torch.nn.ReLU(), [torch.zeros(4, 3)], settings))


def test_labels_that_do_not_fit_are_an_error() -> None:
    net = build("Residual")
    with pytest.raises(InputError, match="12 images"):
        list(measure(net, [(net.images(12), torch.zeros(11))], SETTINGS))


def test_a_network_without_activations_is_an_error() -> None:
    with pytest.raises(CaptureError, match="no activation"):
        list(measure(nn.Linear(4, 4), [torch.randn(12, 4)], SETTINGS))


def test_a_path_that_depends_on_the_images_is_an_error() -> None:
    class Fickle(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return images.relu() if float(images[0, 0]) > 0 else images.relu().tanh()

    images = torch.tensor([1.0, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1])[:, None].repeat(1, 3)
    with pytest.raises(CaptureError, match=r"2 activation calls .* 1 before"):
        list(measure(Fickle(), [images], SETTINGS))


def _state(net: nn.Module) -> dict[str, object]:
    return {
        "training": [module.training for module in net.modules()],
        "hooks": [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in net.modules()],
        "attributes": [sorted(vars(module)) for module in net.modules()],
        "marks": [vars(tensor) for tensor in (*net.parameters(), *net.buffers())],
        "gradients": [(p.requires_grad, p.grad is None) for p in net.parameters()],
        "bytes": [t.numpy().tobytes() for t in net.state_dict().values()],
    }


def _mixed(name: str) -> Net:
    net = build(name).train()
    frozen = list(net.children())[::2]
    for module in frozen:
        module.eval()
    return net


def test_the_network_is_as_before_afterwards(subtests: pytest.Subtests) -> None:
    for name in NETS:
        with subtests.test(name=name):
            net = _mixed(name)
            before = _state(net)
            list(measure(net, [net.images(24)], SETTINGS))
            assert _state(net) == before


def test_the_network_is_as_before_after_an_exception() -> None:
    net = _mixed("Residual")
    before = _state(net)

    def batches() -> Iterator[torch.Tensor]:
        yield net.images(12)
        raise OSError("disk gone")

    with pytest.raises(OSError, match="disk gone"):
        list(measure(net, batches(), SETTINGS))
    assert _state(net) == before
    with pytest.raises(RuntimeError):
        list(measure(net, [torch.randn(12, 5, 8, 8)], SETTINGS))
    assert _state(net) == before


def test_an_abandoned_measurement_restores_the_network() -> None:
    net = _mixed("Residual")
    before = _state(net)
    rows = measure(net, [net.images(24)], SETTINGS)
    next(rows)
    rows.close()  # type: ignore[attr-defined]
    assert _state(net) == before


@pytest.mark.parametrize("grad", [True, False])
def test_nothing_is_active_between_rows(grad: bool) -> None:
    net = build("Residual")
    with torch.set_grad_enabled(grad):
        for _ in measure(net, [net.images(24)], SETTINGS):
            assert not torch.is_inference_mode_enabled()
            assert torch.is_grad_enabled() is grad
            assert not torch.overrides._get_current_function_mode_stack()
            assert _state(net)["hooks"] == [0] * len(list(net.modules()))
            assert (torch.ones(1, requires_grad=True) * 2).requires_grad is grad
        assert torch.is_grad_enabled() is grad


def test_what_a_network_keeps_of_a_pass_can_be_trained_and_measured_again() -> None:
    class Keeping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.LazyLinear(6), nn.ReLU(), nn.Linear(6, 2))
            self.shift: torch.Tensor | None = None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.shift is None:
                self.shift = torch.linspace(0, 1, x.shape[1]).sin()
            made: torch.Tensor = self.layers(x + self.shift)
            return made

    torch.manual_seed(0)
    net, images = Keeping(), torch.randn(12, 5)
    list(measure(net, [images], SETTINGS))
    assert net.shift is not None
    net.shift.requires_grad_()
    net.train()(images).sum().backward()
    assert net.shift.grad is not None
    assert all(each.grad is not None for each in net.parameters())
    # A tensor of somebody else's inference mode is followed too.
    with torch.inference_mode():
        net.shift = torch.linspace(0, 1, 5).sin()
    scores = measure_network(net.eval(), (5,), ["active_fraction"], [images])
    assert scores["active_fraction"].value is not None


def test_images_stay_as_they_are_and_give_the_same_scores_again() -> None:
    class InPlace(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sub_(0.5).div_(0.25)

    torch.manual_seed(0)
    net = nn.Sequential(InPlace(), nn.Linear(5, 6), nn.ReLU())
    images = torch.rand(24, 5)
    before = images.clone()
    first, second = (list(measure(net, [images[:12], images[12:]], SETTINGS)) for _ in range(2))
    assert first == second
    assert torch.equal(images, before)


class Adapter(nn.Linear):
    """A linear layer with a low-rank change, which in eval mode is a part of its weights."""

    def __init__(self) -> None:
        super().__init__(6, 6)
        self.down, self.up = nn.Parameter(torch.randn(2, 6)), nn.Parameter(torch.randn(6, 2))
        self.merged = False

    def train(self, mode: bool = True) -> Adapter:
        if mode == self.merged:
            self.weight.data += (-1 if mode else 1) * (self.up @ self.down).detach()
            self.merged = not mode
        super().train(mode)
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = super().forward(x)
        return made if self.merged else made + x @ self.down.mT @ self.up.mT


def test_what_takes_itself_into_weights_in_eval_mode_is_taken_out_again() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(Adapter(), nn.ReLU(), nn.Dropout()).train()
    net[2].eval()
    images, before = torch.randn(12, 6), net[0].weight.clone()
    list(measure(net, [images], SETTINGS))
    assert [module.training for module in net] == [True, True, False]
    assert torch.allclose(net[0].weight, before, atol=1e-6)
    net(images).sum().backward()
    assert net[0].down.grad is not None


@pytest.mark.parametrize("whole", [True, False])
def test_a_part_keeps_the_mode_that_the_whole_would_change(whole: bool) -> None:
    class Backbone(nn.Sequential):
        def train(self, mode: bool) -> Backbone:  # type: ignore[override]
            return super().train(mode)

    torch.manual_seed(0)
    net = Backbone(Adapter(), nn.ReLU()).train(whole)
    net[0].train(not whole)
    before = net[0].weight.clone()
    list(measure(net, [torch.randn(12, 6)], SETTINGS))
    assert (net.training, net[0].training, net[0].merged) == (whole, not whole, whole)
    assert torch.allclose(net[0].weight, before, atol=1e-6)


def test_an_exported_network_is_refused() -> None:
    exported = torch.export.export(nn.Sequential(nn.ReLU()), (torch.randn(2, 5),)).module()
    with pytest.raises(InputError, match="eval"):
        list(measure(exported, [torch.randn(12, 5)], SETTINGS))


def test_a_network_in_training_mode_is_measured_in_eval_mode() -> None:
    net = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Dropout(), nn.ReLU()).train()
    images = torch.randn(12, 6)
    rows = list(measure(net, [images], SETTINGS))
    assert list(measure(net.eval(), [images], SETTINGS)) == rows
    assert not bool(net[1].running_mean.any())


def test_dead_constant_and_broken_sites_are_rows_among_the_others() -> None:
    class Sick(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            good = torch.tanh(x)
            torch.relu(-x.abs() - 1)
            torch.sigmoid(x * 0)
            torch.nn.functional.silu(torch.log(x))
            torch.nn.functional.gelu((x + 2) * math.inf)
            torch.nn.functional.glu(x)
            torch.nn.functional.elu(torch.cat([x, x]))
            torch.relu(x[:, :0])
            return good

    rows = list(measure(Sick(), [torch.randn(12, 4)], SETTINGS))
    expected = ["ok", "constant", "constant", "nonfinite", "nonfinite", "ok", "failed", "failed"]
    assert [row.status for row in rows] == expected
    assert [row.affinity is None for row in rows] == [status != "ok" for status in expected]
    assert all((row.reason is None) == (row.status == "ok") for row in rows)
    # Of a gated linear unit, the gate: half of the channels.
    assert rows[5].channels == 2
    assert "dead" in rows[1].flags
    assert "dead" not in rows[2].flags


def test_shrinkage_and_ridge_reach_the_scores() -> None:
    net = build("Perceptron")
    images = net.images(12)
    result = {
        (shrinkage, ridge): [
            row.affinity
            for row in measure(
                net, [images], dataclasses.replace(SETTINGS, shrinkage=shrinkage, ridge=ridge)
            )
        ]
        for shrinkage in ("ledoit-wolf", "none")
        for ridge in ("absolute", "relative")
    }
    x, y = net.expected(images)[0]
    for (shrinkage, ridge), scores in result.items():
        slow = slow_affinity(x.numpy(), y.numpy(), shrinkage, ridge)
        assert scores[0] == pytest.approx(slow, abs=1e-4)
    assert len({scores[0] for scores in result.values()}) == 4


def test_pooling_reaches_the_rows() -> None:
    net = build("ChannelsLast")
    images = net.images(12)
    rows = {
        pooling: list(measure(net, [images], dataclasses.replace(SETTINGS, pooling=pooling)))
        for pooling in get_args(Pooling)
    }
    # A GELU on N x 6 x 6 x C and a ReLU on N x C x 6 x 6, both of 6 channels.
    assert {pooling: [row.channels for row in result] for pooling, result in rows.items()} == {
        "mean": [6, 6],
        "pre": [6, 6],
        "sum": [6, 6],
        "flatten": [216, 216],
        "public_code": [6, 6],
    }
    # What a row says of the tensors themselves does not depend on how they are pooled.
    assert {tuple((row.layout, row.spatial) for row in result) for result in rows.values()} == {
        (("N,*,*,C", "6x6"), ("N,C,*,*", "6x6"))
    }
    assert len({tuple(row.sparsity_after for row in result) for result in rows.values()}) == 1
    gelu, relu = (
        {pooling: result[site].affinity for pooling, result in rows.items()} for site in (0, 1)
    )
    # A sum is a multiple of the mean, which scores do not see.
    assert gelu.pop("sum") == pytest.approx(gelu["mean"], abs=1e-9)
    assert relu.pop("sum") == pytest.approx(relu["mean"], abs=1e-9)
    assert rows["sum"][0].norm == pytest.approx(36 * rows["mean"][0].norm)
    assert len(set(gelu.values())) == 4
    assert relu["public_code"] == relu["mean"]
    assert len(set(relu.values())) == 3


def test_every_metric_of_a_healthy_site_has_a_value() -> None:
    net = build("Residual")
    for row in measure(net, [net.images(24)], MeasureSettings(24, 8)):
        assert row.notes == ()
        missing = [name for name, value in dataclasses.asdict(row).items() if value is None]
        assert missing == ["reason"]
