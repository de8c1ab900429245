"""Events over HTTP as an Atom feed; as a list they are one of ``jobs.service.api.lists``."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from jobs.service.dependencies import RegistryOfService
from jobs.service.feed import MEDIA_TYPE, feed

router = APIRouter(tags=["events"])

#: Events in the feed.
IN_FEED = 50


@router.get("/events.atom", response_class=Response, responses={200: {"content": {MEDIA_TYPE: {}}}})
def atom(request: Request, registry: RegistryOfService) -> Response:
    """Return what happened lately, as an Atom feed."""
    events = registry.events.latest(IN_FEED)
    content = feed(events, str(request.url_for("atom")), registry.events.first_id())
    return Response(content, media_type=MEDIA_TYPE)
