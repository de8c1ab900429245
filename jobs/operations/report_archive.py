"""A report as one file, in which a service sends it, and the folder made of such a file."""

from __future__ import annotations

import shutil
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from pydantic import TypeAdapter

from analysis.data.selection import Selection
from analysis.figure_style import colour_option
from analysis.option_fields import option
from catalog.bounds import parse_json, read_at_most
from survey.errors import SurveyError

#: Most bytes of a report from elsewhere, and of one of its files.
MOST_BYTES, MOST_BYTES_A_FILE = 2**32, 2**28


@dataclass(frozen=True, slots=True)
class ReportMarker:
    """What is shown of a report that was received."""

    title: str
    runs: int


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
    from jobs.operations.bare_material import BareMaterial

    folder = archive.with_name(f"{archive.name}.folder")
    coloured = options.color_by
    write_report(home, folder, selection, options.title, color_by=coloured, kind=BareMaterial)
    file = shutil.make_archive(str(archive), "zip", folder)
    shutil.rmtree(folder)
    return Path(file)


def unpack_report(file: IO[bytes], out: Path) -> ReportMarker:
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
        If it is no report, unpacks to more than 4 GiB or a file of more than 256 MiB, or something
        else lies at ``out``.
    """
    from analysis.report.folder import MARKER, report_folder

    try:
        with ZipFile(file) as archive:
            if {each.compress_type for each in archive.infolist()} - {ZIP_STORED, ZIP_DEFLATED}:
                raise BadZipFile("packed in a way that no report is")
            marker = dict(parse_json(_unpacked(archive, MARKER, MOST_BYTES)))
            known: ReportMarker = TypeAdapter(ReportMarker).validate_python(marker)
            left = MOST_BYTES
            with report_folder(out, marker) as write:
                for each in archive.infolist():
                    if not each.is_dir() and each.filename != MARKER:
                        content = _unpacked(archive, each.filename, left)
                        left -= len(content)
                        write(each.filename, content)
    # What zipfile raises on a damaged archive, also for a name of no letters or with a password.
    except (BadZipFile, LookupError, TypeError, ValueError, EOFError, RuntimeError, zlib.error):
        raise SurveyError("what the service sent is no report") from None
    except OSError as error:
        raise SurveyError(f"{out} cannot be written: {error.strerror or error}") from None
    return known


def _unpacked(archive: ZipFile, name: str, limit: int) -> bytes:
    """Return a file of an archive; a directory may state less than comes out."""
    with archive.open(name) as file:
        return read_at_most(file, min(limit, MOST_BYTES_A_FILE), name)
