"""Modules whose activations cannot be captured, with a remedy for each."""

from __future__ import annotations

import contextlib
import sys

import torch
from torch import nn

from survey.errors import CaptureError


def refuse_hidden(names: dict[nn.Module, str]) -> None:
    """Refuse modules whose activations neither hooks nor torch function modes see.

    Parameters
    ----------
    names : dict of torch.nn.Module to str
        Every module of a network with its path.

    Raises
    ------
    CaptureError
        If there is such a module; the message names it.
    """
    for module, name in names.items():
        reason = _hidden(module)
        if reason is not None:
            where = name or "the model itself"
            kind = type(module).__name__
            raise CaptureError(f"{where} is of class {kind}: {reason[0]}", hint=reason[1])


def uncompiled() -> contextlib.AbstractContextManager[object]:
    """Return a context in which compiled functions that a network calls run as Python."""
    if "torch._dynamo" not in sys.modules:
        # Nothing is compiled, and the module takes long to import.
        return contextlib.nullcontext()
    eager: contextlib.AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return eager


def _hidden(module: nn.Module) -> tuple[str, str] | None:
    if isinstance(module, torch.jit.ScriptModule):
        return "compiled TorchScript hides its activations", "measure the Python model instead"
    if type(module).__name__ == "OptimizedModule" or _compiled_in_place(module):
        return "torch.compile hides its activations", "measure the model before it is compiled"
    fused = isinstance(module, nn.TransformerEncoderLayer)
    if fused and torch.backends.mha.get_fastpath_enabled():
        return (
            "its fused kernel hides the activation",
            "call torch.backends.mha.set_fastpath_enabled(False) before measuring",
        )
    return None


def _compiled_in_place(module: nn.Module) -> bool:
    """Return whether a module was compiled by its own method, or its ``forward`` was replaced."""
    forward = vars(module).get("forward")
    return module._compiled_call_impl is not None or hasattr(forward, "_torchdynamo_orig_callable")
