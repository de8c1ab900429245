"""How nearly affine the activation of each channel is on data.

Of every channel of every activation site, over images and positions, the means and the centred
second moments of the activation's input z and output y give their squared correlation and the
least-squares map slope * z + offset.
"""

from __future__ import annotations

import torch
from torch import nn

from survey.capture.forward import Capture
from survey.errors import CaptureError
from survey.network_measures.site_channels import SiteCall, SiteFollower

#: Values of a site in float64 at a time.
_PIECE = 1 << 20


class ChannelMoments:
    """Moments of z and y of one site's c channels, in float64, pass by pass."""

    def __init__(self) -> None:
        self._count = 0
        #: Of z and y, 2 x c.
        self._means: torch.Tensor
        #: Sums of the centred products zz, zy and yy, 3 x c.
        self._squares: torch.Tensor
        self._eps = 0.0

    def add(self, z: torch.Tensor, y: torch.Tensor) -> None:
        """Add the values of one pass, c x m each."""
        if y.dtype.is_floating_point:
            self._eps = max(self._eps, torch.finfo(y.dtype).eps)
        channels = max(_PIECE // max(z.shape[1], 1), 1)
        pieces = zip(z.split(channels), y.split(channels), strict=True)
        moments = torch.cat([_moments(*each) for each in pieces], dim=1)
        self._join(z.shape[1], moments[:2], moments[2:])

    def _join(self, count: int, means: torch.Tensor, squares: torch.Tensor) -> None:
        """Join the moments of more values to these (Chan, Golub and LeVeque 1983)."""
        if not self._count:
            self._count, self._means, self._squares = count, means, squares
            return
        total = self._count + count
        dz, dy = means - self._means
        between = torch.stack([dz * dz, dz * dy, dy * dy]) * (self._count * count / total)
        self._squares = self._squares + squares + between
        self._means = self._means + (means - self._means) * (count / total)
        self._count = total

    @property
    def finite(self) -> bool:
        """Whether all moments are finite."""
        return bool(self._means.isfinite().all() and self._squares.isfinite().all())

    @property
    def constant(self) -> torch.Tensor:
        """Whether y is the same everywhere but for rounding, c booleans."""
        variance = self._squares[2] / self._count
        # Of half precision a result is rounded, and not what it is the sum of.
        noise = min(8 * self._eps, 2.0**-8)
        return variance <= noise**2 * (variance + self._means[1].square())

    @property
    def squared_correlation(self) -> torch.Tensor:
        """That of z and y, c numbers: 1 where y is constant, so that an affine map gives it."""
        zz, zy, yy = self._squares
        known = (zy.square() / (zz * yy)).nan_to_num(0.0, posinf=0.0).clamp(max=1.0)
        return torch.where(self.constant, 1.0, known)

    def affine_map(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the slope and the offset of the least-squares map from z to y, c numbers each."""
        zz, zy, _ = self._squares
        slope = torch.where(self.constant | (zz == 0), 0.0, zy / zz)
        return slope, self._means[1] - slope * self._means[0]


def _moments(z: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return means of z and y and sums of their centred products zz, zy and yy, 5 x c."""
    z, y = z.double(), y.double()
    z_mean, y_mean = z.mean(1), y.mean(1)
    z, y = z - z_mean[:, None], y - y_mean[:, None]
    dot = torch.linalg.vecdot
    return torch.stack([z_mean, y_mean, dot(z, z), dot(z, y), dot(y, y)])


class SiteMoments(SiteFollower):
    """The moments of every activation site of a network.

    Parameters
    ----------
    model : torch.nn.Module
        In eval mode.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._capture = Capture(model)
        self._all: dict[str, ChannelMoments] = {}
        self._sites: list[str] = []

    def add(self, images: torch.Tensor) -> None:
        """Add the values of a forward pass of some images.

        Raises
        ------
        CaptureError
            If it has no sites, they are not those of the passes before, their channels are not
            known, or their values are not finite.
        """
        with torch.no_grad():
            sites = [site.site_name for site in self._capture.follow(images, self)]
        if not sites:
            raise CaptureError("it has no activations")
        if self._sites and sites != self._sites:
            raise CaptureError("which activations it calls depends on the images")
        self._sites = sites
        for name, moments in self.of_sites().items():
            if not moments.finite:
                raise CaptureError(f"{name} has values that are not finite")

    def of_sites(self) -> dict[str, ChannelMoments]:
        """Return the moments of every site by name, in the order of their calls."""
        # A call that is a part of an activation written by hand is no site.
        return {name: self._all[name] for name in self._sites}

    def closed(self, call: SiteCall, output: torch.Tensor) -> None:
        """Add the values of one call."""
        self._all.setdefault(call.name, ChannelMoments()).add(*call.pair(output))
