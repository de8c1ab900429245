"""A watched pass sees the outermost calls, refuses what hides them, and leaves no trace."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from survey import CaptureError
from survey.capture.axes import Layout
from survey.capture.forward import Capture
from survey.capture.pooling import pool
from tests.survey.nets import NETS, build


class Calls(nn.Module):
    """A function as a network, with an activation module at hand."""

    def __init__(self, function: Callable[[Calls, torch.Tensor], object]) -> None:
        super().__init__()
        self.function = function
        self.act = nn.SiLU(inplace=True)

    def forward(self, images: torch.Tensor) -> object:
        return self.function(self, images)


def names(model: nn.Module, images: torch.Tensor) -> list[str]:
    with torch.inference_mode():
        return [pair.site.site_name for pair in Capture(model.eval()).forward(images)[1]]


def test_the_output_is_that_of_the_unwatched_network(subtests: pytest.Subtests) -> None:
    for name in NETS:
        with subtests.test(name=name):
            net = build(name)
            images = net.images(4)
            with torch.inference_mode():
                unwatched = net(images.clone())
                watched, _ = Capture(net).forward(images.clone())
            assert float(unwatched.std(dim=0).max()) > 0
            assert torch.equal(watched, unwatched)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_precisions_are_watched_too(dtype: torch.dtype) -> None:
    net = build("Residual").to(dtype)
    images = net.images(4).to(dtype)
    with torch.inference_mode():
        unwatched = net(images)
        watched, pairs = Capture(net).forward(images)
    assert torch.equal(watched, unwatched)
    # Half precision is summed in float32.
    eps = min(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps)
    assert {pair.resolution for pair in pairs} == {eps}
    assert all(pair.x is not None and pair.x.dtype == torch.float64 for pair in pairs)


def test_calls_are_numbered_by_place_and_function() -> None:
    def forward(net: Calls, x: torch.Tensor) -> torch.Tensor:
        x = net.act(functional.relu(net.act(functional.relu(x))))
        return net.act.forward(torch.tanh(x))

    expected = [":relu#1", "act#1", ":relu#2", "act#2", ":tanh#1", ":silu#1"]
    assert names(Calls(forward), torch.randn(2, 4)) == expected


def test_keyword_arguments_are_seen() -> None:
    net = Calls(lambda net, x: functional.relu(input=net.act(input=x)))
    assert names(net, torch.randn(2, 4)) == ["act#1", ":relu#1"]


def test_an_input_is_pooled_before_an_in_place_activation_overwrites_it() -> None:
    images = torch.randn(3, 4)
    before = images.clone()
    with torch.inference_mode():
        _, (pair,) = Capture(Calls(lambda net, x: net.act(x)).eval()).forward(images)
    assert pair.x is not None
    assert pair.y is not None
    assert torch.equal(pair.x, before.double())
    assert torch.equal(pair.y, functional.silu(before).double())
    assert torch.equal(images, functional.silu(before))


def test_what_is_pooled_outlives_changes_in_place(subtests: pytest.Subtests) -> None:
    """Float64 values that are only laid out anew would be the network's own memory."""
    for shape in [(3, 4), (3, 4, 5, 5)]:
        for pooling in ["mean", "sum", "flatten", "public_code"]:
            with subtests.test(pooling=pooling, shape=shape):
                images = torch.randn(shape, dtype=torch.float64)
                before, after = images.clone(), functional.silu(images)
                net = Calls(lambda net, x: net.act(x).add_(1.0)).eval()
                with torch.inference_mode():
                    _, (pair,) = Capture(net, pooling).forward(images)
                layout = Layout(0, (1,))
                assert pair.x is not None
                assert pair.y is not None
                assert torch.equal(pair.x, pool(before, layout, 3, pooling))
                assert torch.equal(pair.y, pool(after, layout, 3, pooling))


@pytest.mark.parametrize("rows", [4, 8])
def test_a_table_that_nothing_is_known_of_is_not_taken_for_images(rows: int) -> None:
    table = [torch.randn(rows, 6)]
    net = Calls(lambda net, x: x + torch.tanh(table[0]).mean()).eval()
    with torch.inference_mode():
        _, (pair,) = Capture(net).forward(torch.randn(4, 6))
    assert pair.x is None
    assert "cannot be told" in (pair.reason or "")


def _with_hook(module: nn.Module) -> nn.Module:
    module.register_forward_hook(lambda _module, _args, output: output - 0.5)
    return module


def _with_forward(module: nn.Module) -> nn.Module:
    module.forward = functional.leaky_relu  # type: ignore[method-assign]
    return module


def _with_bound(module: nn.ReLU6) -> nn.Module:
    module.min_val = -1.0
    return module


@pytest.mark.parametrize(
    "module",
    [
        nn.ReLU(),
        _with_hook(nn.ReLU()),
        _with_forward(nn.ReLU()),
        _with_bound(nn.ReLU6()),
    ],
)
def test_zeros_behind_a_rectifier_that_was_changed_are_counted(module: nn.Module) -> None:
    net = nn.Sequential(module).eval()
    images = torch.randn(3, 4, 5, 5)
    with torch.inference_mode():
        output, (pair,) = Capture(net).forward(images)
    assert int(pair.after.near) == int((output.abs() <= 1e-3).sum())


def test_an_activation_that_is_not_dense_fails_with_a_reason() -> None:
    net = Calls(lambda _, x: functional.relu(x.to_sparse()).to_dense()).eval()
    with torch.inference_mode():
        _, (pair,) = Capture(net).forward(torch.randn(3, 4))
    assert "dense" in (pair.reason or "")


def test_a_network_may_track_gradients_inside() -> None:
    def tracked(net: Calls, x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            return net.act(x.clone().requires_grad_() * 2).detach()

    _, (pair,) = Capture(Calls(tracked).eval()).forward(torch.randn(3, 4))
    assert pair.y is not None
    assert not pair.y.requires_grad


GATED_LINEAR_UNITS: dict[str, Callable[[Calls, torch.Tensor], object]] = {
    "function": lambda net, x: functional.glu(x, dim=1),
    "function by position": lambda net, x: functional.glu(x, 1),
    "module": lambda net, x: net.glu(x),
    "along the last axis": lambda net, x: functional.glu(x.movedim(1, -1)),
}


@pytest.mark.parametrize("name", GATED_LINEAR_UNITS)
def test_a_gated_linear_unit_is_measured_at_its_gate(name: str) -> None:
    net = Calls(GATED_LINEAR_UNITS[name]).eval()
    net.glu = nn.GLU(dim=1)
    images = torch.randn(3, 4, 5, 5)
    with torch.inference_mode():
        unwatched = net(images)
        watched, (pair,) = Capture(net).forward(images)
    gate = images[:, 2:].double()
    assert torch.equal(watched, unwatched)
    assert (pair.site.role, pair.site.graph_depth, pair.site.spatial) == ("gate", 1, "5x5")
    assert pair.x is not None
    assert pair.y is not None
    assert torch.allclose(pair.x, gate.mean((2, 3)), atol=1e-6)
    assert torch.allclose(pair.y, (1 / (1 + (-gate).exp())).mean((2, 3)), atol=1e-6)


class Nested(nn.SiLU):
    """An activation made of others, one of them a module that works in place."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.ReLU(inplace=True)

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002
        return torch.tanh(self.inner(input)) ** 2


ACTIVATED_LATE: dict[str, tuple[nn.Module, Callable[[torch.Tensor], torch.Tensor]]] = {
    "in place": (nn.ReLU(inplace=True), lambda x: x.clamp(min=0)),
    "nested": (Nested(), lambda x: x.clamp(min=0).tanh() ** 2),
    "gated": (nn.GLU(1), lambda x: x.sigmoid()),
    "with parameters": (nn.PReLU(4), lambda x: torch.where(x > 0, x, 0.25 * x)),
}


@pytest.mark.parametrize("name", ACTIVATED_LATE)
def test_an_activation_may_run_on_the_pooled_input(name: str) -> None:
    module, function = ACTIVATED_LATE[name]
    images = torch.randn(3, 4, 5, 5, dtype=torch.float64)
    before = images.chunk(2, 1)[1] if name == "gated" else images
    expected = before.mean((2, 3))
    net = nn.Sequential(module.double(), nn.Conv2d(2 if name == "gated" else 4, 4, 1).double())
    with torch.inference_mode():
        unwatched = net(images.clone())
        watched, (pair,) = Capture(net.eval(), "pre").forward(images.clone())
    assert torch.equal(watched, unwatched)
    assert pair.x is not None
    assert pair.y is not None
    assert torch.allclose(pair.x, expected)
    assert torch.allclose(pair.y, function(expected))


def test_dictionaries_and_tuples_may_be_returned() -> None:
    net = Calls(lambda net, x: {"a": functional.relu(x), "b": (x, None)})
    with torch.inference_mode():
        output, pairs = Capture(net.eval()).forward(torch.randn(2, 4))
    assert set(output) == {"a", "b"}
    assert len(pairs) == 1


def test_one_activation_module_under_two_names_keeps_the_first() -> None:
    shared = nn.ReLU()
    assert names(nn.Sequential(shared, nn.Linear(4, 4), shared), torch.randn(2, 4)) == [
        "0#1",
        "0#2",
    ]


def _scripted() -> nn.Module:
    return nn.Sequential(torch.jit.script(nn.ReLU()))


def _compiled() -> nn.Module:
    return torch.compile(nn.Sequential(nn.ReLU()))  # type: ignore[return-value]


def _compiled_in_place() -> nn.Module:
    network = nn.Sequential(nn.ReLU())
    network[0].compile()
    return network


def _compiled_forward() -> nn.Module:
    network = nn.Sequential(nn.ReLU())
    network.forward = torch.compile(network.forward)  # type: ignore[method-assign]
    return network


HIDDEN: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "compiled": (_compiled, "OptimizedModule"),
    "compiled in place": (_compiled_in_place, "0 is of class ReLU: torch.compile"),
    "compiled forward": (_compiled_forward, "the model itself"),
    "fused layer": (lambda: nn.TransformerEncoderLayer(8, 2), "the model itself"),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_what_hides_activations_is_refused_by_name(name: str) -> None:
    make, message = HIDDEN[name]
    with pytest.raises(CaptureError, match=message) as caught:
        Capture(make().eval())
    assert caught.value.hint


# Scripting still works, but its makers announce its end.
@pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning")
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_scripted_networks_are_refused() -> None:
    with pytest.raises(CaptureError, match="TorchScript"):
        Capture(_scripted().eval())


def test_transformer_layers_work_with_the_fused_kernel_off() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, batch_first=True, dropout=0.0).eval()
    tokens = torch.randn(3, 5, 8)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.inference_mode():
            unwatched = layer(tokens)
            watched, (pair,) = Capture(layer).forward(tokens)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    assert torch.equal(watched, unwatched)
    assert (pair.site.site_name, pair.site.layout) == (":relu#1", "N,*,C")


@pytest.mark.filterwarnings("ignore:Dynamo:UserWarning")
def test_functions_that_are_compiled_within_a_network_are_seen() -> None:
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return functional.relu(x) * 2

    compiled = torch.compile(doubled, backend="eager")
    convolution, images = nn.Conv2d(3, 5, 3), torch.randn(4, 3, 6, 6)
    pairs = {}
    for function in (doubled, compiled):
        net = nn.Sequential(convolution, Calls(lambda _, x, f=function: torch.tanh(f(x))))
        with torch.inference_mode():
            pairs[function] = Capture(net.eval()).forward(images)[1]
    for plain, other in zip(pairs[doubled], pairs[compiled], strict=True):
        assert plain.site == other.site
        assert torch.equal(plain.x, other.x)
        assert torch.equal(plain.y, other.y)
    assert len(pairs[compiled]) == 2


class _Named(nn.ReLU):
    """An activation whose argument has a name of its own."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return super().forward(values)


class _WithMore(nn.ReLU):
    """An activation that returns more than a tensor."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> object:  # type: ignore[override]
        return mask, super().forward(x)


class _Activated(nn.MultiheadAttention):
    """Attention with an activation of its own."""

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        attended: torch.Tensor = super().forward(tokens, tokens, tokens)[0]
        return functional.gelu(attended)


@pytest.mark.parametrize(
    ("held", "function", "site"),
    [
        (_Named(), lambda net, x: torch.tanh(net.held(values=x)), "held#1"),
        (_WithMore(), lambda net, x: torch.tanh(net.held(mask=x > 0, x=x)[1]), "held#1"),
        (_Activated(4, 2, batch_first=True), lambda net, x: torch.tanh(net.held(x)), "held:gelu#1"),
    ],
)
def test_classes_derived_from_torch_s_have_their_activations_too(
    held: nn.Module, function: Callable[..., object], site: str
) -> None:
    net = Calls(function)
    net.held = held
    assert names(net, torch.randn(2, 3, 4)) == [site, ":tanh#1"]


def test_of_what_an_activation_returns_its_values_are_the_output() -> None:
    net = Calls(lambda net, x: torch.tanh(net.held(mask=x > 0, x=x)[1]))
    net.held = _WithMore()
    with torch.inference_mode():
        pair, following = Capture(net.eval()).forward(torch.randn(5, 4))[1]
    assert pair.y is not None
    assert torch.equal(pair.y, following.x)


def _hooks(model: nn.Module) -> int:
    return sum(
        len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()
    )


def _attributes(model: nn.Module) -> dict[str, list[str]]:
    held = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {
        **{name: sorted(vars(module)) for name, module in model.named_modules()},
        **{f"tensor {name}": sorted(vars(tensor)) for name, tensor in held.items()},
    }


@pytest.mark.parametrize("fails", [False, True])
def test_hooks_marks_and_modes_are_gone_afterwards(fails: bool) -> None:
    net = build("Attention")
    images = net.images(2)
    attributes = _attributes(net)
    capture = Capture(net)
    if fails:
        net.head.register_forward_hook(_raise)
        with pytest.raises(RuntimeError, match="on purpose"), torch.inference_mode():
            capture.forward(images)
        net.head._forward_hooks.clear()
        net.head._forward_hooks_always_called.clear()
    else:
        with torch.inference_mode():
            capture.forward(images)
    assert _hooks(net) == 0
    assert _attributes(net) == attributes
    assert not vars(images)
    assert not torch.overrides._get_current_function_mode_stack()
    assert torch._C._is_torch_function_enabled()
    with torch.inference_mode():
        assert len(capture.forward(images)[1]) == 2


def _raise(_module: nn.Module, _args: object, _output: object) -> None:
    raise RuntimeError("on purpose")


@pytest.mark.parametrize("kind", [nn.ReLU, nn.MultiheadAttention])
def test_an_exception_inside_an_activation_or_attention_passes_through(kind: type) -> None:
    net = build("Attention")
    first = nn.Sequential(nn.ReLU(), net)
    broken = next(module for module in first.modules() if isinstance(module, kind))
    broken.register_forward_pre_hook(lambda module, args: _raise(module, args, None))
    with pytest.raises(RuntimeError, match="on purpose"), torch.inference_mode():
        Capture(first.eval()).forward(net.images(2))
    assert torch._C._is_torch_function_enabled()
    assert not torch.overrides._get_current_function_mode_stack()


def test_a_failing_activation_passes_its_own_error_through() -> None:
    class Failing(nn.ReLU):
        def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"), torch.inference_mode():
        Capture(nn.Sequential(Failing()).eval()).forward(torch.randn(2, 4))


def test_a_network_that_survives_its_own_exception_keeps_its_names() -> None:
    class Stubborn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Sequential(nn.ReLU()), nn.Sequential(nn.ReLU())
            self.first[0].register_forward_pre_hook(lambda module, args: _raise(module, args, None))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            try:
                return self.first(images)
            except RuntimeError:
                return functional.tanh(self.second(images))

    assert names(Stubborn(), torch.randn(2, 4)) == ["second.0#1", ":tanh#1"]


def test_what_is_hidden_from_torch_is_not_taken_for_constant() -> None:
    def gate(a: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(a.numpy() ** 2)

    class Scripted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convs = nn.ModuleList(nn.Conv2d(c, 4, 3, padding=1) for c in (3, 4, 4))
            self.relus = nn.ModuleList(nn.ReLU() for _ in range(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.relus[0](self.convs[0](x))
            x = gate(x)
            x = self.relus[1](x)
            return self.relus[2](self.convs[1](x))

    with torch.inference_mode():
        _, pairs = Capture(Scripted().eval()).forward(torch.rand(2, 3, 8, 8))
    assert [pair.site.site_name for pair in pairs] == ["relus.0#1", "relus.1#1", "relus.2#1"]


@pytest.mark.parametrize("images", [8, 16])
def test_images_are_not_found_by_a_coincidence_of_sizes(images: int) -> None:
    class Broadcast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(6, 10)
            self.offset = nn.Parameter(torch.randn(16, 1, 10))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.linear(x) + self.offset)

    with torch.inference_mode():
        _, pairs = Capture(Broadcast().eval()).forward(torch.rand(images, 6))
    assert [pair.x for pair in pairs] == [None]
    assert "cannot be told" in (pairs[0].reason or "")


def test_complex_activations_are_refused_with_a_reason() -> None:
    class Complex(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(x.to(torch.complex64)).real

    with torch.inference_mode():
        _, pairs = Capture(Complex().eval()).forward(torch.rand(4, 3, 8, 8))
    assert "complex" in (pairs[0].reason or "")


def test_no_activation_outlives_its_use() -> None:
    alive: list[weakref.ref[torch.Tensor]] = []

    def forward(net: Calls, x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = functional.glu(torch.cat([net.act(x * 2), functional.gelu(x)], 1), dim=1)
            alive.append(weakref.ref(x))
            assert sum(tensor() is not None for tensor in alive) == 1
        return x

    assert len(names(Calls(forward), torch.randn(2, 4))) == 12


class NotQuiteReLU(nn.ReLU):
    """Inherits from torch's and does something else."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sigmoid() - 0.5


def test_zeros_are_counted_before_and_after_every_kind_of_activation(
    subtests: pytest.Subtests,
) -> None:
    for activation in [
        nn.ReLU(),
        nn.ReLU(inplace=True),
        nn.ReLU6(),
        nn.GELU(),
        nn.Sigmoid(),
        NotQuiteReLU(),
    ]:
        with subtests.test(activation=activation):
            images = 4e-3 * torch.randn(5, 3, 7, 7, generator=torch.Generator().manual_seed(0))
            with torch.inference_mode():
                expected = activation(images.clone())
                _, (pair,) = Capture(nn.Sequential(activation).eval()).forward(images.clone())
            for result, tensor in ((pair.before, images), (pair.after, expected)):
                assert (result.near, result.values) == (
                    int((tensor.abs() <= 1e-3).sum()),
                    tensor.numel(),
                )
            assert pair.before.near not in (0, pair.before.values)
