"""The style sheets and scripts of pages."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse

from analysis.report.templating import ASSETS
from jobs.service.problems import Refusal

router = APIRouter(prefix="/assets")

#: What is served, by the last part of its address: nothing else of these folders is.
FILES: dict[str, Path] = {
    path.relative_to(folder).as_posix(): path
    for folder in (ASSETS, Path(__file__).parent / "assets")
    for path in sorted(folder.rglob("*"))
    if path.suffix in (".css", ".js")
}


@router.get("/{name:path}")
def asset(name: str) -> FileResponse:
    """Return a style sheet or a script."""
    if name not in FILES:
        raise Refusal(HTTPStatus.NOT_FOUND, f"there is no file {name!r}")
    return FileResponse(FILES[name])
