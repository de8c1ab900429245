"""The demo and the doctor, as a newcomer meets them."""

import json
from dataclasses import replace

import pytest
from sklearn.metrics import adjusted_rand_score

from jobs.cli import run
from jobs.operations.doctor import CHECKS
from tests.acceptance.command import rows, survey, survey_process

pytestmark = pytest.mark.slow(seconds=60)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    home = tmp_path_factory.mktemp("demo") / "survey home"
    return home, survey_process("demo", home=home)


@pytest.mark.ray
def test_the_demo_measures_the_bundled_zoo_and_says_what_next(demo):
    home, ended = demo
    assert ended.stdout.count(" done ") == 8
    for text in ("signatures.duckdb", "registry.sqlite", "demo.svg", "SQL to try next"):
        assert text in ended.stderr
    assert f"--home '{home}'" in ended.stderr
    assert (home / "demo.svg").read_text().startswith("<svg")


@pytest.mark.ray
def test_its_residual_networks_are_more_linear_after_shortcuts(demo):
    home, _ = demo
    records = rows(
        """SELECT architecture, avg(affinity) FILTER (site_name LIKE '%relu2%') AS closing,
                  avg(affinity) FILTER (site_name NOT LIKE '%relu2%') AS others
           FROM signatures WHERE family <> 'Digits VGG' GROUP BY 1""",
        home,
    )
    scores = {row.pop("architecture"): row for row in records}
    for depth in (14, 20, 26):
        residual, plain = scores[f"digits_resnet{depth}"], scores[f"digits_plain{depth}"]
        assert residual["closing"] > residual["others"] + 0.05
        assert residual["closing"] > plain["closing"] + 0.05


@pytest.mark.ray
def test_its_residual_networks_and_its_plain_ones_are_two_clusters(demo):
    """Of eight networks one on the wrong side makes 0.5: these depend on the bundled weights."""
    home, _ = demo
    asked = ("cluster", "--normalisation", "relative", "--linkage", "average", "--format", "json")
    for number in ((), ("--clusters", "2")):
        result = json.loads(survey(*asked, *number, home=home).stdout)
        groups = [row["family_group"] == "residual" for row in result]
        assert adjusted_rand_score(groups, [row["cluster"] for row in result]) >= 0.8


@pytest.mark.ray
def test_the_doctor_finds_all_well(demo, tokenless):
    home, _ = demo
    ended = survey("doctor", "--format", "json", home=home)
    states = {finding["check"]: finding["state"] for finding in json.loads(ended.stdout)}
    assert set(states.values()) == {"ok"}
    assert {"signatures", "registry", "spool", "caches", "disk", "torch", "models", "ray"} <= set(
        states
    )


def test_a_demo_with_a_parked_job_is_not_complete_and_says_what_next(tmp_path, monkeypatch):
    carry_out = run.carry_out

    def parked(*arguments):
        outcome = carry_out(*arguments)
        held = {job.run_id: "parked" for job in outcome.plan.jobs}
        return replace(outcome, plan=replace(outcome.plan, held=held))

    monkeypatch.setattr(run, "carry_out", parked)
    monkeypatch.setattr("jobs.cli.demo.DEMO_MODELS", "small:digits_vgg7")
    # The program is named as a shell takes it.
    monkeypatch.setattr("sys.argv", ["its folder/survey"])
    monkeypatch.setattr("shutil.which", lambda _: None)
    ended = survey("demo", "--runner", "local", home=tmp_path / "home", code=1)
    assert "  'its folder/survey' sql" in ended.stderr


def test_the_doctor_says_what_is_broken(tmp_path, monkeypatch):
    # It goes on with the other checks; but for that which starts a Ray, they are quick.
    monkeypatch.setattr("jobs.operations.doctor.CHECKS", CHECKS | {"ray": lambda _: iter(())})
    home = tmp_path / "home"
    home.mkdir()
    (home / "signatures.duckdb").write_text("not a database")
    ended = survey("doctor", home=home, code=3)
    assert "broken" in ended.stdout
    assert "bundled networks can be loaded" in ended.stdout
    assert "--repair" in ended.stdout
