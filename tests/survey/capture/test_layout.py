"""Axes are followed to the pooled pair of the definition, or the row says that they were lost."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from survey.capture.axes import Axes, Part, lost
from survey.capture.forward import Capture
from survey.capture.layout import CONSTANT, layout_of
from survey.capture.pooled_pair import PooledPair
from tests.survey.nets import NETS, Net, build

Columns = Callable[[torch.Tensor], torch.Tensor]


def _means(x: torch.Tensor) -> torch.Tensor:
    return x.mean((2, 3))


def watch(model: nn.Module, images: torch.Tensor) -> list[PooledPair]:
    with torch.inference_mode():
        return Capture(model.eval()).forward(images)[1]


class Calls(nn.Module):
    """A function as a network."""

    def __init__(self, function: Callable[[torch.Tensor], object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, images: torch.Tensor) -> object:
        return self.function(images)


def test_pairs_equal_those_written_from_the_definition(subtests: pytest.Subtests) -> None:
    for name in NETS:
        for count in [1, 2, 5]:
            with subtests.test(count=count, name=name):
                net: Net = build(name)
                images = net.images(count)
                expected = net.expected(images)
                pairs = watch(net, images)
                assert [pair.reason for pair in pairs] == [None] * len(expected)
                for pair, (x, y) in zip(pairs, expected, strict=True):
                    assert pair.x is not None
                    assert pair.y is not None
                    assert torch.allclose(pair.x, x.reshape(pair.x.shape), rtol=0, atol=1e-6)
                    assert torch.allclose(pair.y, y.reshape(pair.y.shape), rtol=0, atol=1e-6)
                    assert pair.x.shape == x.shape


def test_layouts_are_told_in_words(subtests: pytest.Subtests) -> None:
    for name, texts in [
        ("Residual", ["N,C,*,*", "N,C,*,*", "N,C", "N,C"]),
        ("ChannelsLast", ["N,*,*,C", "N,C,*,*"]),
        ("Folded", ["N*4,*,C", "N,C,*,*"]),
        ("Attention", ["N,*,C", "N,C"]),
        ("Heads", ["N,C,*,C"] * 3),
        ("TokensFirst", ["*,N,C"] * 2),
    ]:
        with subtests.test(name=name, texts=texts):
            net = build(name)
            assert [pair.site.layout for pair in watch(net, net.images(3))] == texts


_LSTM = nn.LSTM(4, 3, num_layers=2, bidirectional=True)
_GRU = nn.GRU(4, 4, batch_first=True)
_CELL = nn.LSTMCell(4, 4)


def _convolved(x: torch.Tensor, kernels: torch.Tensor) -> torch.Tensor:
    """Return 4 x 4 x 4 x 4 images, each convolved with one kernel of its own."""
    return functional.conv2d(x.reshape(1, 16, 4, 4), kernels, groups=4).view(4, 1, 4, 4)


#: Calls on N x C x H x W images of shape 4 x 4 x 4 x 4 after which images or channels cannot be
#: told, though every shape still fits.
LOST: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "images stacked on the batch": lambda x: torch.cat([x, x]),
    "one image taken": lambda x: x[0],
    "distances": lambda x: torch.cdist(x, x),
    "tensordot": lambda x: torch.tensordot(x, torch.ones(4, 4), dims=([1], [0])),
    "an Einstein sum with dots": lambda x: torch.einsum("n...,...->n...", x, torch.ones(4, 4, 4)),
    "quarter turns": lambda x: torch.rot90(x, 1, (1, 2)),
    "in-place squeeze": lambda x: x.clone().unsqueeze_(0),
    "kernels of another image": lambda x: _convolved(x, x.mean((2, 3)).mT.reshape(4, 4, 1, 1)),
    "kernels of all images": lambda x: functional.conv2d(x, x.mean((2, 3))[..., None, None]),
    "a recurrence along the images": lambda x: _LSTM(x.movedim(1, -1).flatten(1, 2))[0],
    "the state of another image": lambda x: _GRU(x.flatten(2).mT, _means(x).mT[None])[0],
    "folded images cut": lambda x: x.transpose(1, 0)[:2].transpose(0, 1)[:2],
}


def test_what_cannot_be_told_is_a_reason_and_never_a_number(subtests: pytest.Subtests) -> None:
    for name, function in LOST.items():
        with subtests.test(name=name):
            images = torch.randn(4, 4, 4, 4, generator=torch.Generator().manual_seed(0))
            (pair,) = watch(
                Calls(lambda x, function=function: functional.relu(function(x))), images
            )
            assert pair.x is None
            assert pair.y is None
            assert pair.reason is not None
            assert "cannot be told" in pair.reason


#: Calls on 4 x 4 x 4 x 4 images that keep the meaning of axes in another order or number.
KEPT: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], str]] = {
    "permute by tuple": (lambda x: torch.permute(x, (0, 2, 3, 1)), "N,*,*,C"),
    "permute by keyword": (lambda x: x.permute(dims=(0, 3, 1, 2)), "N,*,C,*"),
    "transpose by keyword": (lambda x: x.transpose(dim0=-3, dim1=-1), "N,*,*,C"),
    "movedim of several": (lambda x: x.movedim((1, 0), (-1, 1)), "*,N,*,C"),
    "mT": (lambda x: x.movedim(1, 2).mT, "N,*,*,C"),
    "matrix transpose in place": (lambda x: x[:, :, 0, 0].clone().t_(), "C,N"),
    "flatten": (lambda x: x.flatten(2), "N,C,*"),
    "unflatten": (lambda x: x.unflatten(1, (2, 2)), "N,C,C,*,*"),
    "squeeze and unsqueeze": (lambda x: x[:, :, :1, :1].squeeze().unsqueeze(1), "N,*,C"),
    "indexing with None and dots": (lambda x: x[:, None, ..., 0], "N,*,C,*"),
    "slices": (lambda x: x[:, 1:3, ::2], "N,C,*,*"),
    "index of a tensor": (lambda x: x[:, torch.tensor([0, 2])], "N,C,*,*"),
    "mean kept": (lambda x: x.mean((2, 3), keepdim=True), "N,C,*,*"),
    "largest over space": (lambda x: x.flatten(2).max(-1)[0], "N,C"),
    "norm over space": (lambda x: x.norm(2, (2, 3)), "N,C"),
    "deviation, unbiased by position": (lambda x: x.flatten(2).var(2, True), "N,C"),
    "unbind": (lambda x: x.unbind(2)[1], "N,C,*"),
    "iteration": (lambda x: list(x.movedim(2, 0))[1], "N,C,*"),
    "split": (lambda x: x.split([1, 3], dim=1)[1], "N,C,*,*"),
    "stack": (lambda x: torch.stack([x, x], dim=-1), "N,C,*,*,*"),
    "padding of channels": (lambda x: functional.pad(x, (0, 0, 0, 0, 1, 1)), "N,C,*,*"),
    "einsum over space": (lambda x: torch.einsum("nchw->nc", x), "N,C"),
    "einsum of weights": (
        lambda x: torch.einsum("nchw, cd -> nhwd", x, torch.ones(4, 4)),
        "N,*,*,C",
    ),
    "matmul of weights": (lambda x: x.movedim(1, -1) @ torch.ones(4, 4), "N,*,*,C"),
    "weights from the left": (lambda x: torch.ones(2, 16) @ x.flatten(2).mT, "N,*,C"),
    "a gate that broadcasts": (lambda x: x.mean((2, 3), keepdim=True) * x, "N,C,*,*"),
    "a lone filter along the channels": (
        lambda x: functional.conv1d(x.mean((2, 3))[:, None], torch.ones(1, 1, 3), padding=1),
        "N,*,C",
    ),
    "a lone filter over positions": (
        lambda x: functional.conv2d(x, torch.ones(1, 4, 3, 3), padding=1),
        "N,C,*,*",
    ),
    "a bias over positions": (lambda x: x + torch.ones(1, 1, 4, 4), "N,C,*,*"),
    "interpolation": (lambda x: functional.interpolate(x, scale_factor=2), "N,C,*,*"),
    "other memory order": (lambda x: x.to(memory_format=torch.channels_last), "N,C,*,*"),
    "a copy": (lambda x: x.clone().detach().contiguous().double().float(), "N,C,*,*"),
    "dropout asleep": (lambda x: functional.dropout(x, training=False), "N,C,*,*"),
}


def test_calls_that_move_axes_are_followed(subtests: pytest.Subtests) -> None:
    for name, (function, text) in KEPT.items():
        with subtests.test(name=name):
            images = torch.randn(4, 4, 4, 4, generator=torch.Generator().manual_seed(0))
            (pair,) = watch(
                Calls(lambda x, function=function: functional.relu(function(x))), images
            )
            assert (pair.site.layout, pair.reason) == (text, None)
            value = function(images)
            letters = text.split(",")
            order = [letters.index("N"), *(i for i, letter in enumerate(letters) if letter == "C")]
            rest = [i for i, letter in enumerate(letters) if letter == "*"]
            expected = (
                value.permute(*order, *rest).reshape(*(value.shape[i] for i in order), -1).mean(-1)
            )
            assert pair.x is not None
            assert torch.allclose(pair.x, expected.flatten(1).double(), atol=1e-6)


def _scores(x: torch.Tensor, heads: int) -> torch.Tensor:
    """Return attention scores of 16 tokens, the heads folded into the batch."""
    tokens = x.flatten(2).mT.unflatten(2, (heads, -1)).transpose(1, 2).flatten(0, 1)
    return torch.bmm(tokens, tokens.mT)


_WEIGHTS = nn.Parameter(torch.randn(3, 4, generator=torch.Generator().manual_seed(1)))

#: Calls on 4 x 4 x 4 x 4 images whose axes are made of several parts, or that leave one channel:
#: the layout, and the columns by the definition.
PARTS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], str, Columns]] = {
    "groups in the batch": (lambda x: x.reshape(8, 2, 4, 4), "NC,C,*,*", _means),
    "groups in the batch, unfolded": (
        lambda x: x.reshape(8, 2, 16).mT.reshape(4, 2, 16, 2),
        "N,C,*,C",
        _means,
    ),
    "weights from the left": (
        lambda x: _WEIGHTS @ x.flatten(2),
        "N,C,*",
        lambda x: _means(x) @ _WEIGHTS.mT,
    ),
    "attention scores": (
        lambda x: _scores(x, 1),
        "N,*,*",
        lambda x: _means(x).square().sum(1, keepdim=True),
    ),
    "attention scores of two heads": (
        lambda x: _scores(x, 2),
        "NC,*,*",
        lambda x: _means(x).square().view(4, 2, 2).sum(2),
    ),
    "pixel shuffle": (
        lambda x: functional.pixel_shuffle(x, 2),
        "N,C,*,*",
        lambda x: _means(x).mean(1, keepdim=True),
    ),
    "flattened maps": (lambda x: x.flatten(1), "N,C*16", _means),
    "flattened tokens": (lambda x: x.movedim(1, -1).flatten(1), "N,*16C", _means),
    "channels and rows merged": (lambda x: x.flatten(1, 2), "N,C*4,*", _means),
    "all in one": (lambda x: x.flatten(), "NC*16", _means),
    "channels averaged away": (
        lambda x: x.mean(1),
        "N,*,*",
        lambda x: _means(x).mean(1, keepdim=True),
    ),
    "channels reduced to their largest": (
        lambda x: x.max(1, keepdim=True).values,
        "N,*,*,*",
        lambda x: x.amax(1).mean((1, 2))[:, None],
    ),
    "a kernel made from each image": (
        lambda x: _convolved(x, _means(x).view(4, 4, 1, 1)),
        "N,C,*,*",
        lambda x: _means(x).square().sum(1, keepdim=True),
    ),
    "a recurrence along rows": (
        lambda x: _LSTM(x.permute(2, 0, 3, 1).flatten(1, 2))[0],
        "*,N*4,C",
        lambda x: torch.stack([_LSTM(each.permute(1, 2, 0))[0].mean((0, 1)) for each in x]),
    ),
    "its last states": (
        lambda x: _LSTM(x.permute(2, 0, 3, 1).flatten(1, 2))[1][1],
        "*,N*4,C",
        lambda x: torch.stack([_LSTM(each.permute(1, 2, 0))[1][1].mean((0, 1)) for each in x]),
    ),
    "a recurrence from a state of each image": (
        lambda x: _GRU(x.flatten(2).mT, _means(x)[None])[0],
        "N,*,C",
        lambda x: torch.cat(
            [_GRU(each.flatten(1).mT, each.mean((1, 2))[None])[0].mean(0)[None] for each in x]
        ),
    ),
    "a recurrent cell": (
        lambda x: _CELL(x[..., 0, 0], (x[..., 0, 1], x[..., 1, 1]))[1],
        "N,C",
        lambda x: torch.stack([_CELL(i[:, 0, 0], (i[:, 0, 1], i[:, 1, 1]))[1] for i in x]),
    ),
    "a convolution of its own for each image": (
        lambda x: functional.conv2d(
            x.reshape(1, 16, 4, 4), torch.ones(8, 4, 1, 1), groups=4
        ).reshape(8, 4, 4),
        "NC,*,*",
        lambda x: _means(x).sum(1, keepdim=True).expand(-1, 2),
    ),
}


def test_axes_of_several_parts_are_pooled_by_the_definition(subtests: pytest.Subtests) -> None:
    images = torch.randn(4, 4, 4, 4, generator=torch.Generator().manual_seed(0))
    for name, (function, text, columns) in PARTS.items():
        with subtests.test(name=name):
            (pair,) = watch(
                Calls(lambda x, function=function: functional.relu(function(x))), images
            )
            assert (pair.site.layout, pair.reason) == (text, None)
            assert pair.x is not None
            assert torch.allclose(pair.x, columns(images).double(), atol=1e-6)


def _moved(x: torch.Tensor, draw: random.Random) -> torch.Tensor:
    """Permute, split and merge axes at random."""
    for _ in range(draw.randrange(1, 6)):
        kind = draw.randrange(3)
        if kind == 0:
            x = x.permute(draw.sample(range(x.ndim), x.ndim))
        elif kind == 1 and x.ndim > 1:
            first = draw.randrange(x.ndim - 1)
            x = x.flatten(first, draw.randrange(first + 1, x.ndim))
        else:
            sizes, left = [], x.numel()
            while left > 1:
                sizes.append(draw.choice([n for n in range(2, left + 1) if left % n == 0]))
                left //= sizes[-1]
            x = x.reshape(sizes)
    return x


def test_moving_elements_about_moves_no_column() -> None:
    """Whatever the shape, the columns are the means of the channels, or there is a reason."""
    images = torch.randn(3, 4, 2, 5, generator=torch.Generator().manual_seed(0))
    expected = _means(images).double().sort(1).values
    pooled = 0
    for seed in range(300):
        draw = random.Random(seed)
        (pair,) = watch(Calls(lambda x, draw=draw: functional.relu(_moved(x, draw))), images)
        if pair.x is None:
            assert "cannot be told" in (pair.reason or "")
            continue
        pooled += 1
        # Images may be told in another order, and channels too.
        columns = pair.x.sort(1).values
        assert torch.allclose(
            columns[columns[:, 0].argsort()], expected[expected[:, 0].argsort()], atol=1e-6
        )
    assert pooled > 100


def test_images_written_into_a_blank_tensor_are_followed() -> None:
    def write(x: torch.Tensor) -> torch.Tensor:
        blank = x.new_zeros(4, 6, 6, 4)
        blank[:, 1:5, 1:5] = x.permute(0, 2, 3, 1)
        return torch.tanh(blank)

    (pair,) = watch(Calls(write), torch.randn(4, 4, 4, 4))
    assert (pair.site.layout, pair.reason) == ("N,*,*,C", None)


def test_calls_on_what_does_not_depend_on_the_images_are_left_out() -> None:
    class Biased(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.randn(1, 4, 1, 1))
            self.net = nn.Sequential(nn.Linear(1, 4), nn.ReLU())
            self.register_buffer("grid", torch.randn(4, 1))
            self.plain = torch.randn(1)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            table, plain = (functional.dropout(t, training=False) for t in (self.table, self.plain))
            gate = torch.sigmoid(table) * torch.tanh(plain)
            bias = self.net(self.grid).mean(1)[None, :, None, None]
            zeros = functional.relu(torch.zeros(1, 4, 1, 1))
            return functional.elu(images * gate + bias + zeros)

    model = Biased()
    pairs = watch(model, torch.randn(3, 4, 5, 5))
    assert [pair.site.activation for pair in pairs] == ["elu"]
    assert not vars(model.table)


def test_a_layout_is_text_in_its_own_words() -> None:
    images, windows, channels = Part("images", 4), Part("positions", 2), Part("channels", 3)
    assert Axes(((images, windows), (channels,), ())).describe() == "N*2,C,*"
    assert Axes(((channels, windows), (windows, images))).describe() == "C*2,*2N"
    assert lost((8, 3)).describe() == "*,*"
    assert layout_of(nn.Parameter(torch.ones(1))) == CONSTANT
    assert layout_of(torch.ones(1)) is None
