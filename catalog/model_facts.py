"""All that is known of one model, fact by fact, with the source of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from catalog.models.base import Architecture, InputTransform, Published, RemoteFile
from catalog.models.user_code import UserCode
from survey.errors import SettingsError

if TYPE_CHECKING:
    from catalog.models.selection import Match


def show_model(name: str) -> pa.Table:
    """Return all that is known of an architecture or of published weights, fact by fact.

    Returns
    -------
    pyarrow.Table
        ``fact``, ``value``, and ``source``: where each comes from.

    Raises
    ------
    UnknownName, SettingsError
        As ``one_model`` does.
    """
    from catalog.models.consent import lacking_consent
    from catalog.models.published import published

    if code := lacking_consent(name):
        return _table(_code_facts(name, code))
    chosen = one_model(name)
    facts = _architecture_facts(chosen[0].architecture)
    named = [each.weights for each in chosen if each.weights is not None]
    for weights in named:
        facts += _weights_facts(published(weights))
    if not named:
        facts += _weights_names(chosen[0].architecture)
    return _table(facts)


def one_model(name: str) -> list[Match]:
    """Return what a name stands for, with one architecture alone.

    Raises
    ------
    UnknownName
        If nothing has that name.
    SettingsError
        If it stands for several.
    """
    from catalog.models.selection import is_glob, select

    chosen = select(name)
    if is_glob(name) and len(chosen) > 1:
        raise SettingsError(
            f"show tells of one model, and {name!r} stands for {len(chosen)}",
            hint=f"survey models '{name}' lists them",
        )
    return chosen


_Fact = tuple[str, Any, str | None]


def _table(facts: list[_Fact]) -> pa.Table:
    rows = [
        {"fact": fact, "value": _shown(value), "source": source}
        for fact, value, source in facts
        if value is not None
    ]
    return pa.Table.from_pylist(rows)


def _code_facts(name: str, code: UserCode) -> list[_Fact]:
    """Return what is known of a network without running the code that nobody consented to."""
    unknown = "unknown: nobody consented to run its code yet (survey run --trust)"
    return [
        ("architecture", name, name),
        ("code", f"{len(code.files):,} files below {code.root}", None),
        ("sha256 of the code", code.sha256, None),
        ("family, input, classes, parameters", unknown, None),
    ]


def _architecture_facts(architecture: Architecture) -> list[_Fact]:
    from catalog.models.cost_table import cost_of, counted
    from catalog.models.family_facts import family_of

    source, name = architecture.source, architecture.name
    family = family_of(source, architecture.module or name, name)
    package = architecture.full_name if source == "python" else _package(source)
    # Only what the table knows is from there: others say their own family, or have none.
    family_source = "families.csv of this package" if family.reference else package
    transform = architecture.transform
    facts: list[_Fact] = [
        ("architecture", architecture.full_name, package),
        ("family", architecture.family, family_source),
        ("family group", family.group, "the affinity score's paper, extended"),
        ("year", family.year, family.reference),
        ("classes", architecture.classes, package),
        ("input", f"{transform.size} pixels", package),
    ]
    # What timm has and the table lacks takes no square images, and may be too large to build.
    cost = counted(source, name) if source == "timm" else cost_of(architecture)
    if cost is not None:
        by_us = f"counted by us on {cost.library}, at {cost.size} pixels"
        facts += [
            ("parameters", cost.parameters, by_us),
            ("GFLOPs (multiply-adds)", f"{cost.gflops:,.4g}", by_us),
            ("depth (layers with weights)", cost.depth, by_us),
        ]
    facts += [
        ("parameters, published", architecture.published_parameters, package),
        ("GFLOPs, published", architecture.published_gflops, package),
    ]
    return facts


def _weights_names(architecture: Architecture) -> list[_Fact]:
    from catalog.models.published import published_for

    bundled: list[_Fact] = [("weights", "bundled", "this package")] if architecture.bundled else []
    return bundled + [
        (
            "weights",
            weights.full_name + (" (default)" if weights.default else ""),
            _package(weights.source),
        )
        for weights in published_for(architecture)
    ]


def _weights_facts(weights: Published) -> list[_Fact]:
    from catalog.models.published import other_names

    evidence = weights.evidence or _package(weights.source)
    facts: list[_Fact] = [
        ("checkpoint", weights.full_name, evidence),
        ("other names", ", ".join(other_names(weights)) or None, "this package"),
        ("images are prepared", _prepared(weights.transform), evidence),
        ("classes of these weights", weights.classes, evidence),
        ("recipe", weights.recipe or weights.recipe_url, weights.recipe_url),
    ]
    for report in weights.reported:
        how = f"({report.protocol}, {report.dataset}"
        how += f", {report.image_size} pixels)" if report.image_size else ")"
        facts += [
            (f"top-1 reported {how}", report.top1, report.source),
            (f"top-5 reported {how}", report.top5, report.source),
        ]
    facts += _file_facts(weights.file, evidence) if weights.file else []
    rules = weights.rules
    return [
        *facts,
        ("keys lie under", ".".join(rules.container) or None, evidence),
        ("keys begin with", rules.prefix or None, evidence),
        ("keys left out", ", ".join(rules.drop) or None, evidence),
        ("classifier", None if rules.classifier else "not in the file", evidence),
        ("cannot be loaded", weights.refusal, "this package"),
        ("notes", weights.notes or None, evidence),
    ]


def _prepared(transform: InputTransform) -> str:
    first = (
        f"both sides to {transform.resize}"
        if transform.crop == "squash"
        else f"shorter side to {transform.resize}"
    )
    return (
        f"{first} ({transform.interpolation}), centre crop of {transform.size},"
        f" mean {transform.mean}, deviation {transform.std}"
    )


def _file_facts(file: RemoteFile, evidence: str) -> list[_Fact]:
    begins = f"begins {file.sha256_prefix}" if file.sha256_prefix else None
    return [
        ("file", file.url, evidence),
        ("bytes", file.bytes, evidence),
        ("bytes, about", None if file.bytes else file.about_bytes, evidence),
        ("sha256", file.sha256 or begins, evidence),
        ("md5", file.md5, evidence),
        ("licence", file.licence, evidence),
    ]


def _package(source: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"{source} {version(source)}"
    except PackageNotFoundError:
        from catalog.models import sources

        named = [type(each).__module__ for each in sources() if each.name == source]
        brought = [module for module in named if not module.startswith("catalog.models.")]
        return brought[0] if brought else "this package"


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and value > 9999 else str(value)
