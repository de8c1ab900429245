"""Errors as problem JSON (RFC 9457): the product's own sentences and hints, without paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from jobs.operations.server_paths import without_paths
from jobs.service import API
from survey import errors
from survey.errors import SurveyError

#: What the types of the product's errors begin with; the name of the class follows.
TYPE_PREFIX = "urn:model-zoo-survey:error:"

#: The status of an error of a class, or of one that it inherits from.
_STATUSES: Mapping[type[SurveyError], HTTPStatus] = {
    errors.SurveyError: HTTPStatus.BAD_REQUEST,
    errors.UnknownName: HTTPStatus.NOT_FOUND,
    errors.NothingToDraw: HTTPStatus.NOT_FOUND,
    errors.UntrustedCode: HTTPStatus.FORBIDDEN,
    errors.UnreachableError: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.StoreError: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.ClusterError: HTTPStatus.SERVICE_UNAVAILABLE,
}


class Problem(BaseModel):
    """What went wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    #: What to do next.
    hint: str | None = None
    #: What is wrong about a request that does not fit the schema: ``msg``, and where, ``loc``.
    errors: list[dict[str, Any]] | None = None


class Refusal(HTTPException):
    """A request is refused.

    Parameters
    ----------
    status : HTTPStatus
        The response's status.
    message : str
        What is refused, and why.
    hint : str, optional
        What to do next.
    headers : mapping of str to str, optional
        Headers of the response.
    """

    def __init__(
        self,
        status: HTTPStatus,
        message: str,
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, headers)
        self.hint = hint


class Unavailable(Refusal):
    """A request cannot be answered now.

    Parameters
    ----------
    reason, hint : str
        Why, and what to do next.
    seconds : int, optional
        When it may be asked again.
    """

    def __init__(self, reason: str, hint: str, seconds: int | None = None) -> None:
        headers = None if seconds is None else {"Retry-After": str(seconds)}
        super().__init__(HTTPStatus.SERVICE_UNAVAILABLE, reason, hint, headers)


def problem_response(problem: Problem, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return a problem as a response."""
    return JSONResponse(
        problem.model_dump(exclude_none=True),
        problem.status,
        headers,
        media_type="application/problem+json",
    )


def of_error(error: SurveyError, request: Request, roots: Sequence[Path]) -> Problem:
    """Return the problem that one of the product's errors is, as it answers a request."""
    status = next(_STATUSES[kind] for kind in type(error).__mro__ if kind in _STATUSES)
    in_body = request.method == "POST" and not request.path_params
    if in_body and isinstance(error, errors.UnknownName):
        # The address is right.
        status = HTTPStatus.UNPROCESSABLE_ENTITY
    return Problem(
        type=TYPE_PREFIX + type(error).__name__,
        title=status.phrase,
        status=status,
        detail=without_paths(error.message, roots),
        hint=without_paths(error.hint, roots) if error.hint else None,
    )


#: What the framework refuses with no more than the name of a status.
_SENTENCES = {
    HTTPStatus.NOT_FOUND: "there is nothing at this address",
    HTTPStatus.METHOD_NOT_ALLOWED: "this address answers another method of HTTP",
}


def of_refusal(refusal: HTTPException) -> Problem:
    """Return the problem that a refusal is, of ours or of the framework's."""
    status = HTTPStatus(refusal.status_code)
    bare = refusal.detail == status.phrase
    return Problem(
        type="about:blank",
        title=status.phrase,
        status=status,
        detail=_SENTENCES.get(status, status.phrase) if bare else str(refusal.detail),
        hint=getattr(refusal, "hint", None),
    )


def of_invalid(invalid: RequestValidationError) -> Problem:
    """Return the problem of a request that does not fit the schema."""
    # Without what was given: it may be anything, JSON can hold less.
    wrong = [{"loc": list(each["loc"]), "msg": each["msg"]} for each in invalid.errors()]
    status = HTTPStatus.UNPROCESSABLE_ENTITY
    return Problem(
        type="about:blank",
        title=status.phrase,
        status=status,
        detail="; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in wrong),
        hint=f"the schema is at {API}/openapi.json",
        errors=wrong,
    )


#: What every route may answer beside its result.
RESPONSES: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "A problem.",
        "content": {"application/problem+json": {"schema": Problem.model_json_schema()}},
    }
}


#: Returns a problem as a page, with these headers.
ProblemPage = Callable[[Request, Problem, Mapping[str, str] | None], Response]


def explain_errors(app: FastAPI, roots: Sequence[Path], page: ProblemPage) -> None:
    """Let an application answer errors as problems, without the paths of these folders.

    Whoever takes HTML, as browsers do, gets them as a page, but below ``/api``.
    """

    def answer(
        request: Request, problem: Problem, headers: Mapping[str, str] | None = None
    ) -> Response:
        takes_page = "text/html" in request.headers.get("accept", "")
        if takes_page and not request.url.path.startswith("/api/"):
            return page(request, problem, headers)
        return problem_response(problem, headers)

    @app.exception_handler(SurveyError)
    def explained(request: Request, error: SurveyError) -> Response:
        return answer(request, of_error(error, request, roots))

    @app.exception_handler(HTTPException)
    def refused(request: Request, error: HTTPException) -> Response:
        return answer(request, of_refusal(error), error.headers)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> Response:
        return answer(request, of_invalid(error))

    @app.exception_handler(Exception)
    def unexpected(request: Request, _error: Exception) -> Response:
        # The server logs it, with its traceback.
        hint = "the service's log holds the reason"
        refusal = Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "an unexpected error", hint)
        return answer(request, of_refusal(refusal))
