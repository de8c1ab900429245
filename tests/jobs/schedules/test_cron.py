"""When schedules are due, through changes of the clocks and under each policy for missed ones."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice, pairwise, takewhile
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.schedules.cron import (
    FIELDS,
    MOST_RUN,
    MOST_SKIPPED,
    NICKNAMES,
    by_policy,
    definition_of,
    due_times,
    new_entry,
)
from survey import SettingsError, SurveyError, UnknownName
from tests.jobs.jobs import declared


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def due(cron: str, timezone: str, after: str, count: int) -> list[str]:
    coming = islice(due_times(cron, timezone, moment(after)), count)
    return [one.astimezone(ZoneInfo(timezone)).isoformat() for one in coming]


@pytest.mark.parametrize(
    ("cron", "timezone", "after", "expected"),
    [
        # The clock goes from 2:00 to 3:00: what it skips is due right after.
        (
            "30 2 * * *",
            "Europe/Paris",
            "2026-03-28T12:00:00+01:00",
            ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"],
        ),
        (
            "30 2 * * *",
            "America/New_York",
            "2026-03-07T12:00:00-05:00",
            ["2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"],
        ),
        # From 3:00 back to 2:00, in New York from 2:00 to 1:00: what comes twice is due once.
        (
            "30 2 * * *",
            "Europe/Paris",
            "2026-10-24T12:00:00+02:00",
            ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"],
        ),
        (
            "30 1 * * *",
            "America/New_York",
            "2026-10-31T12:00:00-04:00",
            ["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"],
        ),
        (
            "0 3 * * 1",
            "Europe/Paris",
            "2026-10-20T00:00:00+00:00",
            ["2026-10-26T03:00:00+01:00", "2026-11-02T03:00:00+01:00"],
        ),
    ],
)
def test_fixed_times_are_due_once_through_a_change_of_the_clocks(cron, timezone, after, expected):
    assert due(cron, timezone, after, len(expected)) == expected


@pytest.mark.parametrize(
    ("timezone", "day", "hours"),
    [
        ("Europe/Paris", "2026-03-29T00:00:00+01:00", 23),
        ("Europe/Paris", "2026-10-25T00:00:00+02:00", 25),
        ("America/New_York", "2026-03-08T00:00:00-05:00", 23),
        ("America/New_York", "2026-11-01T00:00:00-04:00", 25),
    ],
)
def test_every_hour_is_every_hour_through_a_change_of_the_clocks(timezone, day, hours):
    first = moment(day) - timedelta(seconds=1)
    coming = due_times("0 * * * *", timezone, first)
    zone, date = ZoneInfo(timezone), moment(day).date()
    whole = list(takewhile(lambda one: one.astimezone(zone).date() == date, coming))
    assert len(whole) == hours
    assert {b - a for a, b in pairwise(whole)} == {timedelta(hours=1)}


@pytest.mark.slow(seconds=5)
@pytest.mark.parametrize("timezone", ["Europe/Paris", "America/New_York", "UTC"])
@pytest.mark.parametrize(
    "cron", ["30 2 * * *", "0,30 1-3 * * *", "*/20 * * * *", "15 1,2 * * *", "10 */2 * * *"]
)
@pytest.mark.parametrize("day", ["2026-03-08", "2026-03-29", "2026-10-25", "2026-11-01"])
def test_due_times_do_not_depend_on_when_somebody_looks(cron, timezone, day):
    midnight = moment(f"{day}T00:00:00+00:00") - timedelta(hours=6)
    until = midnight + timedelta(hours=30)
    whole = list(takewhile(lambda one: one <= until, due_times(cron, timezone, midnight)))
    assert whole == sorted(set(whole))
    for minutes in range(0, 30 * 60, 7):
        after = midnight + timedelta(minutes=minutes)
        later = [one for one in whole if one > after]
        seen = takewhile(lambda one: one <= until, due_times(cron, timezone, after))
        assert list(seen) == later


NOW = moment("2026-11-02T12:00:30+00:00")
PASSED = [moment(f"2026-11-02T{hour:02}:00:00+00:00") for hour in (9, 10, 11, 12)]


@pytest.mark.parametrize(
    ("missed", "grace", "run"),
    [
        ("latest", 60.0, PASSED[-1:]),
        ("latest", 0.0, PASSED[-1:]),
        ("all", 60.0, PASSED),
        ("skip", 60.0, PASSED[-1:]),
        ("skip", 10.0, []),
        ("skip", 4000.0, PASSED[-2:]),
    ],
)
def test_each_policy_keeps_every_due_time_and_runs_its_own(missed, grace, run):
    kept = by_policy(PASSED, missed, NOW, grace)
    assert [one.at for one in kept] == PASSED
    assert [one.at for one in kept if one.skipped is None] == run


def test_a_year_of_missed_due_times_is_kept_in_short():
    passed = [NOW - timedelta(minutes=number) for number in range(1000, 0, -1)]
    kept = by_policy(passed, "latest", NOW, 60.0)
    assert [one.at for one in kept] == passed[-MOST_SKIPPED - 1 :]
    assert "899 earlier ones" in str(kept[0].skipped)
    passed = [NOW - timedelta(minutes=number) for number in range(MOST_RUN + 500, 0, -1)]
    kept = by_policy(passed, "all", NOW, 60.0)
    assert [one.at for one in kept if one.skipped is None] == passed[-MOST_RUN:]
    assert len(kept) == MOST_RUN + MOST_SKIPPED


def entry(**changes: str):
    given = {"name": "weekly", "cron": "0 3 * * 1", "timezone": "Europe/Paris", **changes}
    return new_entry(given.pop("name"), declared(), Path("zoo.toml"), **given)


@pytest.mark.parametrize("name", ["", " a", "a/b", "..", ". .", "a\nb", "a" * 201])
def test_a_name_that_no_address_holds_is_refused(name: str):
    with pytest.raises(SettingsError, match="name"):
        entry(name=name)


def test_a_schedule_holds_its_survey_wherever_its_file_goes():
    stored = entry()
    again = definition_of(stored)
    assert again.to_dict() == declared().to_dict()
    assert (again.name, again.base) == ("test", Path.cwd())
    assert Path(stored.origin).is_absolute()


def test_a_schedule_keeps_its_ridge_also_where_its_record_names_none():
    stored = entry()
    recorded = stored.definition["settings"]
    assert definition_of(stored).settings.ridge == recorded["ridge"] == "relative"
    older = {name: value for name, value in recorded.items() if name != "ridge"}
    for settings in (older, {**older, "ridge": "absolute"}):
        old = replace(stored, definition={**stored.definition, "settings": settings})
        assert definition_of(old).settings == replace(declared().settings, ridge="absolute")


@pytest.mark.parametrize(
    ("nickname", "expected"),
    [
        ("@hourly", ["2026-12-31T20:00:00+00:00", "2026-12-31T21:00:00+00:00"]),
        ("@daily", ["2027-01-01T00:00:00+00:00", "2027-01-02T00:00:00+00:00"]),
        # Sundays.
        ("@weekly", ["2027-01-03T00:00:00+00:00", "2027-01-10T00:00:00+00:00"]),
        ("@Monthly ", ["2027-01-01T00:00:00+00:00", "2027-02-01T00:00:00+00:00"]),
        ("@yearly", ["2027-01-01T00:00:00+00:00", "2028-01-01T00:00:00+00:00"]),
    ],
)
def test_nicknames_are_fields(nickname, expected):
    assert due(entry(cron=nickname).cron, "UTC", "2026-12-31T19:30:00+00:00", 2) == expected
    assert NICKNAMES["@midnight"] == NICKNAMES["@daily"]
    assert NICKNAMES["@annually"] == NICKNAMES["@yearly"]


@pytest.mark.parametrize(
    ("cron", "named"),
    [
        ("60 * * * *", "'60' as its minute"),
        ("0 24 * * *", "'24' as its hour"),
        ("0 0 0 * *", "'0' as its day-of-month"),
        ("0 0 1 13 *", "'13' as its month"),
        ("0 0 * * 8", "'8' as its day-of-week"),
        ("0 0 * * FOO", "'FOO' as its day-of-week"),
        ("5-1 * * * *", "'5-1' as its minute"),
        ("*/0 * * * *", r"'\*/0' as its minute"),
        ("0 0 31 2 *", "never due"),
        ("0 3 * *", "4 fields"),
        ("0 0 3 * * 1", "6 fields"),
        ("@weakly", "1 field,"),
        ("", "0 fields"),
    ],
)
def test_a_wrong_expression_names_its_field(cron, named):
    with pytest.raises(SettingsError, match=named) as caught:
        entry(cron=cron)
    assert "0 3 * * 1" in str(caught.value.hint)


def test_a_wrong_zone_is_refused():
    with pytest.raises(UnknownName, match="time zone 'Europe/Pariss'") as caught:
        entry(timezone="Europe/Pariss")
    assert "Europe/Paris" in str(caught.value.hint)


@given(st.lists(st.text("0123456789*/-,#LWSUNMO", max_size=6), min_size=5, max_size=5))
def test_any_expression_is_due_or_refused_by_our_error(fields):
    cron = " ".join(fields)
    try:
        made = entry(cron=cron)
    except SurveyError:
        return
    assert len(made.cron.split()) == len(FIELDS)
    assert next(due_times(made.cron, made.timezone, NOW)) > NOW
