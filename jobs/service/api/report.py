"""The report over HTTP: the folder that ``survey report`` writes, as one file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import BoundedSemaphore
from typing import Annotated, cast

from fastapi import APIRouter, Depends, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse
from pydantic import BaseModel, ConfigDict, create_model

from analysis.data.selection import Selection
from jobs.operations.report_archive import ReportOptions, archive_report
from jobs.service.api.parameters import ALL_RUNS, option_parameters, options_from
from jobs.service.dependencies import HomeOfService
from jobs.service.own_process import OwnProcess
from jobs.service.problems import Unavailable
from jobs.service.queries import ended_with_client

router = APIRouter(tags=["report"])

#: Seconds that a report may take.
MOST_SECONDS = 570.0

_MEDIA_TYPE = "application/zip"

#: One at a time: each takes a processor and the memory of all its runs.
_TURN = BoundedSemaphore(1)

_Asked = create_model(
    "report_parameters",
    __config__=ConfigDict(extra="forbid"),
    **option_parameters(Selection),
    **option_parameters(ReportOptions),
    all_runs=ALL_RUNS,
)


@contextmanager
def _turn() -> Iterator[None]:
    """Let no other report be made meanwhile; refuse where one is."""
    if not _TURN.acquire(blocking=False):
        raise Unavailable("another report is being made", "ask again in a minute", 60)
    try:
        yield
    finally:
        _TURN.release()


def _room() -> Iterator[Path]:
    """Give a folder for a report, which is there until its client has it."""
    with TemporaryDirectory(prefix="survey-report-") as folder:
        yield Path(folder)


@router.get(
    "/report.zip",
    response_class=FileResponse,
    responses={200: {"content": {_MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}}},
)
async def report(
    request: Request,
    home: HomeOfService,
    asked: Annotated[_Asked, Query()],  # type: ignore[valid-type]
    room: Annotated[Path, Depends(_room)],
) -> FileResponse:
    """Return a report as a zip file; it is made while the client waits, one at a time."""
    given = cast("BaseModel", asked).model_dump(exclude_none=True)
    selection = Selection(**options_from(Selection, given), newest=not given["all_runs"])
    options = ReportOptions(**options_from(ReportOptions, given))
    with _turn():
        process = OwnProcess(archive_report, home.path, room / "report", selection, options)
        async with ended_with_client(request, process.end):
            file = await run_in_threadpool(process.result, MOST_SECONDS)
    # Sent after the turn: whoever has it may ask for another at once.
    return FileResponse(file, media_type=_MEDIA_TYPE, filename="report.zip")
