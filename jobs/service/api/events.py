"""Events over HTTP: as a list, and as an Atom feed."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from catalog.registry.rows import EventKind
from jobs.service.api.surveys import LARGEST
from jobs.service.dependencies import RegistryOfService
from jobs.service.feed import MEDIA_TYPE, feed
from jobs.service.receivers import event_object

router = APIRouter(tags=["events"])

#: Events in the feed.
IN_FEED = 50


class Event(BaseModel):
    """A notice of what happened, as webhooks are sent it."""

    id: str
    type: EventKind
    timestamp: str
    title: str
    #: The run it is about.
    cause: str
    data: dict[str, Any]


class EventPage(BaseModel):
    """A page of events."""

    items: list[Event]
    #: What ``next`` is given for the next page; None on the last one.
    next: str | None


@router.get("/events")
def list_all(
    registry: RegistryOfService,
    kind: Annotated[list[EventKind], Query()] = [],  # noqa: B006 - never changed
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    next: Annotated[str | None, Query(pattern="^[0-9]{1,9}$")] = None,  # noqa: A002
) -> EventPage:
    """List what happened, the newest first."""
    rows = registry.events.latest(limit + 1, kind, int(next) if next else LARGEST)
    items = [Event(**event_object(each)) for each in rows[:limit]]
    return EventPage(items=items, next=str(rows[limit - 1].number) if len(rows) > limit else None)


@router.get("/events.atom", response_class=Response, responses={200: {"content": {MEDIA_TYPE: {}}}})
def atom(request: Request, registry: RegistryOfService) -> Response:
    """Return what happened lately, as an Atom feed."""
    events = registry.events.latest(IN_FEED)
    return Response(feed(events, str(request.url_for("atom"))), media_type=MEDIA_TYPE)


@router.get("/events/{event_id}")
def show(event_id: str, registry: RegistryOfService) -> Event:
    """Return one event."""
    return Event(**event_object(registry.events.named(event_id)))
