"""Depths and roles follow from descent: on hand-made graphs whose answer can be read off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional
from torchvision.ops import SqueezeExcitation

from survey import measure_network
from survey.capture.forward import Capture

Function = Callable[[torch.Tensor], object]


#: Ways to give a constant the type or the shape of an image tensor.
CASTS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "type_as": torch.Tensor.type_as,
    "to": lambda constant, x: constant.to(x),
    "to, by name": lambda constant, x: constant.to(tensor=x),
    "expand_as": torch.Tensor.expand_as,
}


class Graph(nn.Module):
    """A function as a network."""

    def __init__(self, function: Function, *modules: nn.Module) -> None:
        super().__init__()
        self.function = function
        #: Modules that the function calls, so that they are part of the network.
        self.held = nn.ModuleList(modules)

    def forward(self, images: torch.Tensor) -> object:
        return self.function(images)


def sites(function: Function, *modules: nn.Module) -> list[tuple[str, int, str]]:
    """Return activation, depth and the first letter of the role of every site."""
    images = torch.randn(2, 4, 6, 6, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        _, pairs = Capture(Graph(function, *modules).eval()).forward(images)
    return [(p.site.activation, p.site.graph_depth, p.site.role[0]) for p in pairs]


relu, tanh, sigmoid, gelu = functional.relu, torch.tanh, torch.sigmoid, functional.gelu


def _mean(x: torch.Tensor) -> torch.Tensor:
    return x.mean((2, 3), keepdim=True)


def _split(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors that do not descend from any activation."""
    return x[:, :2], x[:, 2:]


def _grn(x: torch.Tensor) -> torch.Tensor:
    norm = x.norm(2, (2, 3), keepdim=True)
    return x + x * (norm / (norm.mean(1, keepdim=True) + 1e-6))


def _split_attention(x: torch.Tensor) -> torch.Tensor:
    parts = torch.stack([x, x * 2], 1)
    weights = gelu(_mean(parts.sum(1)))[:, None].expand(-1, 2, -1, -1, -1).softmax(1)
    return (parts * weights).sum(1)


def _linear_attention(x: torch.Tensor) -> torch.Tensor:
    value, context = relu(x[:, :2]), _mean(x[:, 2:])
    return value * context.expand_as(value)


def _both(x: torch.Tensor) -> torch.Tensor:
    inner = relu(_mean(x))
    return x * sigmoid(inner) + inner


def _in_place(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x *= functional.interpolate(torch.sigmoid_(_mean(x)), size=6)
    return x.relu_()


ROLES: dict[str, tuple[Function, str]] = {
    "chain": (lambda x: tanh(gelu(relu(x))), "m1 m2 m3"),
    "squeeze and excite": (lambda x: tanh(x * sigmoid(relu(_mean(x)))), "g1 g2 m3"),
    "excite and squeeze": (lambda x: sigmoid(relu(_mean(x))) * x, "g1 g2"),
    "after an activation": (lambda x: (y := relu(x)) * sigmoid(gelu(_mean(y))), "m1 g2 g3"),
    "gate reshaped, resized and scaled": (
        lambda x: x * (2 * functional.interpolate(sigmoid(x.mean((2, 3)))[..., None, None], 6) - 1),
        "g1",
    ),
    "gate scaled by a weight": (
        lambda x: x * (sigmoid(_mean(x)) * torch.ones(1, 4, 1, 1)).flatten(1)[:, :, None, None],
        "g1",
    ),
    "gate that goes on by itself too": (lambda x: x * (s := sigmoid(_mean(x))) + s, "g1"),
    "gate expanded like another": (lambda x: x * sigmoid(_mean(x)).expand_as(tanh(x)), "g1 m1"),
    "gated linear unit": (lambda x: gelu(_split(x)[0]) * _split(x)[1], "g1"),
    "torch's gated linear unit": (lambda x: relu(functional.glu(tanh(x), 1)), "m1 g2 m3"),
    "swish by hand": (lambda x: x * sigmoid(x), "m1"),
    "swish by hand, in place": (lambda x: (y := x + 1).mul_(sigmoid(y)), "m1"),
    "QuickGELU by hand": (lambda x: x * sigmoid(1.702 * x), "m1"),
    "Mish by hand": (lambda x: x * tanh(functional.softplus(x)), "m1"),
    "hard swish by hand": (lambda x: x * functional.relu6(x + 3) / 6, "m1"),
    "tanh GELU by hand": (
        lambda x: 0.5 * x * (1 + tanh(0.8 * (x + 0.0447 * torch.pow(x, 3)))),
        "m1",
    ),
    "a root by hand": (lambda x: x * torch.pow(1 + x * x, -0.5), "m1"),
    "a root by hand, by name": (lambda x: x * torch.pow(1 + x * x, exponent=-0.5), "m1"),
    "a pointwise function of its own": (lambda x: x * sigmoid(gelu(x)), "m1"),
    "written over": (lambda x: tanh(relu(relu(x)).copy_(x)), "m1 m2 m1"),
    "written over by a sum": (lambda x: tanh(torch.add(x, 1, out=relu(relu(x)))), "m1 m2 m1"),
    "swish by hand, reshaped": (lambda x: x.flatten(2) * sigmoid(x).flatten(2), "m1"),
    "half by half is no swish": (lambda x: x.chunk(2, 1)[0] * sigmoid(x.chunk(2, 1)[1]), "g1"),
    "gate by a product into memory": (
        lambda x: torch.mul(x, sigmoid(_mean(x)), out=torch.empty_like(x)),
        "g1",
    ),
    "swish by hand as a gate": (
        lambda x: (a := _split(x)[0] + 1) * sigmoid(a) * _split(x)[1],
        "g1",
    ),
    "swish by hand after an activation": (lambda x: (y := relu(x)) * sigmoid(y), "m1 m2"),
    "in place": (_in_place, "g1 m2"),
    "out in two steps": (lambda x: torch.mul(x, sigmoid(_mean(x)) * sigmoid(x[:, :1])), "g1 g1"),
    "gates in a row": (lambda x: x * sigmoid(_mean(x)) * sigmoid(x[:, :1]), "g1 g1"),
    "sigmoid and tanh": (lambda x: tanh(_split(x)[0]) * sigmoid(_split(x)[1]), "m1 g1"),
    "sigmoid and relu": (lambda x: sigmoid(_split(x)[0]) * relu(_split(x)[1]), "g1 m1"),
    "two alike": (lambda x: relu(_split(x)[0]) * relu(_split(x)[1]), "m1 m1"),
    "response normalisation": (lambda x: _grn(relu(x)), "m1"),
    "split attention": (lambda x: _split_attention(relu(x)), "m1 m2"),
    "linear attention": (_linear_attention, "m1"),
    "spread over each other": (lambda x: gelu(_mean(x)) * x[:, :1], "m1"),
    "spatial gating": (lambda x: (y := gelu(x))[:, :2] * y[:, 2:].softmax(1), "m1"),
    "the inner one goes on too": (_both, "m1 g2"),
    "scaled by a constant": (lambda x: relu(x) * torch.ones(4, 1, 1), "m1"),
    "scaled by the input": (lambda x: x * sigmoid(x.mean((2, 3), keepdim=True)) * 2, "g1"),
    "reaches no output": (lambda x: (relu(x), tanh(x))[1], "m1 m1"),
    "several outputs": (
        lambda x: {"a": [relu(x)], "b": (x * sigmoid(_mean(gelu(x))),)},
        "m1 g1 g2",
    ),
    "sum of branches": (lambda x: tanh(relu(gelu(x)) + relu(x)), "m1 m2 m1 m3"),
    "joined branches": (lambda x: tanh(torch.cat([relu(x), x], 1)), "m1 m2"),
    "written into a blank": (
        lambda x: tanh(torch.zeros(2, 4, 6, 6).index_copy(0, torch.tensor([0, 1]), relu(x))),
        "m1 m2",
    ),
}


def test_roles_and_depths_of_hand_made_graphs(subtests: pytest.Subtests) -> None:
    for name, (function, expected) in ROLES.items():
        with subtests.test(name=name):
            assert " ".join(f"{role}{depth}" for _, depth, role in sites(function)) == expected


def test_writing_into_parts_deepens_the_whole() -> None:
    def assigned(x: torch.Tensor) -> torch.Tensor:
        blank = torch.zeros_like(x)
        blank[:, :2] = relu(x[:, :2])
        return tanh(blank)

    def through_a_view(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        relu(y[:, :2], inplace=True)
        return tanh(y)

    for function in (assigned, through_a_view):
        assert [depth for _, depth, _ in sites(function)] == [1, 2]


def test_attention_passes_depth_on_from_query_key_and_value() -> None:
    attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def attended(x: torch.Tensor) -> object:
        tokens = x.flatten(2).mT
        deeper = relu(relu(relu(tokens)))
        return deeper, tanh(attention(tokens, tokens, tokens)[0])

    def cross(x: torch.Tensor) -> object:
        tokens = x.flatten(2).mT
        deeper = relu(relu(relu(tokens)))
        mixed = attention(tokens, relu(tokens), gelu(relu(tokens)), need_weights=False)[0]
        return tanh(mixed), deeper

    assert [depth for _, depth, _ in sites(cross, attention)] == [1, 2, 3, 1, 1, 2, 3]
    assert [depth for _, depth, _ in sites(attended, attention)] == [1, 2, 3, 1]


@pytest.mark.parametrize("batch_first", [True, False])
def test_what_the_same_queries_of_all_images_attend_to_depends_on_the_images(
    batch_first: bool,
) -> None:
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(6, 1, batch_first=batch_first)
    queries, shift = nn.Parameter(torch.randn(2, 6)), nn.Linear(6, 5)

    def learned(tokens: torch.Tensor) -> torch.Tensor:
        many = queries.expand(len(tokens), -1, -1)
        if batch_first:
            return attention(many, tokens, tokens)[0]
        return attention(many.mT.movedim(2, 0), *[tokens.transpose(0, 1)] * 2)[0]

    def by_hand(tokens: torch.Tensor) -> torch.Tensor:
        weights, biases = attention.in_proj_weight, attention.in_proj_bias
        q = queries @ weights[:6].mT + biases[:6]
        k = tokens @ weights[6:12].mT + biases[6:12]
        v = tokens @ weights[12:].mT + biases[12:]
        return attention.out_proj((q @ k.mT / 6**0.5).softmax(-1) @ v)

    images = torch.randn(8, 7, 6)
    pairs = {}
    for attended in (learned, by_hand):
        graph = Graph(lambda x, attended=attended: gelu(shift(attended(relu(x)))), attention, shift)
        with torch.inference_mode():
            pairs[attended] = Capture(graph.eval()).forward(images)[1]
    (_, one), (_, other) = pairs[learned], pairs[by_hand]
    assert one.x is not None
    assert one.y is not None
    assert torch.allclose(one.x, other.x, atol=1e-6)
    assert torch.allclose(one.y, other.y, atol=1e-6)
    assert (one.site.graph_depth, other.site.graph_depth) == (2, 2)
    if batch_first:
        assert one.site.layout == other.site.layout


@pytest.mark.parametrize("which", range(3))
def test_attention_to_constants_alone_depends_on_no_image(which: int) -> None:
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    constant = nn.Parameter(torch.randn(2, 36, 4))

    def attended(x: torch.Tensor) -> object:
        given = [constant] * 3
        if which:
            given[which] = x.flatten(2).mT
        return x.mean(1), gelu(attention(*given)[0])

    # The keys alone decide where a query looks.
    assert [name for name, _, _ in sites(attended, attention)] == ["gelu"][: bool(which)]


def test_what_is_hidden_from_torch_makes_no_gates() -> None:
    def hidden(x: torch.Tensor) -> torch.Tensor:
        x = torch.from_numpy(gelu(relu(x)).numpy() * 2)
        return tanh(x * sigmoid(relu(x).mean(1, keepdim=True)))

    # Only the sigmoid might be told for a gate, and even that is not known. Nothing is shallower
    # than what ran before.
    assert [role for _, _, role in sites(hidden)] == ["m"] * 5
    assert [depth for _, depth, _ in sites(hidden)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("kept", ["tensor", "dataclass", "object"])
def test_a_network_may_return_an_object_of_its_own(kept: str) -> None:
    @dataclass
    class Output:
        logits: torch.Tensor
        scale: InitVar[float] = 1.0
        unset: str = field(init=False)

    module = SqueezeExcitation(4, 2)

    def function(images: torch.Tensor) -> object:
        logits = module(images)
        made = {"dataclass": Output, "object": SimpleNamespace}
        return logits if kept == "tensor" else made[kept](logits=logits)

    assert [role for _, _, role in sites(function, module)] == ["g", "g"]
    score = measure_network(Graph(function, module), (4, 6, 6), "path_length")["path_length"]
    assert (score.value, score.reason) != (None, None)
    assert "does not depend on the input" not in (score.reason or "")


def test_squeeze_excite_modules_are_two_gates() -> None:
    module = SqueezeExcitation(4, 2).eval()
    assert sites(module) == [("relu", 1, "g"), ("sigmoid", 2, "g")]


def test_a_second_pass_does_not_remember_the_first() -> None:
    images = torch.randn(2, 4)
    kept: list[torch.Tensor] = []

    def remembering(x: torch.Tensor) -> torch.Tensor:
        kept[:] = kept or [torch.ones(4) * 2]
        return relu(x) * kept[0]

    capture = Capture(Graph(remembering).eval())
    with torch.inference_mode():
        first, second = (capture.forward(images)[1] for _ in range(2))
    assert [pair.site for pair in first] == [pair.site for pair in second]


@pytest.mark.parametrize("cast", CASTS)
def test_a_constant_of_an_image_tensor_s_type_or_shape_is_a_constant(cast: str) -> None:
    held = nn.Module()
    held.register_buffer("constant", constant := torch.full((1, 4, 1, 1), 0.5))

    def beside(x: torch.Tensor) -> torch.Tensor:
        return tanh(CASTS[cast](constant, gelu(x)) + x)

    def excited(x: torch.Tensor) -> torch.Tensor:
        x = relu(x)
        x = x * sigmoid(gelu(_mean(x)))
        return x + CASTS[cast](constant, x)

    def by_hand(x: torch.Tensor) -> torch.Tensor:
        return torch.maximum(x, CASTS[cast](constant, x))

    assert [(name, depth) for name, depth, _ in sites(beside, held)] == [("gelu", 1), ("tanh", 1)]
    assert [role for *_, role in sites(excited, held)] == ["m", "g", "g"]
    assert [name for name, *_ in sites(by_hand, held)] == ["maximum"]
