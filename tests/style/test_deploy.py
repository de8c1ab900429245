"""deploy/kuberay: kinds and versions that there are, closed pods, commands that exist."""

from __future__ import annotations

import re
import shlex
import tomllib
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from jobs.cli.main import app
from tests.style.repository import ROOT

FOLDER = ROOT / "deploy" / "kuberay"

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def documents(name: str) -> dict[str, dict[str, Any]]:
    """Return a file's manifests by kind."""
    result = list(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")))
    return {document["kind"]: document for document in result}


CLUSTER = documents("raycluster.yaml")
TICK = documents("cronjob.yaml")["CronJob"]


def pods() -> dict[str, dict[str, Any]]:
    """Return what every pod is made from."""
    spec = CLUSTER["RayCluster"]["spec"]
    return {
        "head": spec["headGroupSpec"]["template"],
        **{group["groupName"]: group["template"] for group in spec["workerGroupSpecs"]},
        "tick": TICK["spec"]["jobTemplate"]["spec"]["template"],
    }


PODS = pytest.mark.parametrize("pod", pods().values(), ids=pods())


def test_every_manifest_is_of_a_kind_and_version_that_there_is():
    versions = {kind: manifest["apiVersion"] for kind, manifest in CLUSTER.items()}
    assert versions == {
        "PersistentVolumeClaim": "v1",
        "RayCluster": "ray.io/v1",
        "NetworkPolicy": "networking.k8s.io/v1",
    }
    assert TICK["apiVersion"] == "batch/v1"
    for manifest in (*CLUSTER.values(), TICK):
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", manifest["metadata"]["name"])
        assert manifest["spec"]


def test_ray_is_the_one_of_the_lock():
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    locked = re.search(r"^ray==(\S+)", lock, re.MULTILINE)
    assert locked
    assert CLUSTER["RayCluster"]["spec"]["rayVersion"] == locked[1]


@PODS
def test_a_pod_runs_this_version_with_limits_and_as_nobody_in_particular(pod):
    spec = pod["spec"]
    (container,) = spec["containers"]
    assert container["image"] == f"model-zoo-survey:{VERSION}"
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] != 0
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert spec["automountServiceAccountToken"] is False
    limits, requests = container["resources"]["limits"], container["resources"]["requests"]
    assert {"cpu", "memory"} <= limits.keys()
    assert limits == requests


@PODS
def test_a_pod_takes_the_token_from_the_secret(pod):
    (container,) = pod["spec"]["containers"]
    environment = {entry["name"]: entry for entry in container["env"]}
    assert environment["RAY_AUTH_MODE"]["value"] == "token"
    token = environment["RAY_AUTH_TOKEN"]
    assert "value" not in token
    assert token["valueFrom"]["secretKeyRef"] == {"name": "survey-token", "key": "auth_token"}


@PODS
def test_a_pod_has_the_home_where_the_others_have_it(pod):
    (container,) = pod["spec"]["containers"]
    claims = {v["name"]: v.get("persistentVolumeClaim") for v in pod["spec"]["volumes"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts.keys() == claims.keys()
    assert mounts["home"] == "/survey-home"
    assert claims["home"] == {"claimName": CLUSTER["PersistentVolumeClaim"]["metadata"]["name"]}
    assert CLUSTER["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteMany"]


def test_the_head_is_closed_and_workers_have_gpus():
    spec = CLUSTER["RayCluster"]["spec"]
    start = spec["headGroupSpec"]["rayStartParams"]
    assert start["dashboard-host"] == "127.0.0.1"
    assert start["num-cpus"] == "0"
    # Every value is text: the operator takes no other.
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    assert all(isinstance(v, str) for group in groups for v in group["rayStartParams"].values())
    for group in spec["workerGroupSpecs"]:
        assert 1 <= group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
        (container,) = group["template"]["spec"]["containers"]
        assert int(container["resources"]["limits"]["nvidia.com/gpu"]) >= 1


def test_ticks_do_not_overlap_and_are_not_tried_again():
    assert TICK["spec"]["concurrencyPolicy"] == "Forbid"
    job = TICK["spec"]["jobTemplate"]["spec"]
    assert job["backoffLimit"] == 0
    assert job["template"]["spec"]["restartPolicy"] == "Never"
    assert len(TICK["spec"]["schedule"].split()) == 5


def test_what_a_tick_runs_is_in_the_command_line():
    (container,) = pods()["tick"]["spec"]["containers"]
    (script,) = container["args"]
    ray, survey = (shlex.split(part) for part in script.split("&&"))
    assert ray[:2] == ["ray", "start"]
    # The head's service has the cluster's name.
    name = CLUSTER["RayCluster"]["metadata"]["name"]
    assert f"--address={name}-head-svc:6379" in ray
    assert {"--num-cpus=0", "--num-gpus=0"} <= set(ray)
    assert survey[:2] == ["exec", "survey"]
    home = survey[survey.index("--home") + 1]
    assert home == "/survey-home"
    # The words are taken; that the home is not here is found out after that.
    ended = CliRunner().invoke(app, ["--home", "/nonexistent/home", *survey[4:]])
    assert "there is no home at" in ended.stderr
    minutes = int(TICK["spec"]["schedule"].split()[0].removeprefix("*/"))
    assert float(survey[survey.index("--grace") + 1]) >= 60 * minutes


def test_the_image_holds_the_lock_and_no_root():
    text = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    assert "--require-hashes --requirement requirements.lock" in text
    assert "\nUSER 1000\n" in text
    assert f"model-zoo-survey:{VERSION}" in text
