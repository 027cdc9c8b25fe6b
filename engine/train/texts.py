"""Sentences for the teacher to read, and the rule that holds some of them out.

Sources, all with licences that allow it: the project's own ``assistant-sentences.txt`` and the
example sentences of WordNet 3 (Debian package ``wordnet-base``, WordNet licence).
"""

import hashlib
import random
import re
from collections.abc import Iterator
from pathlib import Path

WORDNET_FILES = ("data.noun", "data.verb", "data.adj", "data.adv")
SHORT_ANSWERS = (
    "Yes. No. Okay. Sure. Hello! Thanks. Maybe. Really? Why? Stop! Wait. Hi there. Good. Go on. I see. "
    "Of course. Not now. Right. Sorry. Who? When? Where? How? Never. Always. Please. Goodbye. Done. Ready? "
    "Follow me. Look out! Come here. Thank you. Good night. Well done. One moment. Say again? All right. Got it."
)
_PLAIN = re.compile(r"[A-Za-z0-9 ,.'?!;:$%-]+")


def is_held_out(text: str) -> bool:
    """Whether ``text`` is kept for evaluation: one sentence in 16, by the hash of its text."""
    return hashlib.sha256(text.strip().encode()).digest()[0] % 16 == 0


def wordnet_examples(folder: Path) -> Iterator[str]:
    """Example sentences of WordNet glosses, 4 to 16 words, as capitalised sentences."""
    for name in WORDNET_FILES:
        for line in (folder / name).read_text(encoding="utf-8", errors="ignore").splitlines():
            for quote in re.findall(r'"([^"]+)"', line):
                text = quote.strip().rstrip(";,")
                if 4 <= len(text.split()) <= 16 and _PLAIN.fullmatch(text):
                    text = text[0].upper() + text[1:]
                    yield text if text[-1] in ".?!" else text + "."


def training_texts(sentences: Path, wordnet: Path | None, seed: int) -> list[str]:
    """Shuffled sentences to synthesise; held-out ones are among them, for validation, and nothing is trained on them.

    One in two is from ``sentences`` (a line each), the others from WordNet; short answers are mixed in.
    """
    rng = random.Random(seed)
    own = [line.strip() for line in sentences.read_text(encoding="utf-8").splitlines() if line.strip()]
    other = sorted(set(wordnet_examples(wordnet))) if wordnet else []
    short = re.findall(r"[^.?!]+[.?!]", SHORT_ANSWERS)
    rng.shuffle(own)
    rng.shuffle(other)
    mixed: list[str] = []
    for i, text in enumerate(own):
        mixed.append(text)
        mixed.extend(other[2 * i : 2 * i + 2])
        if i % 12 == 0:
            mixed.append(short[(i // 12) % len(short)].strip())
    return mixed
