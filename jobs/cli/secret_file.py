"""Files that hold a secret: a token's, or that of webhooks."""

from __future__ import annotations

from pathlib import Path

from catalog.bounds import TooLargeError, read_at_most
from survey.errors import SettingsError

#: Bytes of the longest secret.
_MOST_BYTES = 1 << 16


def secret_in(path: Path, flag: str) -> str:
    """Return the secret in a file, which may be a pipe, without the spaces around it.

    Raises
    ------
    SettingsError
        If it cannot be read or is too long.
    """
    try:
        with path.open("rb") as file:
            content = read_at_most(file, _MOST_BYTES, "it")
            return content.decode("utf-8", "surrogateescape").strip()
    except TooLargeError as error:
        reason = str(error)
    except OSError as error:
        reason = error.strerror or str(error)
    raise SettingsError(f"{flag} {path} cannot be read: {reason}")
