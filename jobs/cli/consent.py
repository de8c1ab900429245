"""The user's consent to code of ``python:`` models: asked for once, kept by the code's hash.

It is kept in a file of the user's own and not in the home: a home may come from somebody else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from platformdirs import user_state_path

from analysis.option_fields import option
from jobs.cli.terminal import say
from survey.errors import SettingsError, UntrustedCode
from survey.text import counted

if TYPE_CHECKING:
    from catalog.models.user_code import UserCode
    from jobs.planning.definition import Definition

#: Who may change the file, beside its owner, may run code as its owner.
_OTHERS_WRITE = 0o022

_HEX_DIGITS = 64


def trust_option() -> Any:
    """Return the option of the verbs that may run the user's code."""
    return option(
        False, "Consent to the code of the survey's python: models as it is now, without asking."
    )


def recall_consent() -> None:
    """Let this process import the code that its user consented to before.

    Raises
    ------
    SettingsError
        If somebody else may have written the file that says so.
    """
    from catalog.models.consent import admit

    path = _consents()
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            status = os.fstat(file.fileno())
            lines = file.read().splitlines()
    except FileNotFoundError:
        return
    if status.st_uid != os.geteuid() or status.st_mode & _OTHERS_WRITE:
        raise SettingsError(
            f"{path} says which code may run, and others can write it",
            hint=f"look at it, then chmod 600 {path} or remove it",
        )
    first = (line.partition(" ")[0] for line in lines)
    admit(digest for digest in first if len(digest) == _HEX_DIGITS)


def obtain_consent(definition: Definition, *, trust: bool) -> None:
    """Make sure that the code of a survey's models may run: by earlier consent, or asked for now.

    Parameters
    ----------
    definition : Definition
        The survey.
    trust : bool
        Whether the user consents without being asked.

    Raises
    ------
    UntrustedCode
        If the user refuses, or cannot be asked.
    CatalogError
        If there is no such module.
    """
    from catalog.models.consent import admit
    from jobs.planning.user_models import code_to_consent

    recall_consent()
    codes = code_to_consent(definition)
    if not codes:
        return
    if not trust:
        _ask(codes)
    admit(code.sha256 for code in codes)
    _keep(codes)


def _ask(codes: Sequence[UserCode]) -> None:
    modules = ", ".join(code.module for code in codes)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UntrustedCode(
            f"the survey runs code that nobody consented to as it is now: {modules} in"
            f" {', '.join(dict.fromkeys(str(code.root) for code in codes))}",
            hint="read it, then add --trust: this content may run from then on",
        )
    for code in codes:
        files = counted(len(code.files), "file")
        say(f"{code.module} runs code in {code.root}: {files}")
        say(f"  sha256 {code.sha256}")
    try:
        agreed = typer.confirm("Run it, now and whenever its content is the same?", err=True)
    except typer.Abort as end:
        # Ctrl-C, or the end of the input, which is a no.
        if isinstance(end.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        agreed = False
    if not agreed:
        raise UntrustedCode(f"no consent to run {modules}")


def _keep(codes: Sequence[UserCode]) -> None:
    path = _consents()
    lines = "".join(f"{code.sha256} {code.module} {str(code.root)!r}\n" for code in codes)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(lines)
    except OSError as error:
        # Such as in a container: the consent holds for this command.
        say(f"the consent is not kept: {path}: {error.strerror}")


def _consents() -> Path:
    """Return the file of the hashes that this user consented to."""
    return user_state_path("model-zoo-survey") / "consents.txt"
