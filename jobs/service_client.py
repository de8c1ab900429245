"""A client of ``survey serve``: surveys, lists, SQL, saved queries and reports, over HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import requests

from survey.errors import QueryError, SettingsError, SurveyError, UnreachableError

if TYPE_CHECKING:
    import pyarrow as pa

#: Seconds until a connection is there, and between two pieces of an answer.
_TIMEOUTS = (10.0, 600.0)

#: Seconds between two looks at a survey.
LOOK_SECONDS = 1.0

_API = "/api/v1"


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
        if not url.startswith(("http://", "https://")):
            raise SettingsError(
                f"--server {url} is no address", hint="give one such as http://127.0.0.1:8765"
            )
        self._url, self._token = url.rstrip("/"), token
        self._session = requests.Session()
        self._session.auth = self._authorize

    def sql(self, statement: str, rows: int | None = None) -> pa.Table:
        """Return the result of one statement, or its first rows."""
        import pyarrow as pa

        asked = {"sql": statement, "limit": rows}
        return pa.ipc.open_stream(self.ask("POST", "/sql.arrow", asked).content).read_all()

    def report(self, asked: Mapping[str, Any]) -> IO[bytes]:
        """Return a report as a zip file; the options of ``survey report`` have no dashes here."""
        return BytesIO(self.ask("GET", f"/report.zip?{urlencode(asked, doseq=True)}").content)

    def saved_queries(self) -> dict[str, str]:
        """Return the queries that are kept, their SQL by name."""
        return {each["name"]: each["sql"] for each in self.listed("saved_queries").to_pylist()}

    def save_query(self, name: str, sql: str) -> None:
        """Keep a query for everybody, in the place of another of that name."""
        self.ask("POST", "/saved_queries", {"name": name, "sql": sql})

    def remove_query(self, name: str) -> None:
        """Forget a query that is kept."""
        self.ask("DELETE", f"/saved_queries/{quote(name)}")

    def submit(self, tables: dict[str, Any]) -> dict[str, Any]:
        """Submit a survey, its tables as a survey file has them, and return where it stands."""
        answer: dict[str, Any] = self.ask("POST", "/surveys", tables).json()
        return answer

    def progress(self) -> dict[str, Any]:
        """Return what the service's driver does, and how far its scan is."""
        answer: dict[str, Any] = self.ask("GET", "/progress").json()
        return answer

    def until_over(self, number: int) -> Iterator[dict[str, Any]]:
        """Yield where a submitted survey stands, now and then, until it is over."""
        while True:
            survey: dict[str, Any] = self.ask("GET", f"/surveys/{number}").json()
            yield survey
            if survey["state"] not in ("queued", "running"):
                return
            time.sleep(LOOK_SECONDS)

    def listed(self, name: str, asked: Mapping[str, Any] | None = None) -> pa.Table:
        """Return all pages of a list, such as ``jobs``, narrowed by its parameters."""
        import pyarrow as pa

        query = urlencode({"limit": 10_000, **(asked or {})}, doseq=True)
        pages, path = [], f"{_API}/{name}.arrow?{query}"
        while path:
            answer = self.ask("GET", path.removeprefix(_API))
            pages.append(pa.ipc.open_stream(answer.content).read_all())
            path = answer.links.get("next", {}).get("url", "")
        return pa.concat_tables(pages)

    def ask(
        self, method: str, path: str, content: dict[str, Any] | None = None
    ) -> requests.Response:
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
            If the service does not answer.
        SurveyError
            If it refuses: its sentence and its hint.
        """
        try:
            answer = self._session.request(
                method,
                self._url + _API + path,
                json=content,
                timeout=_TIMEOUTS,
                # A token is for this address alone.
                allow_redirects=False,
            )
        except requests.RequestException as error:
            raise UnreachableError(
                f"{self._url} does not answer: {type(error).__name__}",
                hint="is `survey serve` running there?",
            ) from None
        if not answer.ok or answer.is_redirect:
            raise _refusal(answer)
        return answer

    def _authorize(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        # Whatever ~/.netrc holds for the host is for others.
        if self._token is not None:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def _refusal(answer: requests.Response) -> SurveyError:
    """Return the error that a refusal is: the product's own where it has one of the name."""
    try:
        problem = answer.json()
        message, hint = problem["detail"], problem.get("hint")
    except (ValueError, TypeError, KeyError):
        return SurveyError(f"the service answered {answer.status_code} {answer.reason}")
    kind = QueryError if problem.get("type", "").endswith(":QueryError") else SurveyError
    return kind(message, hint=hint)
