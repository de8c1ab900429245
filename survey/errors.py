"""The hierarchy of the product's errors.

Every error says what happened, which value was met and what is allowed; ``hint`` says what to
do next, and the command line shows it on a line of its own.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from survey.text import first_names, shortened


class SurveyError(Exception):
    """Base class of the errors that the product explains.

    Parameters
    ----------
    message : str
        What happened, with the value met and what is allowed.
    hint : str, optional
        What to do next.
    """

    #: Exit code of a command that ends with this error.
    exit_code = 2

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            # A traceback in a notebook shows notes, and nothing else beside the message.
            self.add_note(f"hint: {hint}")

    def __reduce__(self) -> tuple[object, ...]:
        # Ray pickles errors between processes; by default one is made by calling its class with the
        # message, which those with more arguments refuse.
        return Exception.__new__, (type(self), *self.args), self.__dict__


class SettingsError(SurveyError):
    """A setting, option or survey file cannot be used."""


class QueryError(SettingsError):
    """A statement is refused; the lines of the message point into it."""


class FigureError(SurveyError):
    """A figure cannot be drawn."""


class NothingToDraw(FigureError):
    """There is nothing that a figure could show."""

    exit_code = 1


class InputError(SurveyError):
    """Matrices or images cannot be scored."""


class UndefinedScore(InputError):
    """The score has no value in [0, 1] for this input.

    Attributes
    ----------
    status : str
        The row status that says why: ``constant``, ``nonfinite``, ``out_of_range`` or ``failed``.
    raw : float or None
        What the formula gave, where it gave anything.
    """

    def __init__(
        self, message: str, *, status: str, raw: float | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.raw = raw


class CaptureError(SurveyError):
    """The activations of a network cannot be followed."""


class NotPiecewiseLinear(SurveyError):
    """A network has no linear regions, or none that are seen."""


class CatalogError(SurveyError):
    """A model, checkpoint or dataset is unknown or unusable."""


class UnknownName(CatalogError):
    """A name is none of those that exist.

    Parameters
    ----------
    kind : str
        What was looked up: ``architecture``, ``setting``, ...
    name : str
        The name met; the message has its first 200 letters.
    choices : iterable of str
        The names that exist.
    hint : str, optional
        What to do next; by default the names that are close, or the first that exist.
    """

    def __init__(
        self, kind: str, name: str, choices: Iterable[str], hint: str | None = None
    ) -> None:
        # Several sources may have a model of one name.
        known = sorted(set(choices))
        super().__init__(
            f"unknown {kind} {shortened(repr(name), 200)}", hint=hint or self._names(name, known)
        )

    @staticmethod
    def _names(name: str, known: list[str]) -> str | None:
        close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        if close:
            return f"did you mean {' or '.join(close)}?"
        return f"known: {first_names(known, 12)}" if known else None


class UntrustedCode(CatalogError):
    """Code of the user's own would run that nobody consented to."""


class CheckpointError(CatalogError):
    """A file of weights is refused."""


class DatasetError(CatalogError):
    """A dataset is refused."""


class DownloadError(CatalogError):
    """A file cannot be fetched, or is not what was published."""


class UnreachableError(DownloadError):
    """A server does not answer, after every retry."""

    exit_code = 3


class StoreError(SurveyError):
    """A store cannot be opened, read or written."""

    exit_code = 3


class NewerError(StoreError):
    """A home or a backup was made by a newer program: no other time will do."""

    exit_code = 2


class CapacityError(SurveyError):
    """A survey needs more memory or more of the disk than there is."""

    exit_code = 3


class ClusterError(SurveyError):
    """A cluster or a worker cannot be reached."""

    exit_code = 3
