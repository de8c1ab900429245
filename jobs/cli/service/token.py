"""``survey token``: who may use the service from other machines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from analysis.option_fields import option
from catalog.registry.policies import TokenScope
from jobs.cli.output import TableOptions, emit_rows
from jobs.cli.terminal import say
from jobs.cli.verb import DEFAULT_HOME, HomeOption, verb

if TYPE_CHECKING:
    from catalog.registry.rows import AccessToken
    from catalog.registry.tokens import Tokens

token = typer.Typer(
    name="token",
    help="Tokens that let clients of survey serve in; only their hashes are kept.",
    no_args_is_help=True,
    add_completion=False,
)

#: The longest time that a token may be valid, in days: a hundred years.
LONGEST_DAYS = 36_500.0

_COLUMNS: dict[str, type[str | int | float]] = dict.fromkeys(
    ("name", "scope", "state", "created", "expires"), str
)


def _name() -> Any:
    return option(..., "Name of the token.", metavar="NAME", positional=True)


@token.command("add")
@verb
def add(
    *,
    name: str = _name(),
    scope: TokenScope = option("read", "What it allows: reading alone, or changing things too."),
    days: float | None = option(
        None, "Days after which it expires.", minimum=0.0, maximum=LONGEST_DAYS, none="it does not"
    ),
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Make a token and print its secret, which is shown this once."""
    now = datetime.now(UTC)
    expires_at = None if days is None else now + timedelta(days=days)
    with _tokens(home, create=True) as tokens:
        secret = tokens.add(name, scope, now, expires_at)
    say(secret, err=False)
    say("hint: send it as `Authorization: Bearer SECRET`; a browser takes it as the password")


@token.command("list")
@verb
def list_all(*, home: HomeOption = DEFAULT_HOME, table: TableOptions) -> None:
    """List the tokens; their secrets are kept nowhere."""
    now = datetime.now(UTC)
    with _tokens(home) as tokens:
        emit_rows([_row(each, now) for each in tokens.all()], _COLUMNS, table.format)


@token.command("revoke")
@verb
def revoke(*, name: str = _name(), home: HomeOption = DEFAULT_HOME) -> None:
    """Revoke a token: from now on it lets nobody in."""
    with _tokens(home) as tokens:
        revoked = tokens.revoke(name, datetime.now(UTC))
    say(f"{name} is revoked" if revoked else f"{name} was revoked before")


def _row(each: AccessToken, now: datetime) -> dict[str, Any]:
    from catalog.registry.tokens import is_usable

    unusable = "expired" if each.revoked_at is None else "revoked"
    return {
        "name": each.name,
        "scope": each.scope,
        "state": "usable" if is_usable(each, now) else unusable,
        "created": each.created_at.strftime("%Y-%m-%d %H:%M"),
        "expires": each.expires_at.strftime("%Y-%m-%d %H:%M") if each.expires_at else None,
    }


@contextmanager
def _tokens(home: Path, *, create: bool = False) -> Iterator[Tokens]:
    from catalog.open_home import open_home
    from catalog.registry.registry import Registry

    with Registry(open_home(home, create=create)) as registry:
        yield registry.tokens
