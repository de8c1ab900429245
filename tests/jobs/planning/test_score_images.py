"""Images in one score: what ``auto`` becomes in a plan, and what the plan announces."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.models import consent
from jobs.planning import score_images
from jobs.planning.definition import parse_definition
from jobs.planning.holdings import Holdings
from jobs.planning.plan import Plan, make_plan
from jobs.schedules.cron import definition_of, new_entry


def planned(images: int | str, *models: str, dataset: str = "random[:2000]") -> Plan:
    values = {
        "models": [{"name": name, "checkpoints": ["init:0"]} for name in models],
        "datasets": [{"name": dataset}],
        "settings": {"images_per_score": images},
    }
    return make_plan(parse_definition(values, "test", Path()), {}, Holdings())


def notices(plan: Plan) -> list[str]:
    return score_images.notices(plan.jobs, plan.todo, plan.automatic)


def test_each_network_gets_what_its_widest_site_needs_and_the_number_is_its_key() -> None:
    wide, narrow = "torchvision:squeezenet1_0", "small:digits_vgg7"
    automatic = planned("auto", wide, narrow)
    assert [job.settings.images_per_score for job in automatic.jobs] == [1001, 512]
    assert automatic.jobs[0].run_id == planned(1001, wide).jobs[0].run_id
    assert automatic.jobs[1].run_id == planned(512, narrow).jobs[0].run_id
    (line,) = notices(automatic)
    assert {"512", "1001", wide, narrow} <= set(line.replace(",", " ").split())


def test_a_dataset_that_is_too_small_is_taken_whole_and_named() -> None:
    plan = planned("auto", "torchvision:squeezenet1_0", dataset="random[:700]")
    assert plan.jobs[0].settings.images_per_score == 700
    text = "\n".join(notices(plan))
    assert "1 of 26 sites" in text
    assert "few_images" in text
    assert "1001" in text
    assert "random[:700] has 700 images" in text


@pytest.mark.parametrize(("images", "flagged"), [(64, 20), (256, 5), (1000, 1), (1001, 0)])
def test_a_plan_counts_the_sites_that_would_bear_the_flag(images: int, flagged: int) -> None:
    text = "\n".join(notices(planned(images, "torchvision:squeezenet1_0")))
    assert (f"{flagged} of 26 sites" in text) is bool(flagged)
    assert ("1001 images a score would do" in text) is bool(flagged)


def test_a_schedule_keeps_that_the_number_is_chosen() -> None:
    values = {
        "models": [{"name": "small:digits_vgg7"}],
        "settings": {"images_per_score": "auto"},
    }
    declared = parse_definition(values, "test", Path())
    entry = new_entry("nightly", declared, Path("zoo.toml"), cron="0 3 * * *", timezone="UTC")
    assert definition_of(entry).settings == declared.settings


def test_a_notice_runs_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(64, "torchvision:squeezenet1_0", "small:digits_vgg7")
    monkeypatch.setattr("jobs.planning.score_images.listed_widths", lambda *_: {})
    monkeypatch.delattr("catalog.site_widths.followed")
    assert notices(plan) == ["few_images: the widths of 2 networks are not known yet"]


def test_what_was_counted_to_choose_a_number_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    widths = {1000: 2, 64: 1}
    monkeypatch.setattr(score_images, "_COUNTED", {})
    monkeypatch.setattr(score_images, "listed_widths", lambda *_: {})
    monkeypatch.setattr(
        score_images, "isolated_widths", lambda names, _: dict.fromkeys(names, widths)
    )
    text = "\n".join(notices(planned("auto", "small:digits_vgg7", dataset="random[:700]")))
    assert "2 of 3 sites" in text
    assert "not known" not in text


def test_a_network_of_the_users_that_declares_no_input_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "undeclared.py").write_text(
        "from torch import nn\n"
        "def net():\n    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())\n"
        "def other():\n    return net()\n"
        "other.survey = {'size': 32}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(consent, "_admitted", set())
    consent.trust("python:undeclared:net")
    plan = planned(64, "python:undeclared:net", "python:undeclared:other")
    (line,) = (each for each in notices(plan) if "224 x 224" in each)
    assert line.startswith("python:undeclared:net: ")
