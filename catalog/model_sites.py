"""The elementwise non-linear calls of a model, listed before anything is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from catalog.arrow_arrays import table_of
from catalog.model_facts import one_model
from survey.settings import Pooling

if TYPE_CHECKING:
    import torch

    from catalog.models.base import Architecture
    from survey.capture.forward import Capture

_Seen = TypeVar("_Seen")

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
    CatalogError
        If it cannot be built, or fails on images of its own shape.
    """
    calls = followed(one_model(name)[0].architecture, lambda capture, images: capture.calls(images))
    rows = [asdict(call) | {"shape": "x".join(map(str, call.shape))} for call in calls]
    return table_of(rows, _SCHEMA)


def followed(
    architecture: Architecture,
    look: Callable[[Capture, torch.Tensor], _Seen],
    pooling: Pooling = "mean",
) -> _Seen:
    """Return what is seen of one pass of a network with random weights.

    Parameters
    ----------
    architecture : Architecture
        The network.
    look : callable
        Takes the capture and the images, and runs the pass: on images without values first, and
        where the network computes with its values on random ones.
    pooling : {"mean", "pre", "sum", "flatten", "public_code"}
        How tensors become matrices.

    Raises
    ------
    CaptureError
        If the network hides its activations.
    CatalogError
        If it cannot be built, or fails on images of its own shape.
    """
    import torch

    from catalog.checkpoint_references import build_seeded
    from catalog.models.base import failing
    from survey.capture.forward import Capture
    from survey.errors import CaptureError, SurveyError

    images = torch.empty(IMAGES, *architecture.transform.shape, device="meta")
    try:
        with torch.device("meta"):
            model = architecture.build().eval()
        with torch.inference_mode():
            return look(Capture(model, pooling), images)
    except CaptureError:
        raise
    except Exception:  # noqa: BLE001 - a network is code, and may raise anything
        # Some networks compute with their values.
        model = build_seeded(architecture.build, 0).eval()
        images = torch.randn(images.shape, generator=torch.Generator().manual_seed(0))
    try:
        with torch.inference_mode():
            return look(Capture(model, pooling), images)
    except SurveyError:
        raise
    except Exception as problem:
        raise failing(architecture, problem) from problem
