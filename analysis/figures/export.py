"""Figures as files: SVG, PNG or HTML by the name's ending, written atomically.

vl-convert draws without a browser and without network; an HTML file holds the scripts it needs.
"""

from __future__ import annotations

import functools
import html
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from survey.errors import FigureError, SettingsError
from survey.text import harmless, printable

#: Endings of figures that can be written.
ENDINGS = (".svg", ".png", ".html")

#: Pixels of a PNG a pixel of the drawing: sharp on paper at 8 cm a hundred pixels.
PNG_SCALE = 2.5

#: What the page's script takes from the bundle.
_EMBED = "window.vegaEmbed = vegaEmbed;"

#: vl-convert's own page puts the data into a script unescaped, where a name could end it.
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; \
script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>{name}</title>
<style>body {{ margin: 1.5rem; font-family: Arial, sans-serif }}</style>
<script>{scripts}</script>
</head>
<body>
<main id="figure" role="figure" aria-label="{name}"></main>
<script>
vegaEmbed("#figure", {spec}, {{"renderer": "svg", "actions": false}});
</script>
</body>
</html>
"""


def save(chart: alt.TopLevelMixin, path: str | Path, data: pd.DataFrame | None = None) -> None:
    """Write a figure as SVG, PNG or HTML, by the file's ending.

    Parameters
    ----------
    chart : altair chart
        Any figure of this package, or any other chart.
    path : str or pathlib.Path
        The file. HTML opens without network and has the toggles; the others show their defaults.
    data : pandas.DataFrame, optional
        The rows drawn, written beside the figure under the same name, ending in ``.csv``.

    Raises
    ------
    SettingsError
        If the ending is another one, or the file cannot be written.
    """
    path = Path(path)
    require_drawable(path)
    ending = path.suffix.lower()
    drawn = png(chart) if ending == ".png" else (svg if ending == ".svg" else page)(chart).encode()
    _replace(path, drawn)
    if data is not None:
        _replace(path.with_suffix(".csv"), csv_text(data).encode())


def require_drawable(path: Path) -> None:
    """Refuse a file that is not SVG, PNG or HTML by its ending, before long work begins."""
    if path.suffix.lower() not in ENDINGS:
        allowed = f"{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
        raise SettingsError(f"{path} is no figure's name, must end in {allowed}")
    if not path.parent.is_dir():
        raise SettingsError(f"{path} cannot be written: there is no directory {path.parent}")


def svg(chart: alt.TopLevelMixin) -> str:
    """Return a chart as SVG; its description is the image's name for screen readers."""
    spec = specification(chart)
    drawn = svg_of(spec)
    name = html.escape(str(spec.get("description", "")))
    if not name:
        return drawn
    begin, rest = drawn.split(">", 1)
    return f'{begin} role="img" aria-label="{name}"><title>{name}</title>{rest}'


def png(chart: alt.TopLevelMixin) -> bytes:
    """Return a chart as PNG."""
    import vl_convert

    with _explained():
        drawn: bytes = vl_convert.vegalite_to_png(specification(chart), scale=PNG_SCALE)
    return drawn


def svg_of(spec: dict[str, Any]) -> str:
    """Return the SVG of a specification.

    Raises
    ------
    FigureError
        If vl-convert cannot draw it.
    """
    import vl_convert

    with _explained():
        drawn: str = vl_convert.vegalite_to_svg(spec)
    return drawn


@contextmanager
def _explained() -> Iterator[None]:
    """Explain an error of vl-convert."""
    try:
        yield
    except ValueError as problem:
        raise FigureError(
            f"the figure cannot be drawn: {problem}", hint="write it as .html, or its table"
        ) from problem


def page(chart: alt.TopLevelMixin) -> str:
    """Return a chart as a self-contained HTML page."""
    spec = specification(chart)
    name = html.escape(str(spec.get("description", "A figure of the model-zoo survey")))
    # Names of models are anybody's: no text of theirs may end the script.
    data = json.dumps(spec).replace("<", "\\u003c")
    return _PAGE.format(name=name, scripts=_scripts(), spec=data)


@functools.cache
def _scripts() -> str:
    """Return the bundled JavaScript of a page, which takes seconds to make."""
    import vl_convert

    return vl_convert.javascript_bundle(_EMBED)


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


def csv_text(frame: pd.DataFrame) -> str:
    """Return a frame as CSV without its index, its text and headings harmless.

    Parameters
    ----------
    frame : pandas.DataFrame
        Any frame, whatever its columns are called; two may have one name.
    """
    from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_numeric_dtype

    plain = (is_numeric_dtype, is_bool_dtype, is_datetime64_any_dtype)
    columns = [frame.iloc[:, place] for place in range(frame.shape[1])]
    texts = [each if any(is_(each) for is_ in plain) else each.map(harmless) for each in columns]
    # By place and not by name: a name may be a number, or that of two columns.
    safe = pd.concat(texts, axis="columns") if texts else frame
    safe = safe.set_axis([harmless(str(name)) for name in frame.columns], axis="columns")
    written: str = safe.to_csv(index=False, lineterminator="\n")
    return written


def _replace(path: Path, content: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from None
