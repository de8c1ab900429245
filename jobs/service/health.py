"""``/healthz``, which answers whatever else goes on, and ``/metrics`` for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from jobs.service.dependencies import HomeOfService, RegistryOfService
from jobs.service.metrics import HomeCollector

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Return that the service answers; this needs no token and reads no disk."""
    return {"status": "ok"}


@router.get("/metrics", response_class=Response)
def metrics(home: HomeOfService, registry: RegistryOfService) -> Response:
    """Return what there is to watch, in the text format of Prometheus."""
    collectors = CollectorRegistry(auto_describe=False)
    collectors.register(HomeCollector(home, registry))
    return Response(generate_latest(collectors), media_type=CONTENT_TYPE_LATEST)
