"""Readable filler: English words in sentences, the same text for the same key on every machine."""

from __future__ import annotations

import random

_NOUNS = """
    harbour river market engine library garden bridge teacher window captain orchard festival kitchen mountain
    village railway museum painter island letter factory lantern winter summer forest station workshop meadow
    archive theatre valley sailor printer baker canal tower harvest compass signal weather journey ferry
    barrel notebook machine quarry cottage pasture beacon furnace chapel stable mill reservoir lighthouse
""".split()  # noqa: SIM905 -- reads best as words
_VERBS = """
    carries follows measures repairs gathers describes crosses remembers builds opens paints records studies
    shelters borrows delivers watches explains divides restores supports collects surrounds replaces guides
""".split()  # noqa: SIM905 -- reads best as words
_ADJECTIVES = """
    quiet narrow patient wooden northern careful bright early distant heavy gentle ancient steady hollow
    silver crowded modest broken open famous little eastern shallow busy plain sturdy forgotten western local
    curious
""".split()  # noqa: SIM905 -- reads best as words
_ADVERBS = ("slowly", "often", "again", "quietly", "every morning", "before noon", "without hurry", "after rain")
_OPENERS = ("In the end", "Years later", "For a while", "On most days", "By tradition", "Near the coast", "As a rule")

_WORDS_PER_PARAGRAPH = 60


def title(key: str) -> str:
    """Three or four words in title case."""
    rng = random.Random(f"title {key}")
    return f"The {rng.choice(_ADJECTIVES)} {rng.choice(_NOUNS)} and the {rng.choice(_NOUNS)}".title()


def paragraphs(key: str, count: int = 4, changed: int = 0) -> list[str]:
    """`count` paragraphs of about 60 words; `changed` words of the first are replaced: a near copy of the same key."""
    rng = random.Random(f"prose {key}")
    texts = [_paragraph(rng) for _ in range(count)]
    if changed:
        words = texts[0].split(" ")
        for place in random.Random(f"changed {key}").sample(range(len(words)), changed):
            words[place] = "elsewhere"
        texts[0] = " ".join(words)
    return texts


def _paragraph(rng: random.Random) -> str:
    sentences: list[str] = []
    words = 0
    while words < _WORDS_PER_PARAGRAPH:
        sentences.append(_sentence(rng))
        words += sentences[-1].count(" ") + 1
    return " ".join(sentences)


def _sentence(rng: random.Random) -> str:
    subject = f"the {rng.choice(_ADJECTIVES)} {rng.choice(_NOUNS)}"
    rest = f"{rng.choice(_VERBS)} the {rng.choice(_NOUNS)} of a {rng.choice(_ADJECTIVES)} {rng.choice(_NOUNS)}"
    if rng.random() < 0.3:
        return f"{rng.choice(_OPENERS)}, {subject} {rest}."
    return f"{subject.capitalize()} {rest}, {rng.choice(_ADVERBS)} and {rng.choice(_ADVERBS)}."
