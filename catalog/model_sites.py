"""The elementwise non-linear calls of a model, listed before anything is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from catalog.model_facts import one_model

if TYPE_CHECKING:
    from catalog.models.base import Architecture
    from survey.capture.calls import Call

#: Images in the pass; one alone could not be told from an axis of length 1.
IMAGES = 2

_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("function", pa.string(), nullable=False),
        pa.field("shape", pa.string(), nullable=False),
        pa.field("layout", pa.string()),
        pa.field("site", pa.string()),
        pa.field("reason", pa.string()),
    ]
)


def show_sites(name: str) -> pa.Table:
    """List the elementwise non-linear calls of one forward pass, and why each is a site or none.

    The network has random weights. It is followed on two images without values where it can be,
    and on two random ones otherwise; nothing is downloaded.

    Parameters
    ----------
    name : str
        An architecture or published weights.

    Returns
    -------
    pyarrow.Table
        ``path`` of the activation module or of the module whose forward makes the call,
        ``function``, ``shape`` and ``layout`` of its input, ``site`` (its name; NULL where it is
        none), and ``reason``: why it is none, or why it cannot be measured.

    Raises
    ------
    UnknownName, SettingsError
        As ``one_model`` does.
    CaptureError
        If the network hides its activations.
    """
    calls = _calls(one_model(name)[0].architecture)
    rows = [
        {
            "path": call.path,
            "function": call.function,
            "shape": "x".join(map(str, call.shape)),
            "layout": call.layout,
            "site": call.site,
            "reason": call.reason,
        }
        for call in calls
    ]
    return pa.Table.from_pylist(rows, _SCHEMA)


def _calls(architecture: Architecture) -> list[Call]:
    import torch

    from catalog.checkpoint_references import build_seeded
    from survey.capture.forward import Capture
    from survey.errors import CaptureError

    size = architecture.transform.size
    images = torch.empty(IMAGES, 3, size, size, device="meta")
    try:
        with torch.device("meta"):
            model = architecture.build().eval()
        with torch.inference_mode():
            return Capture(model).calls(images)
    except CaptureError:
        raise
    except (RuntimeError, NotImplementedError, TypeError, ValueError):
        # Some networks compute with their values.
        model = build_seeded(architecture.build, 0).eval()
        generator = torch.Generator().manual_seed(0)
        with torch.inference_mode():
            return Capture(model).calls(torch.randn(images.shape, generator=generator))
