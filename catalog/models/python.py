"""Networks from the user's code: ``python:MODULE:FUNCTION`` names a function that returns one.

One without a float32 parameter is converted to float32.

Arguments may follow: ``python:MODULE:FUNCTION?width=64`` (``catalog.models.arguments``). To look
such a model up runs the user's code, where there is consent to that:
see ``catalog.models.consent``.
An attribute ``survey`` of the function describes how its network is used::

    def make_net() -> nn.Module: ...

    make_net.survey = {"size": 32, "resize": 32, "classes": 10, "family": "Mine"}
"""

from __future__ import annotations

import functools
import importlib
import inspect
import traceback
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, cast

import pydantic
from pydantic import Field, PositiveInt

from catalog.models.arguments import Argument, parse_name, written_name
from catalog.models.base import Architecture, InputTransform, ModelSource
from catalog.models.consent import consented, module_of
from survey.errors import CatalogError, UnknownName

if TYPE_CHECKING:
    from torch import nn

    from catalog.models.user_code import UserCode

#: How images are prepared where the function does not say.
TRANSFORM = InputTransform(size=224, resize=256)

#: How a parameter is called that may be given by its name.
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)

#: The types of values that a parameter of an annotation takes, by its name; its own comes last.
_TYPES = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,)}

#: Whole numbers stay whole: how a transform is written is part of a run's id.
_Number = int | pydantic.FiniteFloat
# Pixels divided by a deviation of 0 would be infinite, and so would every score after it.
_Deviation = Annotated[_Number, Field(gt=0)]


def _ordered(value: object) -> object:
    """Return a list as a tuple, and anything else as it is: a set has no order of channels."""
    return tuple(value) if isinstance(value, list) else value


_Channels = pydantic.BeforeValidator(_ordered)


class SurveyAttribute(pydantic.BaseModel):
    """What the attribute ``survey`` of a function may hold."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True)

    size: PositiveInt = TRANSFORM.size
    resize: PositiveInt = TRANSFORM.resize
    interpolation: Literal["bilinear", "bicubic"] = TRANSFORM.interpolation
    crop: Literal["center", "squash"] = TRANSFORM.crop
    mean: Annotated[tuple[_Number, ...], _Channels] = TRANSFORM.mean
    std: Annotated[tuple[_Deviation, ...], _Channels] = TRANSFORM.std
    #: 0 where outputs are no classes.
    classes: pydantic.NonNegativeInt = 0
    family: str = Field("own", pattern=r"\S")

    @pydantic.model_validator(mode="after")
    def _crop_fits(self) -> Self:
        if "resize" not in self.model_fields_set and "size" in self.model_fields_set:
            self.resize = self.size
        if self.resize < self.size:
            raise ValueError("what is cropped must be no larger than what it is cut from")
        return self

    @pydantic.model_validator(mode="after")
    def _channels_fit(self) -> Self:
        if len(self.mean) not in (1, 3) or len(self.std) != len(self.mean):
            raise ValueError(
                "mean and std must have three numbers each, or one each for grey images"
            )
        return self


class PythonSource(ModelSource):
    """Functions that return a network with its weights; none is listed, any may be named."""

    name = "python"

    def get(self, name: str) -> Architecture:
        """Return the network that a function returns; imports its module, given consent.

        Parameters
        ----------
        name : str
            ``module:function``, or with arguments ``module:function?width=64``. The current
            directory counts as importable.

        Raises
        ------
        UnknownName
            If the name is not of that form.
        UntrustedCode
            If nobody consented to the module's code as it is now.
        CatalogError
            If there is no such module, it cannot be imported or has no such function, the
            function does not take these arguments or is imported from elsewhere, or its
            ``survey`` attribute holds an unknown key or an unusable value.
        """
        module = module_of(f"{self.name}:{name}")
        if module is None:
            raise UnknownName("python model (write python:MODULE:FUNCTION)", name, ())
        code = consented(module)
        function_name, arguments = parse_name(name)
        function = _function(function_name, code)
        # Consent is to code, whatever it is called with: what it imports may run any command.
        if arguments and not (code and code.defines(function)):
            raise CatalogError(
                f"python:{function_name} takes no arguments: it is not defined in code that you"
                " consented to",
                hint="arguments are for functions of your own: write one that calls it",
            )
        _check_arguments(function_name, function, arguments)
        attribute = _attribute(function_name, function)
        transform = attribute.model_dump(exclude={"classes", "family"})
        return Architecture(
            source=self.name,
            name=written_name(function_name, arguments),
            family=attribute.family,
            classes=attribute.classes,
            transform=InputTransform(**transform),
            brings_weights=True,
            module=module,
            code_sha256=code.sha256 if code else None,
            build=functools.partial(_build, function_name, arguments, code),
        )


def _function(name: str, code: UserCode | None) -> Callable[..., Any]:
    module_name, _, function_name = name.partition(":")
    try:
        module = code.load() if code else importlib.import_module(module_name)
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
            hint="name a function that returns a torch.nn.Module",
        )
    return cast("Callable[..., Any]", function)


def _check_arguments(
    name: str, function: Callable[..., Any], arguments: Mapping[str, Argument]
) -> None:
    """Refuse arguments that a function does not take, lacks, or takes as another type."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        # Functions written in C may have no signature; calling them tells.
        return
    taken = [each for each in signature.parameters.values() if each.kind in _NAMED]
    hint = f"it takes {', '.join(map(str, taken)) or 'no arguments'}"
    types = {each.name: _TYPES.get(_type_name(each.annotation)) for each in taken}
    for argument, value in arguments.items():
        allowed = types.get(argument)
        if allowed and type(value) not in allowed:
            raise CatalogError(
                f"python:{name} takes {argument} as {allowed[-1].__name__}, met {value!r}",
                hint=hint,
            )
    try:
        # Arguments that it does not take come before those that are missing.
        signature.bind_partial(**arguments)
        signature.bind(**arguments)
    except TypeError as problem:
        given = ", ".join(arguments) or "without arguments"
        raise CatalogError(
            f"python:{name} cannot be called ({given}): {problem}", hint=hint
        ) from None


def _type_name(annotation: object) -> str:
    """Return an annotation as it is written: it may be text."""
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")


def _attribute(name: str, function: Callable[..., Any]) -> SurveyAttribute:
    """Return a function's ``survey`` attribute, checked."""
    try:
        return SurveyAttribute.model_validate(getattr(function, "survey", {}))
    except pydantic.ValidationError as error:
        # Of a number that is neither whole nor another, the last is why it is no other.
        problem = error.errors()[-1]
        key = ".".join(map(str, problem["loc"][:2]))
        met = f"{key} = {problem['input']!r}" if key else repr(problem["input"])
        raise CatalogError(
            f"{name}'s survey attribute has {met}: {problem['msg']}",
            hint=f"write such as: make_net.survey = {{'size': 32, 'classes': 10}}; its keys are"
            f" {', '.join(SurveyAttribute.model_fields)}",
        ) from None


def _build(name: str, arguments: Mapping[str, Argument], code: UserCode | None) -> nn.Module:
    import torch
    from torch import nn

    function = _function(name, code)
    try:
        model = function(**arguments)
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
    types = {each.dtype for each in model.parameters() if each.is_floating_point()}
    if types and torch.float32 not in types:
        # Buffers too. Beside parameters in float32 all stay: the weights' hash holds the types, and
        # a network of several types casts by itself.
        model = model.float()
    return model.eval()
