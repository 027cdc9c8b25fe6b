"""Sentences for the teacher to read, and the rule that holds some of them out.

Sources, all with licences that allow it: the project's own ``sentences.txt`` and the example sentences and words of
WordNet 3 (Debian package ``wordnet-base``, WordNet licence).
"""

import hashlib
import math
import random
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
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


def wordnet_words(folder: Path) -> Iterator[str]:
    """Single words WordNet knows: what a sentence may hold that no common text does."""
    for name in WORDNET_FILES:
        for line in (folder / name.replace("data", "index")).read_text(encoding="utf-8").splitlines():
            word = line.split(" ", 1)[0]
            if re.fullmatch("[a-z]{3,14}", word):
                yield word


def training_texts(sentences: Path, wordnet: Path | None, seed: int) -> Iterator[str]:
    """Sentences to synthesise; held-out ones are among them, for validation, and nothing is trained on them.

    A round is a line of ``sentences``, three examples of WordNet, a fragment of one, and a list of its words, of
    letters and numbers, or a short answer; it ends when there is nothing new.
    """
    rng = random.Random(seed)
    own = [line.strip() for line in sentences.read_text(encoding="utf-8").splitlines() if line.strip()]
    other = sorted(set(wordnet_examples(wordnet))) if wordnet else []
    words = sorted(set(wordnet_words(wordnet))) if wordnet else []
    short = [text.strip() for text in re.findall(r"[^.?!]+[.?!]", SHORT_ANSWERS)]
    for texts in (own, other, words, short):
        rng.shuffle(texts)
    while own or other:
        yield from (texts.pop() for texts in (own, other, other, other) if texts)
        if other and not is_held_out(source := other.pop()):
            yield fragment(source, rng)
        odd = rng.random()
        if odd < 0.6 and len(words) > 5:
            yield listed([words.pop() for _ in range(rng.randint(1, 5))])
        elif odd < 0.85:
            signs = rng.choices([*string.ascii_uppercase, *map(str, range(100))], k=rng.randint(1, 6))
            yield listed(signs)
        elif short:
            yield short.pop()


def fragment(text: str, rng: random.Random) -> str:
    """One to five words from the middle of ``text``, ended as a clause may be."""
    words = text.rstrip(".?!").split()
    count = min(len(words), rng.randint(1, 5))
    start = rng.randint(0, len(words) - count)
    return " ".join(words[start : start + count]).rstrip(".,;:!?") + rng.choice([".", ",", "?", "!", ""])


def listed(words: list[str]) -> str:
    """``words`` read one after the other."""
    return ", ".join(words[:1]).capitalize() + "".join(f", {word}" for word in words[1:]) + "."


def covering(
    texts: Iterable[str], sound: Callable[[str], str], heard: Iterable[str], choices: int = 6
) -> Iterator[str]:
    """``texts``, of every few the one first whose phoneme pairs were least heard; ``heard``: phonemes so far."""
    counts = Counter(pair for phonemes in heard for pair in pairs(phonemes))

    def novelty(phonemes: str) -> float:
        return sum(1 / math.sqrt(1 + counts[pair]) for pair in pairs(phonemes)) / (len(phonemes) + 10)

    source = iter(texts)
    pool = [(text, sound(text)) for text in islice(source, choices)]
    while pool:
        best = max(range(len(pool)), key=lambda i: novelty(pool[i][1]))
        text, phonemes = pool.pop(best)
        counts.update(pairs(phonemes))
        yield text
        pool += [(text, sound(text)) for text in islice(source, choices - len(pool))]


def pairs(phonemes: str) -> list[str]:
    """Neighbouring symbols of ``phonemes`` without stress marks."""
    plain = phonemes.replace("ˈ", "").replace("ˌ", "")
    return [plain[i : i + 2] for i in range(len(plain) - 1)]
