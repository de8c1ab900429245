"""Requests made up from the API's schema: none ends in a server's error, all fit the schema."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from catalog.home import Home
from jobs.service.api import progress
from jobs.service.application import API, make_application
from jobs.service.settings import ServiceSettings, SqlLimits
from tests.jobs.service.test_lists import fill

CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
]


@pytest.mark.long
def test_whatever_fits_the_schema_is_answered_as_it_says(
    home: Home, subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ten events of a stream are waited for, six times: nothing changes meanwhile.
    monkeypatch.setattr(progress, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(progress, "ALIVE_SECONDS", 0.05)
    fill(home)
    limits = SqlLimits(sql_timeout=5, sql_memory=0.5)
    app = make_application(ServiceSettings(home, names=("testserver",), sql=limits))
    schema = schemathesis.openapi.from_asgi(f"{API}/openapi.json", app)
    count = 0
    for each in schema.get_all_operations():
        operation = each.ok()
        count += 1

        @settings(
            # A report takes half a minute: the one of all runs, and one of some.
            max_examples=2 if operation.path.endswith("/report.zip") else 6,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        @given(operation.as_strategy())
        def answered(case: schemathesis.Case) -> None:
            case.call_and_validate(checks=CHECKS, timeout=600)

        with subtests.test(operation=operation.label):
            answered()
    assert count == sum(map(len, app.openapi()["paths"].values()))
