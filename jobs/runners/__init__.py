"""Where jobs are computed: the runners by name, ours and those of installed packages."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from survey.errors import UnknownName
from survey.extensions import Extensions, load_extensions

if TYPE_CHECKING:
    from jobs.runners.base import Runner
    from jobs.runners.options import RunnerOptions

#: The modules of the product's own runners, each with the class to import: Ray is slow to import.
_BUILT_IN = {
    "local": ("jobs.runners.local", "LocalRunner"),
    "ray": ("jobs.runners.ray.runner", "RayRunner"),
}


def make_runner(options: RunnerOptions) -> Runner:
    """Return the runner that the options name, not entered yet.

    Raises
    ------
    UnknownName
        If there is no runner of that name.
    SettingsError
        If the runner refuses the options.
    """
    if options.runner in _BUILT_IN:
        module, name = _BUILT_IN[options.runner]
        return getattr(import_module(module), name)(options)  # type: ignore[no-any-return]
    installed = dict(installed_runners().loaded)
    if options.runner not in installed:
        unknown = UnknownName("runner", options.runner, (*_BUILT_IN, *installed))
        if broken := installed_runners().broken:
            unknown.hint = "; ".join(map(str, broken))
        raise unknown
    return installed[options.runner](options)


@functools.cache
def installed_runners() -> Extensions[tuple[str, Callable[[RunnerOptions], Runner]]]:
    """Return the runners of installed packages with their names, and those that are broken."""
    return load_extensions("runner", _accepted)


def _accepted(runner: object) -> tuple[str, Callable[[RunnerOptions], Runner]]:
    name = getattr(runner, "name", None)
    if not callable(runner) or not isinstance(name, str):
        raise TypeError("a runner is a class with a name, made from RunnerOptions")
    if name in _BUILT_IN:
        raise ValueError(f"{name!r} is the name of a runner of the product")
    return name, runner
