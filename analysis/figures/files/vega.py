"""Charts as Vega-Lite specifications, and these as SVG: no browser and no network is needed."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import altair as alt

from survey.errors import FigureError
from survey.text import printable

#: A Vega-Lite specification, or a drawing in it.
View = dict[str, Any]


def svg_of(spec: dict[str, Any]) -> str:
    """Return the SVG of a specification.

    Raises
    ------
    FigureError
        If vl-convert cannot draw it.
    """
    return svg_of_compiled(compiled_of(spec))


def compiled_of(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a specification in Vega, of which drawings with other choices are made.

    Raises
    ------
    FigureError
        If vl-convert cannot compile it.
    """
    # Neither its rows, named by a hash of them, nor its description change what is compiled.
    rows = spec.get("datasets", {})
    names = {name: f"rows-{place}" for place, name in enumerate(rows)}
    text = json.dumps({**spec, "datasets": dict.fromkeys(rows, ()), "description": ""})
    for name, place in names.items():
        text = text.replace(name, place)
    compiled: dict[str, Any] = json.loads(_compiled(text))
    compiled["description"] = spec.get("description", "")
    given = {names[name]: values for name, values in rows.items()}
    for each in compiled.get("data", ()):
        if each["name"] in given:
            each["values"] = given[each["name"]]
    return compiled


@functools.lru_cache(256)
def _compiled(text: str) -> str:
    """Return a specification without rows in Vega: figures of one kind differ by their rows."""
    import vl_convert

    with explained():
        return json.dumps(vl_convert.vegalite_to_vega(text))


def svg_of_compiled(compiled: dict[str, Any]) -> str:
    """Return the SVG of what ``compiled_of`` gives; see ``svg_of``."""
    import vl_convert

    with explained():
        drawn: str = vl_convert.vega_to_svg(compiled)
    return drawn


@contextmanager
def explained() -> Iterator[None]:
    """Explain an error of vl-convert."""
    try:
        yield
    except ValueError as problem:
        raise FigureError(
            f"the figure cannot be drawn: {problem}", hint="write it as .html, or its table"
        ) from problem


def specification(chart: alt.TopLevelMixin, *, validate: bool = True) -> dict[str, Any]:
    """Return a chart's Vega-Lite specification with all rows of its data.

    Parameters
    ----------
    chart : altair chart
        Any chart.
    validate : bool
        Whether to check it by Vega-Lite's schema first, which takes as long as the rest.

    Returns
    -------
    dict
        What vl-convert draws.
    """
    with alt.data_transformers.disable_max_rows():
        spec: dict[str, Any] = chart.to_dict(validate=validate)
    # What is no number in JSON is missing: Altair writes NaN as null already, not within lists.
    return dict(_printable(json.loads(json.dumps(spec))))


def _printable(value: Any) -> Any:
    """Return a specification with all text printable: a control character ends vl-convert."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(name): _printable(each) for name, each in value.items()}
    return [_printable(each) for each in value] if isinstance(value, list) else value


def layers_of(view: View) -> list[View]:
    """Return the layers of a drawing that have a mark, those within others first."""
    inner = [each for part in view.get("layer", ()) for each in layers_of(part)]
    return [*inner, *([view] if "mark" in view else [])]


def mark_of(layer: View) -> str:
    """Return the kind of a layer's mark; empty for a group of layers."""
    mark = layer.get("mark", "")
    return str(mark.get("type", "") if isinstance(mark, dict) else mark)
