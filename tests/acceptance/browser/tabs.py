"""A real browser: tabs that keep what they asked for, and what shuts a reader out of a page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

#: Names that systems give the browser.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

#: By how many pixels a page is wider than its window: what is wider scrolls within.
_OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@contextmanager
def opened_browser() -> Iterator[Browser]:
    """Start the browser that this machine has."""
    result = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if result is None:
        pytest.fail(
            f"pages cannot be looked at: none of {', '.join(BROWSERS)} is installed"
            " (on Debian: apt-get install chromium)"
        )
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=result, args=["--no-sandbox"])
        yield opened
        opened.close()


@dataclass
class Watched:
    """A tab, and what it asked for and complained of."""

    page: Page
    requests: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def asked(self, request: Request) -> None:
        self.requests.append(request.url)

    def on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def shut_out(self, address: str) -> str:
        """Return what axe finds at a page, which is as wide as the window at most."""
        self.page.goto(address)
        assert self.page.evaluate(_OVERFLOW) <= 0, address
        result = Axe().run(self.page)
        return f"{address}\n{result.generate_report()}\n" if result.violations_count else ""


@contextmanager
def watched_tab(browser: Browser, **options: Any) -> Iterator[Watched]:
    """Open a tab of its own."""
    context = browser.new_context(**options)
    watched = Watched(context.new_page())
    watched.page.on("request", watched.asked)
    watched.page.on("console", watched.on_console)
    watched.page.on("pageerror", lambda error: watched.problems.append(str(error)))
    yield watched
    context.close()
