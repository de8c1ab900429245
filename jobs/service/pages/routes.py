"""The routers of pages; all of their forms carry a token."""

from __future__ import annotations

from fastapi import APIRouter

from jobs.service.pages import analyses, assets_route, models, scan, schedules, sql

ROUTERS: tuple[APIRouter, ...] = (
    assets_route.router,
    scan.router,
    schedules.router,
    sql.router,
    models.router,
    analyses.router,
)
