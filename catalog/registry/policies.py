"""What schedules do about missed due times and earlier runs, and what tokens allow."""

from __future__ import annotations

from typing import Literal

#: Which missed due times run: only the newest; each in order; none.
Missed = Literal["latest", "all", "skip"]

#: What a due time does while a former run goes: nothing; run after it; run in its place.
Overlap = Literal["skip", "queue", "replace"]

#: Seconds that a due time may be seen late and still count as seen in time.
GRACE_SECONDS = 60.0

#: The most of them that may be chosen: a year.
LONGEST_GRACE_SECONDS = 365 * 86_400.0

#: What a token allows: reading alone, or changing things too.
TokenScope = Literal["read", "write"]
