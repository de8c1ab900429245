"""Tokens in the registry: their secrets are nowhere, and they end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from catalog.home import Home
from catalog.registry.registry import Registry
from catalog.registry.tokens import PREFIX, is_usable
from survey.errors import SettingsError, UnknownName

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


def test_a_secret_is_its_tokens_alone_and_stands_nowhere(home: Home) -> None:
    with Registry(home) as registry:
        secrets = [registry.tokens.add(name, "read", NOW) for name in ("a", "b")]
        assert [registry.tokens.of_secret(each).name for each in secrets] == ["a", "b"]
        assert registry.tokens.of_secret(secrets[0][:-1]) is None
        assert registry.tokens.of_secret("") is None
        # 256 bits of base64, beside what all begin with.
        assert min(len(each.removeprefix(PREFIX)) for each in secrets) >= 256 / 6
    for path in home.path.rglob("*"):
        if path.is_file():
            assert not any(each.encode() in path.read_bytes() for each in secrets), path


def test_a_token_ends_when_it_expires_or_is_revoked(home: Home) -> None:
    hour = timedelta(hours=1)
    with Registry(home) as registry:
        tokens = registry.tokens
        tokens.add("short", "read", NOW, NOW + hour)
        tokens.add("endless", "write", NOW)
        short, endless = tokens.all()[::-1]
        assert [is_usable(short, NOW + h * hour) for h in (0, 0.999, 1, 2)] == [True, True, 0, 0]
        assert is_usable(endless, NOW + 1e5 * hour)
        assert tokens.revoke("endless", NOW)
        assert not tokens.revoke("endless", NOW + hour)
        (endless,) = [each for each in tokens.all() if each.name == "endless"]
        assert endless.revoked_at == NOW
        assert not is_usable(endless, NOW)


@pytest.mark.parametrize("name", ["", "  ", "a\x00b", "bad\udcff", "a\nb"])
def test_a_name_can_be_read(home: Home, name: str) -> None:
    with Registry(home) as registry, pytest.raises(SettingsError):
        registry.tokens.add(name, "read", NOW)


def test_a_name_is_given_once(home: Home) -> None:
    with Registry(home) as registry:
        registry.tokens.add("a", "read", NOW)
        registry.tokens.revoke("a", NOW)
        with pytest.raises(SettingsError):
            registry.tokens.add("a", "read", NOW)
        with pytest.raises(UnknownName):
            registry.tokens.revoke("b", NOW)
