"""``/healthz``, which answers whatever else goes on, and ``/metrics`` for Prometheus."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from pydantic import BaseModel

from jobs.service.dependencies import HomeOfService, RegistryOfService
from jobs.service.metrics import HomeCollector

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """That a service answers."""

    status: Literal["ok"] = "ok"
    #: Whether lists and answers wait for the first copy of what the home holds.
    copying: bool


@router.get("/healthz")
async def healthz(request: Request) -> Health:
    """Return that the service answers; this needs no token and reads no disk."""
    return Health(copying=request.app.state.first_copy.under_way)


@router.get("/metrics", response_class=Response)
def metrics(home: HomeOfService, registry: RegistryOfService) -> Response:
    """Return what there is to watch, in the text format of Prometheus."""
    collectors = CollectorRegistry(auto_describe=False)
    collectors.register(HomeCollector(home, registry))
    return Response(generate_latest(collectors), media_type=CONTENT_TYPE_LATEST)
