"""Small networks whose pooled pairs are also written down from the definition.

Each ``Net`` runs like any network; its ``expected`` computes, in float64 and without any
following of layouts, what goes in and comes out of every activation, averaged over space.
"""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

Pairs = list[tuple[torch.Tensor, torch.Tensor]]


class Net(nn.Module):
    """A network that can say what its activations see."""

    image_shape: tuple[int, ...] = (3, 8, 8)

    def images(self, count: int, seed: int = 0) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(count, *self.image_shape, generator=generator)

    def expected(self, images: torch.Tensor) -> Pairs:
        """Return the pooled pairs, n x c each, in execution order."""
        twin = copy.deepcopy(self).double().eval()
        with torch.inference_mode():
            return twin.pairs(images.double())

    def pairs(self, images: torch.Tensor) -> Pairs:
        raise NotImplementedError


def _maps(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Pool N x C x space."""
    return x.flatten(2).mean(2), y.flatten(2).mean(2)


def _tokens(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Pool N x space x C."""
    return x.flatten(1, -2).mean(1), y.flatten(1, -2).mean(1)


class Residual(Net):
    """One in-place ReLU module called twice, then squeeze-excite, a plain head and PReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.relu = nn.ReLU(inplace=True)
        self.gate = nn.Linear(6, 6)
        self.head, self.prelu = nn.Linear(6, 10), nn.PReLU(10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.relu(self.norm(self.conv1(images)))
        x = self.relu(self.conv2(x) + x)
        x = x * torch.sigmoid(self.gate(x.mean((2, 3))))[:, :, None, None]
        return self.prelu(self.head(functional.adaptive_avg_pool2d(x, 1).flatten(1)))

    def pairs(self, images: torch.Tensor) -> Pairs:
        a = self.norm(self.conv1(images))
        b = self.conv2(a.clamp(min=0)) + a.clamp(min=0)
        gates = self.gate(b.clamp(min=0).mean((2, 3)))
        opened = gates.exp() / (1 + gates.exp())
        z = self.head((b.clamp(min=0) * opened[:, :, None, None]).mean((2, 3)))
        out = torch.where(z > 0, z, z * self.prelu.weight)
        return [_maps(a, a.clamp(min=0)), _maps(b, b.clamp(min=0)), (gates, opened), (z, out)]


class ChannelsLast(Net):
    """A ConvNeXt block: permuted to N x H x W x C for its linear layers and GELU."""

    image_shape = (6, 6, 6)

    def __init__(self) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(6, 6, 3, padding=1, groups=6)
        self.norm, self.up, self.down = nn.LayerNorm(6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.act = nn.GELU()
        self.scale = nn.Parameter(torch.rand(6))

    def _before(self, images: torch.Tensor) -> torch.Tensor:
        return self.up(self.norm(self.depthwise(images).permute(0, 2, 3, 1)))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        y = self.scale * self.down(self.act(self._before(images)))
        return functional.relu(images + y.permute(0, 3, 1, 2)).mean((2, 3))

    def pairs(self, images: torch.Tensor) -> Pairs:
        a = self._before(images)
        b = images + (self.scale * self.down(functional.gelu(a))).permute(0, 3, 1, 2)
        return [_tokens(a, functional.gelu(a)), _maps(b, b.clamp(min=0))]


class MovedAxes(Net):
    """Channels moved by movedim, an in-place transpose, einsum and swapaxes; all sizes equal."""

    image_shape = (4, 4, 4)

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)
        self.mix = nn.Parameter(torch.randn(4, 4))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.conv(images).movedim(1, -1))
        x = x.clone().transpose_(1, 3)
        x = torch.sigmoid(x)
        x = torch.einsum("nchw,cd->nhwd", x, self.mix)
        x = functional.silu(x)
        return functional.relu(x.swapaxes(1, 3)).sum((2, 3))

    def pairs(self, images: torch.Tensor) -> Pairs:
        a = self.conv(images).permute(0, 2, 3, 1)
        b = a.tanh().permute(0, 3, 2, 1)
        c = b.sigmoid().permute(0, 2, 3, 1) @ self.mix
        d = (c * c.sigmoid()).permute(0, 3, 2, 1)
        return [
            _tokens(a, a.tanh()),
            _maps(b, b.sigmoid()),
            _tokens(c, c * c.sigmoid()),
            _maps(d, d.clamp(min=0)),
        ]


class Folded(Net):
    """Patches folded into the batch, and back, as MobileViT and windowed attention do."""

    image_shape = (5, 4, 6)

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.conv = nn.Linear(5, 5), nn.Conv2d(5, 5, 1)

    def _fold(self, x: torch.Tensor) -> torch.Tensor:
        n, c, h, w = x.shape
        x = x.reshape(n, c, h // 2, 2, w // 2, 2).permute(0, 3, 5, 2, 4, 1)
        return x.reshape(n * 4, h * w // 4, c)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        n, c, h, w = images.shape
        x = functional.silu(self.linear(self._fold(images)))
        x = x.reshape(n, 2, 2, h // 2, w // 2, c).permute(0, 5, 3, 1, 4, 2).reshape(n, c, h, w)
        return functional.relu(self.conv(x)).flatten(2).amax(-1)

    def pairs(self, images: torch.Tensor) -> Pairs:
        a = self.linear(images.permute(0, 2, 3, 1))
        s = a * a.sigmoid()
        b = self.conv(s.permute(0, 3, 1, 2))
        return [_tokens(a, s), _maps(b, b.clamp(min=0))]


class Attention(Net):
    """Patches to tokens, nn.MultiheadAttention, a class token, and chunked SwiGLU by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.up, self.down = nn.Linear(8, 24), nn.Linear(12, 8)
        self.head = nn.Linear(8, 10)

    def _tokens(self, images: torch.Tensor) -> torch.Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1)
        return x + self.attention(query=x, key=x, value=x, need_weights=False)[0]

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self._tokens(images)
        gate, value = self.up(x).chunk(2, dim=-1)
        x = x + self.down(functional.silu(gate) * value)
        return self.head(torch.tanh(x[:, 0]))

    def pairs(self, images: torch.Tensor) -> Pairs:
        x = self._tokens(images)
        up = self.up(x)
        gate = up[..., :12]
        s = gate * gate.sigmoid()
        first = (x + self.down(s * up[..., 12:]))[:, 0]
        return [_tokens(gate, s), (first, first.tanh())]


class Heads(Net):
    """Attention by hand: qkv split into heads, activations on heads, channels in two axes."""

    image_shape = (6, 8)

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def _heads(self, x: torch.Tensor) -> torch.Tensor:
        n, t, _ = x.shape
        return self.qkv(x).reshape(n, t, 3, 2, 4).permute(2, 0, 3, 1, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self._heads(x)
        weights = (functional.relu(q) @ functional.relu(k).transpose(-2, -1)).softmax(-1)
        mixed = functional.hardswish(weights @ v).transpose(1, 2).flatten(2)
        return self.out(mixed).mean(1)

    def pairs(self, x: torch.Tensor) -> Pairs:
        q, k, v = self._heads(x).unbind(0)
        relu_q, relu_k = q.clamp(min=0), k.clamp(min=0)
        a = (relu_q @ relu_k.mT).softmax(-1) @ v
        active = a * (a + 3).clamp(0, 6) / 6
        flat = [t.transpose(1, 2).flatten(2) for t in (q, relu_q, k, relu_k, a, active)]
        return [_tokens(flat[i], flat[i + 1]) for i in (0, 2, 4)]


class Dense(Net):
    """Dense connections: torch.cat of all before, branches stacked, a shared in-place view."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 1), nn.Conv2d(7, 4, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        a = self.a(images)
        both = torch.cat((images, functional.elu(a)), 1)
        b = self.b(both)
        functional.relu(b[:, :2], inplace=True)
        mixed = torch.stack([b, a], dim=1).sum(1)
        out = torch.zeros(len(images), 6, 8, 8, dtype=images.dtype)
        out[:, 2:] = mixed
        return functional.leaky_relu(out, 0.1).mean((-1, -2))

    def pairs(self, images: torch.Tensor) -> Pairs:
        a = self.a(images)
        elu = torch.where(a > 0, a, a.exp() - 1)
        b = self.b(torch.cat((images, elu), 1))
        view = b[:, :2].clone()
        b[:, :2] = view.clamp(min=0)
        out = functional.pad(b + a, (0, 0, 0, 0, 2, 0))
        leaky = torch.where(out > 0, out, out * 0.1)
        return [_maps(a, elu), _maps(view, view.clamp(min=0)), _maps(out, leaky)]


class Volume(Net):
    """Three-dimensional convolution and group normalisation."""

    image_shape = (2, 4, 4, 4)

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv3d(2, 4, 3, padding=1), nn.GroupNorm(2, 4)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return functional.softplus(self.norm(self.conv(images))).mean((2, 3, 4))

    def pairs(self, images: torch.Tensor) -> Pairs:
        a = self.norm(self.conv(images))
        return [_maps(a, a.exp().log1p())]


class Perceptron(Net):
    """A multilayer perceptron on vectors, with tied weights and a checkpointed layer."""

    image_shape = (6,)

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.second.weight = self.first.weight

    def _second(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(x).relu()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            x = self.first(x).sigmoid_()
        return checkpoint(self._second, x, use_reentrant=False)

    def pairs(self, x: torch.Tensor) -> Pairs:
        a = self.first(x)
        b = self.second(a.sigmoid())
        return [(a, a.sigmoid()), (b, b.clamp(min=0))]


class TokensFirst(Net):
    """Sequence-first layout, where the images are on axis 1, and a mean over all tokens."""

    image_shape = (5, 7)

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.up = nn.Linear(5, 5), nn.Linear(7, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.gelu(self.up(x.permute(1, 0, 2)))
        x = self.mix(x.permute(1, 2, 0)).permute(2, 0, 1)
        return torch.tanh(self.up(x)).mean(0)

    def pairs(self, x: torch.Tensor) -> Pairs:
        a = self.up(x)
        b = self.up(self.mix(functional.gelu(a).mT).mT)
        return [_tokens(a, functional.gelu(a)), _tokens(b, b.tanh())]


#: One of each, by name.
NETS: dict[str, type[Net]] = {
    kind.__name__: kind
    for kind in (
        Residual, ChannelsLast, MovedAxes, Folded, Attention, Heads, Dense, Volume, Perceptron,
        TokensFirst,
    )
}  # fmt: skip


def build(name: str, seed: int = 0) -> Net:
    """Build a net with fixed weights, in eval mode, its normalisation statistics not trivial."""
    torch.manual_seed(seed)
    net = NETS[name]()
    for buffer_name, buffer in net.named_buffers():
        if buffer_name.endswith("running_mean"):
            buffer.uniform_(-0.5, 0.5)
    return net.eval()
