"""Networks from the user's code: ``python:MODULE:FUNCTION`` names a function that returns one.

Naming such a model runs the user's code, as importing their module would; nothing else here does.
An attribute ``survey`` of the function describes how its network is used::

    def make_net() -> nn.Module: ...

    make_net.survey = {"size": 32, "resize": 32, "classes": 10, "family": "Mine"}
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import math
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from catalog.models.base import Architecture, InputTransform, Published
from survey.errors import CatalogError, UnknownName

if TYPE_CHECKING:
    from torch import nn

#: How images are prepared where the function does not say.
TRANSFORM = InputTransform(size=224, resize=256)

_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_CHOICES = {"interpolation": ("bilinear", "bicubic"), "crop": ("center", "squash")}
_FORMS = {
    **dict.fromkeys(("size", "resize"), "a whole number of pixels"),
    "mean": "three numbers",
    "std": "three numbers above 0",
    "classes": "a whole number, 0 where outputs are no classes",
    "family": "a name",
    **{key: " or ".join(choices) for key, choices in _CHOICES.items()},
}


class PythonSource:
    """Functions that return a network, by module and name."""

    name = "python"

    def names(self) -> list[str]:
        """Return nothing: any importable function may be named."""
        return []

    def get(self, name: str) -> Architecture:
        """Return the network that a function returns; imports its module.

        Parameters
        ----------
        name : str
            ``module:function``. The current directory counts as importable.

        Raises
        ------
        UnknownName
            If the name is not of that form.
        CatalogError
            If the module cannot be imported, has no such function, or its ``survey`` attribute
            holds an unknown key or an unusable value.
        """
        if not _NAME.fullmatch(name):
            raise UnknownName("python model (write python:MODULE:FUNCTION)", name, ())
        settings = _attribute(name)
        family, classes = settings.pop("family", "own"), settings.pop("classes", 0)
        return Architecture(
            source=self.name,
            name=name,
            family=family,
            classes=classes,
            transform=_transform(name, settings),
            brings_weights=True,
            module=name.partition(":")[0],
            build=functools.partial(_build, name),
        )

    def published(self) -> tuple[Published, ...]:
        """Return nothing: the function brings the weights."""
        return ()


def _function(name: str) -> Callable[[], Any]:
    module_name, _, function_name = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        # A console script does not look there by itself, and users name what lies before them.
        sys.path.append(here)
    try:
        module = importlib.import_module(module_name)
    # A script that ends in sys.exit(main()) would otherwise end the survey silently.
    except (Exception, SystemExit) as problem:
        raise CatalogError(
            f"python:{name}: importing {module_name} fails: {type(problem).__name__}: {problem}",
            hint="run the command where the module lies, or install its package",
        ) from problem
    function = getattr(module, function_name, None)
    if not callable(function):
        kind = "has no" if function is None else "has something else than a function called"
        raise CatalogError(
            f"python:{name}: {module_name} {kind} {function_name}",
            hint="name a function without required arguments that returns a torch.nn.Module",
        )
    return cast("Callable[[], Any]", function)


def _attribute(name: str) -> dict[str, Any]:
    """Return a function's ``survey`` attribute, its values checked."""
    settings = getattr(_function(name), "survey", {})
    if not isinstance(settings, Mapping):
        raise CatalogError(
            f"{name}'s survey attribute is a {type(settings).__name__}, must be a dictionary",
            hint="write such as: make_net.survey = {'size': 32, 'classes': 10}",
        )
    for key in settings:
        if key not in _FORMS:
            # Not as an unknown name: that would be taken for no such model.
            wrong = UnknownName(f"key of {name}'s survey attribute:", key, _FORMS)
            raise CatalogError(wrong.message, hint=wrong.hint)
    for key, value in settings.items():
        if not _fits(key, value):
            raise CatalogError(
                f"{name}'s survey attribute has {key} = {value!r}, must be {_FORMS[key]}"
            )
    return dict(settings)


def _transform(name: str, settings: dict[str, Any]) -> InputTransform:
    if "size" in settings:
        settings.setdefault("resize", settings["size"])
    for key in {"mean", "std"} & settings.keys():
        settings[key] = tuple(settings[key])
    transform = dataclasses.replace(TRANSFORM, **settings)
    if transform.resize < transform.size:
        raise CatalogError(
            f"{name}'s survey attribute has resize = {transform.resize} and"
            f" size = {transform.size}: what is cropped must be no larger than what it is cut from"
        )
    return transform


def _fits(key: str, value: Any) -> bool:
    if key in ("size", "resize"):
        return type(value) is int and value > 0
    if key == "classes":
        return type(value) is int and value >= 0
    if key == "family":
        return isinstance(value, str) and bool(value.strip())
    if key in ("mean", "std"):
        numbers = isinstance(value, list | tuple) and len(value) == 3
        # Pixels divided by a deviation of 0 would be infinite, and so would every score after it.
        return numbers and all(_is_number(part) and (key == "mean" or part > 0) for part in value)
    return value in _CHOICES[key]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _build(name: str) -> nn.Module:
    from torch import nn

    function = _function(name)
    try:
        inspect.signature(function).bind()
    except TypeError as problem:
        raise CatalogError(
            f"python:{name} cannot be called without arguments: {problem}",
            hint="name a function without required arguments that returns a torch.nn.Module",
        ) from None
    except ValueError:
        # Functions written in C may have no signature; calling them tells.
        pass
    try:
        model = function()
    except (Exception, SystemExit) as problem:
        where = traceback.extract_tb(problem.__traceback__)[-1]
        raise CatalogError(
            f"python:{name} fails: {type(problem).__name__}: {problem}",
            hint=f"it was raised at {where.filename}:{where.lineno}; mend the function",
        ) from problem
    if not isinstance(model, nn.Module):
        raise CatalogError(
            f"python:{name} returned a {type(model).__name__}, must return a torch.nn.Module"
        )
    return model.eval()
