"""Events as an Atom feed (RFC 4287)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from xml.etree import ElementTree

from catalog.registry.rows import EventRow
from jobs.service.receivers import event_object
from survey.text import storable

MEDIA_TYPE = "application/atom+xml"

_NAMESPACE = "http://www.w3.org/2005/Atom"

#: The namespace of the ids of feeds, made once.
_FEEDS = uuid.UUID("75672289-5a77-4861-847a-41cbb00965a8")


def feed(events: Sequence[EventRow], url: str, first_id: str | None) -> bytes:
    """Return a feed of events, the newest first.

    Parameters
    ----------
    events : sequence of EventRow
        The events.
    url : str
        Where the feed lies.
    first_id : str, optional
        The id of the home's oldest event, if there is one.
    """
    root = ElementTree.Element("feed", xmlns=_NAMESPACE)
    _add(root, "title", "Model-zoo survey")
    # Of the home, since a service has several addresses; a feed without events has no other id yet.
    _add(root, "id", f"urn:uuid:{uuid.uuid5(_FEEDS, first_id or '')}")
    ElementTree.SubElement(root, "link", rel="self", href=url)
    author = ElementTree.SubElement(root, "author")
    _add(author, "name", "survey serve")
    last = events[0].happened_at if events else datetime.fromtimestamp(0, UTC)
    _add(root, "updated", last.isoformat())
    for event in events:
        shown = event_object(event)
        entry = ElementTree.SubElement(root, "entry")
        _add(entry, "id", f"urn:uuid:{event.id}")
        _add(entry, "title", shown["title"])
        _add(entry, "updated", event.happened_at.isoformat())
        ElementTree.SubElement(entry, "category", term=event.kind)
        ElementTree.SubElement(
            entry, "link", rel="alternate", href=f"{url.removesuffix('.atom')}/{event.id}"
        )
        _add(entry, "content", json.dumps(shown["data"], indent=1), type="text")
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text


def _add(parent: ElementTree.Element, tag: str, text: str, **attributes: str) -> None:
    # XML has no other control characters.
    kept = "".join(each for each in storable(text) if each.isprintable() or each in "\n\t")
    ElementTree.SubElement(parent, tag, attributes).text = kept
