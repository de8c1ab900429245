"""A report as one file, in which a service sends it, and the folder made of such a file."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile, ZipFile

from analysis.data.selection import Selection
from analysis.figure_style import colour_option
from analysis.option_fields import option
from survey.errors import SurveyError


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The options of a report, beside its runs."""

    title: str | None = option(None, "Heading of the overview.", none="A survey of N models")
    color_by: str | None = colour_option()


def archive_report(home: Path, archive: Path, selection: Selection, options: ReportOptions) -> Path:
    """Write a report as a zip file, and return its path.

    Parameters
    ----------
    home : Path
        The home.
    archive : Path
        The file without its ending; beside it the report's folder lies meanwhile.
    selection : Selection
        Which runs.
    options : ReportOptions
        The rest.

    Raises
    ------
    SettingsError, UnknownName
        As ``write_report``.
    """
    from analysis.report import write_report

    folder = archive.with_name(f"{archive.name}.folder")
    write_report(home, folder, selection, options.title, color_by=options.color_by)
    file = shutil.make_archive(str(archive), "zip", folder)
    shutil.rmtree(folder)
    return Path(file)


def unpack_report(file: IO[bytes], out: Path) -> dict[str, Any]:
    """Make the folder of a report that is there whole or not at all; return its marker.

    Parameters
    ----------
    file : binary file
        The archive; it may be anyone's.
    out : Path
        The folder: nothing, an empty folder, or an earlier report, which is replaced.

    Raises
    ------
    SurveyError
        If it is no report, or something else lies at ``out``.
    """
    from analysis.report.folder import MARKER, report_folder

    try:
        with ZipFile(file) as archive:
            marker: dict[str, Any] = json.loads(archive.read(MARKER))
            with report_folder(out, marker) as write:
                for each in archive.infolist():
                    if not each.is_dir() and each.filename != MARKER:
                        write(each.filename, archive.read(each))
    except (BadZipFile, KeyError, TypeError, ValueError):
        raise SurveyError("what the service sent is no report") from None
    return marker
