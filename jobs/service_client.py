"""A client of ``survey serve``: surveys, lists, SQL, saved queries and reports, over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import requests

from catalog.bounds import TooLargeError, parse_json, read_at_most
from jobs.service import API
from survey.errors import QueryError, SettingsError, SurveyError, UnreachableError

if TYPE_CHECKING:
    import pyarrow as pa

    from jobs.operations.status import Standing

_T = TypeVar("_T")

#: Seconds until a connection is there, and between two pieces of an answer.
_TIMEOUTS = (10.0, 600.0)

#: Seconds between two looks at a survey.
LOOK_SECONDS = 1.0

#: Seconds that a service, or its registry, may be away while a survey is watched.
PATIENCE_SECONDS = 600.0

#: Most bytes of an answer, unpacked, and most pages of a list.
MOST_BYTES, MOST_PAGES = 2**30, 10_000

#: Bytes asked for at a time: a compressed answer may have a thousand times as many.
_PIECE_BYTES = 2**14


@dataclass(frozen=True, slots=True)
class SurveyStanding:
    """Where a submitted survey stands, as far as it is shown."""

    id: int
    name: str
    state: str
    reason: str | None
    measured: int | None
    failed: int | None
    skipped: int | None


@dataclass(frozen=True, slots=True)
class ScanStanding:
    """How far a scan is; a service that never had one has no numbers."""

    jobs: int | None = None
    done: int | None = None
    #: When it began, in seconds since 1970.
    began_at: float | None = None


@dataclass(frozen=True, slots=True)
class _DriverStanding:
    """What the service's driver runs, and since when."""

    doing: str = ""
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class _ServiceProgress:
    scan: ScanStanding
    driver: _DriverStanding = _DriverStanding()


@dataclass(frozen=True, slots=True)
class ServiceAnswer:
    """What a service answers; it may be anyone's."""

    content: bytes
    #: The address of the next page; empty behind the last.
    next: str = ""

    def table(self) -> pa.Table:
        """Return its rows.

        Raises
        ------
        SurveyError
            If there are none that can be read.
        """
        import pyarrow as pa

        from catalog.arrow_streams import read_stream

        try:
            return read_stream(pa.BufferReader(self.content))
        except (pa.ArrowException, OSError) as error:
            raise SurveyError(f"what the service sent is no table: {error}") from None

    def values(self, kind: type[_T]) -> _T:
        """Return its JSON, of a declared type.

        Raises
        ------
        SurveyError
            If it is of another.
        """
        from pydantic import TypeAdapter, ValidationError

        try:
            return TypeAdapter(kind).validate_json(self.content)
        except ValidationError as error:
            wrong = error.errors()[0]
            place = ".".join(map(str, wrong["loc"])) or "it"
            raise SurveyError(
                f"what the service sent cannot be read: {place}: {wrong['msg']}",
                hint="is it a `survey serve` of this version?",
            ) from None


class ServiceClient:
    """Asks one service.

    Parameters
    ----------
    url : str
        Its address, such as ``http://127.0.0.1:8765``.
    token : str, optional
        The secret of a token of its, for services beyond this machine.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        if not _is_address(url):
            raise SettingsError(
                f"--server {url} is no address", hint="give one such as http://127.0.0.1:8765"
            )
        self._url, self._token = url.rstrip("/"), token
        self._session = requests.Session()
        self._session.auth = self._authorize

    def sql(self, statement: str, rows: int | None = None) -> pa.Table:
        """Return the result of one statement, or its first rows."""
        return self.ask("POST", "/sql.arrow", {"sql": statement, "limit": rows}).table()

    def report(self, asked: Mapping[str, Any]) -> IO[bytes]:
        """Return a report as a zip file; the options of ``survey report`` have no dashes here."""
        return BytesIO(self.ask("GET", f"/report.zip?{urlencode(asked, doseq=True)}").content)

    def saved_queries(self) -> dict[str, str]:
        """Return the queries that are kept, their SQL by name."""
        names, statements = _texts(self.listed("saved_queries"), "name", "sql")
        return dict(zip(names, statements, strict=True))

    def save_query(self, name: str, sql: str) -> None:
        """Keep a query for everybody, in the place of another of that name."""
        self.ask("POST", "/saved_queries", {"name": name, "sql": sql})

    def remove_query(self, name: str) -> None:
        """Forget a query that is kept."""
        self.ask("DELETE", f"/saved_queries/{quote(name)}")

    def submit(self, tables: dict[str, Any]) -> SurveyStanding:
        """Submit a survey, its tables as a survey file has them, and return where it stands."""
        return self.ask("POST", "/surveys", tables).values(SurveyStanding)

    def status(self, most: int | None = None, survey: int | None = None) -> Standing:
        """Return the state of all jobs, or the most urgent ones, as ``survey status`` shows it.

        Parameters
        ----------
        most : int, optional
            Most jobs.
        survey : int, optional
            The number of a submitted survey whose jobs alone are asked for.
        """
        from jobs.operations.status import Standing

        asked = {"limit": most, "survey": survey}
        query = urlencode({name: value for name, value in asked.items() if value is not None})
        return self.ask("GET", f"/status?{query}").values(Standing)

    def scan_of(self, survey: SurveyStanding) -> ScanStanding:
        """Return how far the scan of a survey that runs is; no numbers before it began."""
        progress = self.ask("GET", "/progress").values(_ServiceProgress)
        scan, driver = progress.scan, progress.driver
        # Until then the service shows how the last scan ended, which was another survey's.
        began = scan.began_at is not None and scan.began_at >= driver.since
        own = driver.doing.startswith(f"survey {survey.id} (")
        return scan if own and began else ScanStanding()

    def until_over(self, number: int) -> Iterator[SurveyStanding]:
        """Yield where a submitted survey stands, now and then, until it is over."""
        while True:
            survey = self.patiently(lambda: self.ask("GET", f"/surveys/{number}"), number)
            standing = survey.values(SurveyStanding)
            yield standing
            if standing.state not in ("queued", "running"):
                return
            time.sleep(LOOK_SECONDS)

    def patiently(self, ask: Callable[[], _T], number: int) -> _T:
        """Return what is asked about a submitted survey, from a service that may be away a while.

        Raises
        ------
        UnreachableError
            If it does not answer for ten minutes.
        """
        began = time.monotonic()
        while True:
            try:
                return ask()
            except UnreachableError as error:
                if time.monotonic() - began > PATIENCE_SECONDS:
                    hint = f"survey {number} may go on there: `survey status --server` shows it"
                    raise UnreachableError(error.message, hint=hint) from None
            time.sleep(LOOK_SECONDS)

    def listed(self, name: str, asked: Mapping[str, Any] | None = None) -> pa.Table:
        """Return all pages of a list, such as ``jobs``, narrowed by its parameters."""
        import pyarrow as pa

        query = urlencode({"limit": 10_000, **(asked or {})}, doseq=True)
        pages, path, taken, before = list[pa.Table](), f"{API}/{name}.arrow?{query}", 0, set[str]()
        while path:
            if len(pages) == MOST_PAGES or taken > MOST_BYTES or path in before:
                raise SurveyError(
                    f"the service's list of {name} has no end, more than {MOST_PAGES:,} pages, or"
                    f" more than {MOST_BYTES:,} bytes",
                    hint="ask for less, such as one state",
                )
            before.add(path)
            answer = self.ask("GET", path.removeprefix(API))
            taken += len(answer.content)
            pages.append(answer.table())
            path = answer.next
        try:
            return pa.concat_tables(pages)
        except pa.ArrowException as error:
            raise SurveyError(f"the service's pages do not fit together: {error}") from None

    def ask(self, method: str, path: str, content: dict[str, Any] | None = None) -> ServiceAnswer:
        """Return the answer to any request of the API.

        Parameters
        ----------
        method : str
            Such as ``POST``.
        path : str
            The address below ``/api/v1``, such as ``/schedules``, with its parameters.
        content : dict, optional
            The body.

        Raises
        ------
        UnreachableError
            If the service, or its registry, does not answer.
        SurveyError
            If it refuses: its sentence and its hint. If its answer has more than 1 GiB.
        """
        try:
            answer = self._session.request(
                method,
                self._url + API + path,
                json=content,
                timeout=_TIMEOUTS,
                # A token is for this address alone.
                allow_redirects=False,
                stream=True,
            )
            with closing(answer):
                pieces = _Pieces(answer.iter_content(_PIECE_BYTES))
                body = read_at_most(pieces, MOST_BYTES, "the service's answer")
        except TooLargeError as error:
            raise SurveyError(str(error), hint="ask for less") from None
        # A redirection's address that is no text is a ValueError.
        except (requests.RequestException, ValueError) as error:
            raise UnreachableError(
                f"{self._url} does not answer: {type(error).__name__}",
                hint="is `survey serve` running there?",
            ) from None
        if not answer.ok or answer.is_redirect:
            raise _refusal(answer, body)
        return ServiceAnswer(body, answer.links.get("next", {}).get("url", ""))

    def _authorize(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        # Whatever ~/.netrc holds for the host is for others.
        if self._token is not None:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class _Pieces:
    """A stream of pieces, each given whole whatever is asked for."""

    pieces: Iterator[bytes]

    def read(self, _size: int, /) -> bytes:
        """Return the next piece; none at the end."""
        return next(self.pieces, b"")


def _texts(table: pa.Table, *names: str) -> list[list[str]]:
    """Return columns of texts; raise SurveyError where there are none of such names."""
    try:
        return [[str(each) for each in table[name].to_pylist()] for name in names]
    except (KeyError, ValueError, OverflowError):
        raise SurveyError(f"what the service sent has no columns {', '.join(names)}") from None


def _refusal(answer: requests.Response, body: bytes) -> SurveyError:
    """Return the error that a refusal is: the product's own where it has one of the name."""
    try:
        problem = parse_json(body)
        message, hint, name = problem["detail"], problem.get("hint"), problem.get("type")
    except (ValueError, TypeError, KeyError, AttributeError):
        message, hint, name = f"the service answered {answer.status_code} {answer.reason}", None, ""
    kind = QueryError if str(name).endswith(":QueryError") else SurveyError
    if answer.status_code in (502, 503, 504):
        kind = UnreachableError
    return kind(str(message), hint=hint and str(hint))
