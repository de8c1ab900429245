"""The user's login to the model hub."""

from __future__ import annotations

from collections.abc import Callable

import requests

from catalog.downloads.urls import hub_file
from survey.errors import DownloadError


def hub_login(url: str) -> Callable[[requests.PreparedRequest], requests.PreparedRequest] | None:
    """Return what adds the user's login to a request to the hub; requests keeps it to that host.

    Raises
    ------
    DownloadError
        If the login is none that a request could carry.
    """
    if hub_file(url) is None:
        return None
    from huggingface_hub import get_token

    token = get_token()
    if token is None:
        return None

    if not (token.isascii() and token.isprintable()):
        raise DownloadError(
            "the login to the model hub (HF_TOKEN) has characters that no token has",
            hint="set HF_TOKEN anew, or run `hf auth login`",
        )

    def signed(request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {token}"
        return request

    return signed
