"""The networks of ``catalog.models.cifar``: residual and plain CIFAR networks, and a small VGG.

Imports torch, so it is imported when a network is built and not before. Every ReLU is a module
of its own, called once a forward pass: its path says where in the network it stands.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """Two 3 x 3 convolutions, with or without a shortcut around them.

    Parameters
    ----------
    channels_in, channels_out : int
        Channels of the input and of the output.
    stride : int
        Stride of the first convolution and of the shortcut.
    residual : bool
        Whether the input is added before the last ReLU; without, the block is its plain twin.
    """

    def __init__(self, channels_in: int, channels_out: int, stride: int, *, residual: bool) -> None:
        super().__init__()
        self.conv1 = _conv(channels_in, channels_out, stride)
        self.bn1 = nn.BatchNorm2d(channels_out)
        self.relu1 = nn.ReLU()
        self.conv2 = _conv(channels_out, channels_out)
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.relu2 = nn.ReLU()
        self.residual = residual

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map images N x channels_in x H x W to N x channels_out x H/stride x W/stride."""
        out = self.relu1(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.residual:
            out = out + _shortcut(x, self.conv2.out_channels, self.conv1.stride[0])
        activated: torch.Tensor = self.relu2(out)
        return activated


class CifarNet(nn.Module):
    """A residual network for 32 x 32 images, or its plain twin, of depth 6 blocks + 2.

    Parameters
    ----------
    blocks : int
        Blocks in each of the three stages.
    widths : tuple of int
        Channels of the three stages; the second and third halve the image's side.
    residual : bool
        Whether the blocks have shortcuts.
    classes : int
        Number of outputs.

    References
    ----------
    He et al. 2016, arXiv:1512.03385, Section 4.2, with the shortcuts of option A.
    """

    def __init__(
        self, blocks: int, widths: tuple[int, int, int], *, residual: bool, classes: int = 10
    ) -> None:
        super().__init__()
        self.conv1 = _conv(3, widths[0])
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.relu = nn.ReLU()
        self.layer1 = _stage(blocks, widths[0], widths[0], 1, residual=residual)
        self.layer2 = _stage(blocks, widths[0], widths[1], 2, residual=residual)
        self.layer3 = _stage(blocks, widths[1], widths[2], 2, residual=residual)
        self.linear = nn.Linear(widths[2], classes)
        _initialise(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map images N x 3 x H x W to N x classes."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.layer3(self.layer2(self.layer1(out)))
        logits: torch.Tensor = self.linear(_pooled(out))
        return logits


class ConvUnit(nn.Module):
    """A 3 x 3 convolution, batch normalisation and a ReLU."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        self.conv = _conv(channels_in, channels_out)
        self.bn = nn.BatchNorm2d(channels_out)
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map images N x channels_in x H x W to N x channels_out x H x W."""
        activated: torch.Tensor = self.relu(self.bn(self.conv(x)))
        return activated


class SmallVgg(nn.Module):
    """Stages of convolutions, each ended by max pooling, and a linear head.

    Parameters
    ----------
    stages : sequence of sequence of int
        The channels of each stage's convolutions. Depth is their number plus one.
    classes : int
        Number of outputs.

    References
    ----------
    After Simonyan and Zisserman 2015, arXiv:1409.1556, with batch normalisation.
    """

    def __init__(self, stages: Sequence[Sequence[int]], *, classes: int = 10) -> None:
        super().__init__()
        channels = 3
        self.stages = nn.Sequential()
        for widths in stages:
            stage = nn.Sequential()
            for width in widths:
                stage.append(ConvUnit(channels, width))
                channels = width
            self.stages.append(stage.append(nn.MaxPool2d(2)))
        self.linear = nn.Linear(channels, classes)
        _initialise(self)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map images N x 3 x H x W to N x classes."""
        logits: torch.Tensor = self.linear(_pooled(self.stages(x)))
        return logits


def _conv(channels_in: int, channels_out: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels_in, channels_out, 3, stride=stride, padding=1, bias=False)


def _stage(
    blocks: int, channels_in: int, channels_out: int, stride: int, *, residual: bool
) -> nn.Sequential:
    first = Block(channels_in, channels_out, stride, residual=residual)
    rest = (Block(channels_out, channels_out, 1, residual=residual) for _ in range(blocks - 1))
    return nn.Sequential(first, *rest)


def _shortcut(x: torch.Tensor, channels: int, stride: int) -> torch.Tensor:
    """Return the input with every ``stride``-th pixel and zeros for the channels it lacks."""
    lacking = channels - x.shape[1]
    if stride == 1 and lacking == 0:
        return x
    before = lacking // 2
    return functional.pad(x[:, :, ::stride, ::stride], (0, 0, 0, 0, before, lacking - before))


def _pooled(x: torch.Tensor) -> torch.Tensor:
    return functional.adaptive_avg_pool2d(x, 1).flatten(1)


def _initialise(network: nn.Module) -> None:
    """Draw the weights as He et al. 2015 (arXiv:1502.01852) do."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight)
