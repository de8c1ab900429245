"""The text of a figure: its finding and note above the drawing, its caption below."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from analysis.figures.theme import CAPTION_SIZE, NOTE_SIZE, TITLE_SIZE, wrapped
from analysis.text import sentence


@dataclass(frozen=True, slots=True)
class Words:
    """The text of a figure, in lines that its width allows."""

    finding: tuple[str, ...]
    note: tuple[str, ...]
    caption: tuple[str, ...]

    @classmethod
    def taken(cls, spec: dict[str, Any]) -> Words:
        """Take finding, note and caption out of a figure's specification and return them.

        Of another chart its description is returned; its title stays.
        """
        if "vconcat" not in spec:
            return cls((str(spec.get("description", "")),), (), ())
        title = spec["vconcat"][0].pop("title", {})
        caption = _lines(spec.pop("title", {}), "text")
        return cls(_lines(title, "text"), _lines(title, "subtitle"), caption)

    @property
    def texts(self) -> tuple[str, str, str]:
        """Finding, note and caption, each in one line."""
        return " ".join(self.finding), " ".join(self.note), " ".join(self.caption)

    @property
    def label(self) -> str:
        """The finding and the note in sentences, for screen readers."""
        return " ".join(sentence(each) for each in self.texts[:2] if each)

    def put(self, spec: dict[str, Any], width: float) -> None:
        """Put the text into a figure's specification, in lines that fit a width in pixels."""
        finding, note, caption = self.texts
        above: dict[str, Any] = {"text": wrapped(finding, width, TITLE_SIZE, bold=True)}
        if note:
            above["subtitle"] = wrapped(note, width, NOTE_SIZE)
        spec["vconcat"][0]["title"] = {**above, "anchor": "start"}
        spec["title"] = below(caption, width)


def below(caption: str, width: float) -> dict[str, Any]:
    """Return a title that is a caption below a figure."""
    return {
        "text": wrapped(caption, width, CAPTION_SIZE), "orient": "bottom", "anchor": "start",
        "offset": 10, "fontSize": CAPTION_SIZE, "fontWeight": "normal", "color": "#555555",
        "lineHeight": CAPTION_SIZE + 4,
    }  # fmt: skip


def _lines(title: Any, name: str) -> tuple[str, ...]:
    lines = title.get(name, "") if isinstance(title, dict) else title
    return tuple(lines) if isinstance(lines, list) else (str(lines),)
