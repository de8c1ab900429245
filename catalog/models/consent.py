"""Consent: which of the user's code this process may import.

Nothing is imported that nobody consented to, by the sha256 of ``catalog.models.user_code``. The
command line keeps what its user consented to before; from Python, ``trust`` consents.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from catalog.models.user_code import UserCode, user_code
from survey.errors import UntrustedCode

#: The name of a network from the user's code: text, and no bytes that are none.
_NAME = re.compile(r"python:([A-Za-z_][\w.]*):[A-Za-z_]\w*(\?[^\ud800-\udfff]*)?")

#: A process imports a module once, for all that runs in it; so consent is the process's.
_admitted: set[str] = set()


def module_of(name: str) -> str | None:
    """Return the module of ``python:MODULE:FUNCTION``; None where a name has another form.

    Arguments may follow the function.
    """
    form = _NAME.fullmatch(name)
    return form[1] if form else None


def admit(hashes: Iterable[str]) -> None:
    """Let this process import the code of these sha256."""
    _admitted.update(hashes)


def admitted() -> frozenset[str]:
    """Return the sha256 of the code that this process may import."""
    return frozenset(_admitted)


def trust(name: str) -> None:
    """Let this process import the code of a network as it is now; runs none of it.

    Parameters
    ----------
    name : str
        ``python:MODULE:FUNCTION``.

    Raises
    ------
    CatalogError
        If there is no such module.
    """
    if code := lacking_consent(name):
        admit([code.sha256])


def lacking_consent(name: str) -> UserCode | None:
    """Return the code of a model that nobody consented to; None where there is none.

    Parameters
    ----------
    name : str
        The name of any model.

    Raises
    ------
    CatalogError
        If there is no such module.
    """
    module = module_of(name)
    code = user_code(module) if module else None
    return None if code is None or code.sha256 in _admitted else code


def consented(module: str) -> UserCode | None:
    """Return the code of a module that may be imported; None for one of an installed package.

    Raises
    ------
    UntrustedCode
        If nobody consented to the code as it is now.
    CatalogError
        If there is no such module.
    """
    code = user_code(module)
    if code is not None and code.sha256 not in _admitted:
        raise UntrustedCode(
            f"the module {module} is code in {code.root} that nobody consented to run as it is now"
            f" (sha256 {code.sha256[:12]})",
            hint="read it, then consent once: survey run --trust; from Python,"
            " catalog.models.consent.trust",
        )
    return code
