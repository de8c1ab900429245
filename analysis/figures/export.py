"""Figures as files: SVG, PNG, PDF or HTML by the name's ending, written atomically.

vl-convert draws without a browser and without network; an HTML file holds the scripts it needs.
"""

from __future__ import annotations

import functools
import html
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from analysis.figure_style import FigureStyle
from analysis.figures.files.layout import INCH, Printed, printed
from analysis.figures.files.metadata import with_pdf_metadata, with_png_metadata, with_svg_metadata
from analysis.figures.files.vega import explained, specification, svg_of
from analysis.figures.files.words import Words
from catalog.files import whole_file
from survey.errors import SettingsError
from survey.text import harmless

#: Pixels of a PNG a pixel of the drawing: sharp on paper at 8 cm a hundred pixels.
PNG_SCALE = 2.5

#: Pixels an inch of a PNG whose width was given.
PRINT_PPI = 300.0

#: Points of an inch.
POINTS = 72.0

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


def save(
    chart: alt.TopLevelMixin,
    path: str | Path,
    data: pd.DataFrame | None = None,
    style: FigureStyle | None = None,
) -> float:
    """Write a figure as SVG, PNG, PDF or HTML, by the file's ending.

    Parameters
    ----------
    chart : altair chart
        Any figure of this package, or any other chart.
    path : str or pathlib.Path
        The file. HTML opens without network and has the toggles; the others show their defaults.
        Its finding, note and provenance are in the metadata of the others.
    data : pandas.DataFrame, optional
        The rows drawn, written beside the figure under the same name, ending in ``.csv``.
    style : FigureStyle, optional
        Its width, letters, texts, range and labels.

    Returns
    -------
    float
        The size of its labels, in points: smaller than asked for where the width has no room.

    Raises
    ------
    SettingsError
        If the ending is another one, the file cannot be written, or the style does not fit it.
    """
    path, style = Path(path), style or FigureStyle()
    require_drawable(path)
    style.check()
    drawn = printed(specification(chart), style)
    _replace(path, _CONTENTS[path.suffix.lower()](drawn))
    if data is not None:
        _replace(path.with_suffix(".csv"), csv_text(data).encode())
    return drawn.points


def require_drawable(path: Path) -> None:
    """Refuse a file that is not SVG, PNG, PDF or HTML by its ending, before long work begins."""
    if path.suffix.lower() not in ENDINGS:
        allowed = f"{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
        raise SettingsError(f"{path} is no figure's name, must end in {allowed}")
    if not path.parent.is_dir():
        raise SettingsError(f"{path} cannot be written: there is no directory {path.parent}")


def svg(chart: alt.TopLevelMixin) -> str:
    """Return a chart as SVG; its finding and note are the image's name for screen readers."""
    spec = specification(chart)
    return with_svg_metadata(svg_of(spec), Words.taken(spec))


def _svg(drawn: Printed) -> bytes:
    natural = drawn.inches is None and drawn.zoom == 1
    return with_svg_metadata(drawn.svg if natural else drawn.sized(), drawn.words).encode()


def _png(drawn: Printed) -> bytes:
    import vl_convert

    ppi = PRINT_PPI if drawn.inches else INCH * PNG_SCALE
    with explained():
        # Its inch has 72 pixels of a drawing.
        picture: bytes = vl_convert.svg_to_png(drawn.sized("", POINTS), ppi=ppi)
    return with_png_metadata(picture, drawn.words)


def _pdf(drawn: Printed) -> bytes:
    import vl_convert

    with explained():
        document: bytes = vl_convert.svg_to_pdf(drawn.sized("", POINTS))
    return with_pdf_metadata(document, drawn.words)


def _html(drawn: Printed) -> bytes:
    name = html.escape(drawn.words.label or "A figure of the model-zoo survey")
    # Names of models are anybody's: no text of theirs may end the script.
    data = json.dumps(drawn.spec).replace("<", "\\u003c")
    return _PAGE.format(name=name, scripts=_scripts(), spec=data).encode()


#: What a file holds, by its ending.
_CONTENTS: Mapping[str, Callable[[Printed], bytes]] = {
    ".svg": _svg, ".png": _png, ".pdf": _pdf, ".html": _html,
}  # fmt: skip

#: Endings of figures that can be written.
ENDINGS = tuple(_CONTENTS)


@functools.cache
def _scripts() -> str:
    """Return the bundled JavaScript of a page, which takes seconds to make."""
    import vl_convert

    return vl_convert.javascript_bundle(_EMBED)


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
    texts = [each if any(is_(each) for is_ in plain) else _harmless(each) for each in columns]
    # By place and not by name: a name may be a number, or that of two columns.
    safe = pd.concat(texts, axis="columns") if texts else frame
    safe = safe.set_axis([harmless(str(name)) for name in frame.columns], axis="columns")
    written: str = safe.to_csv(index=False, lineterminator="\n")
    return written


def _harmless(column: pd.Series[Any]) -> pd.Series[Any]:
    # Equal texts of thousands of rows are looked at once.
    is_text = column.dtype == "str"
    return column.map({each: harmless(each) for each in column.unique()} if is_text else harmless)


def _replace(path: Path, content: bytes) -> None:
    try:
        with whole_file(Path(os.path.realpath(path))) as partial:
            partial.write_bytes(content)
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from None
