"""The state of every job, as ``survey status`` shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from jobs.operations.server_paths import without_folders
from jobs.operations.status import JobStanding, Standing, standing
from jobs.service.api.surveys import LARGEST
from jobs.service.dependencies import HomeOfService, RegistryOfService
from jobs.service.store_turns import store_turn

router = APIRouter(tags=["jobs"])


@dataclass(frozen=True, slots=True)
class Status(Standing):
    """All jobs or the most urgent ones, and how many there are in each state."""

    next: None = None


@router.get("/status", dependencies=[Depends(store_turn)])
def status(
    home: HomeOfService,
    registry: RegistryOfService,
    limit: Annotated[int | None, Query(ge=1, description="Most jobs; all by default.")] = None,
    survey: Annotated[
        int | None, Query(ge=1, le=LARGEST, description="A submitted survey whose jobs are meant.")
    ] = None,
) -> Status:
    """Return the state of every job, those that run or went wrong first."""
    survey_id = None if survey is None else registry.submissions.named(survey).survey_id
    shown = standing(home, limit, survey_id)
    items = [JobStanding(**without_folders(each.row())) for each in shown.items]
    return Status(items, shown.jobs, shown.flags, shown.summary)
