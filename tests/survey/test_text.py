"""Counts, sizes and durations, as every room writes them."""

from __future__ import annotations

import sys
import unicodedata

from torch import nn

from catalog.checkpoint_references import state_sha256
from survey.capture.activations import site_name
from survey.text import (
    counted,
    first_line,
    format_bytes,
    format_duration,
    harmless,
    printable,
)


def test_one_thing_is_no_plural():
    assert [counted(number, "site") for number in (0, 1, 2)] == ["0 sites", "1 site", "2 sites"]
    assert counted(1, "family", "families") == "1 family"
    assert counted(3, "family", "families") == "3 families"


def test_thousands_are_set_apart():
    assert counted(1200, "row") == "1,200 rows"


def test_sizes_have_three_digits_in_decimal_units(subtests):
    for size, text in [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1 kB"),
        (97_800_000, "97.8 MB"),
        (999_600_000, "1 GB"),
        (2**30, "1.07 GB"),
        (20 * 10**9, "20 GB"),
        (3_250 * 10**9, "3.25 TB"),
    ]:
        with subtests.test(size=size, text=text):
            assert format_bytes(size) == text


def test_durations_have_the_unit_that_suits_them(subtests):
    for seconds, text in [
        (0.04, "0.0 s"),
        (4.2, "4.2 s"),
        (70, "70 s"),
        (90, "2 min"),
        (1500, "25 min"),
        (9000, "2.5 h"),
    ]:
        with subtests.test(seconds=seconds, text=text):
            assert format_duration(seconds) == text


def test_nothing_is_left_that_a_terminal_obeys_or_a_reader_cannot_see():
    every = [chr(code) for code in (*range(0x3000), *range(0x3000, sys.maxunicode + 1, 61))]
    harmful = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    shown = [printable(each) for each in every]
    for before, after in zip(every, shown, strict=True):
        assert not {unicodedata.category(each) for each in after} & harmful
        assert (after == before) == (unicodedata.category(before) not in harmful)
    # Two names that differ are shown apart.
    assert len(set(shown)) == len(every)


def test_a_site_whose_module_has_no_name_in_unicode_can_be_stored_and_identified():
    name = "a\udc80"
    assert site_name(name, None, 1).encode() == rb"a\udc80#1"
    network = nn.Sequential()
    network.add_module(name, nn.ReLU())
    assert len(state_sha256(network)) == 64


def test_what_a_module_keeps_beside_its_tensors_is_a_part_of_its_identity():
    class Scaled(nn.Module):
        """Keeps a number that is no tensor."""

        def __init__(self, scale: float) -> None:
            super().__init__()
            self.scale = scale

        def get_extra_state(self) -> dict[str, float]:
            return {"scale": self.scale}

    assert state_sha256(Scaled(1.0)) == state_sha256(Scaled(1.0)) != state_sha256(Scaled(2.0))


def test_a_printable_text_stays_as_it_is():
    for text in ("", "resnet50", "\u0646\u0645\u0648\u0630\u062c \u6a21\u578b \u00e9", r"\x1b"):
        assert printable(text) == harmless(text) == text


def test_an_error_without_a_message_is_told_by_its_kind():
    assert first_line(ValueError(" a\nb")) == "a"
    assert first_line(OSError()) == "OSError"
