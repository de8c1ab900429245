"""A process that computes answers keeps the frames of one selection, and frees those before."""

from __future__ import annotations

import weakref
from pathlib import Path

from analysis.answers.material import Material
from analysis.answers.relations import MetricCorrelations
from analysis.data.selection import Selection
from jobs.service.kept_material import kept_material
from tests.analysis.homes import Builder


def test_the_frames_asked_for_last_are_kept_and_those_before_are_freed(tmp_path: Path) -> None:
    Builder(tmp_path)
    asked = Material, tmp_path, "1", Selection()
    material = kept_material(*asked)
    assert kept_material(*asked) is material
    MetricCorrelations.of(material)
    held = weakref.ref(material)
    del material
    newer = kept_material(Material, tmp_path, "2", Selection())
    assert held() is None
    assert kept_material(Material, tmp_path, "2", Selection()) is newer
