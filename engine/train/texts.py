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
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from engine.train.forms import ENDS, carried, exclaimed, fragment, joined, listed, lone, quoted

WORDNET_FILES = ("data.noun", "data.verb", "data.adj", "data.adv")
NAME_FILES = ("15", "18")
"""WordNet's lexicographer files of places and people."""
NAMES = ("Anna", "Ben", "Maria", "Hassan", "Elena", "Tom")
"""Who speaks in dialogue where WordNet is not given."""
RARE_AT_ONCE = 4
COMMON = 4
"""A word in so many sentences is common."""
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


def wordnet_names(folder: Path) -> Iterator[str]:
    """Names of people and places that WordNet knows."""
    for line in (folder / "data.noun").read_text(encoding="utf-8", errors="ignore").splitlines():
        fields = line.split(" ")
        if len(fields) > 4 and fields[1] in NAME_FILES:
            name = fields[4].replace("_", " ")
            if re.fullmatch("[A-Z][a-z]+( [A-Z][a-z]+){0,2}", name):
                yield name


def training_texts(sentences: Path, wordnet: Path | None, seed: int, rare: Iterable[str] = ()) -> Iterator[str]:
    """Sentences to synthesise; held-out ones are among them, for validation, and nothing is trained on them.

    ``rare``: words that are wanted most; they come before all else, alone, within a short sentence and in lists. A
    round is a line of ``sentences``, three examples of WordNet,
    texts made from others (a fragment, a sentence exclaimed, spoken by somebody or joined with more), a common word
    alone, and a list of words, names, letters or numbers, or a short answer; it ends when there is nothing new.
    Nothing is made from a text that is held out.
    """
    rng = random.Random(seed)
    own = [line.strip() for line in sentences.read_text(encoding="utf-8").splitlines() if line.strip()]
    other = sorted(set(wordnet_examples(wordnet))) if wordnet else []
    words = sorted(set(wordnet_words(wordnet))) if wordnet else []
    names = sorted(set(wordnet_names(wordnet))) if wordnet else list(NAMES)
    short = [text.strip() for text in re.findall(r"[^.?!]+[.?!]", SHORT_ANSWERS)]
    common = common_words([*own, *other])
    sources = [text for text in other or own if not is_held_out(text)]
    for texts in (own, other, words, names, short, common, sources):
        rng.shuffle(texts)
    wanted = iter(rare)
    while batch := list(islice(wanted, RARE_AT_ONCE)):
        yield from about(batch, rng)
    while own or other:
        yield from (texts.pop() for texts in (own, other, other, other) if texts)
        yield from made(sources, names, rng)
        yield from (unseen_alone(common.pop(), rng) for _ in range(2) if common)
        odd = rng.random()
        if odd < 0.4 and len(words) > 5:
            yield listed([words.pop() for _ in range(rng.randint(1, 5))])
        elif odd < 0.6 and len(names) > 4:
            yield listed([names.pop() for _ in range(rng.randint(1, 4))])
        elif odd < 0.85:
            signs = rng.choices([*string.ascii_uppercase, *map(str, range(100))], k=rng.randint(1, 6))
            yield listed(signs)
        elif short:
            yield short.pop()


def made(sources: list[str], names: Sequence[str], rng: random.Random) -> Iterator[str]:
    """A fragment of a sentence, and a sentence or several in another form; takes them out of ``sources``."""
    if len(sources) < 5:
        return
    yield fragment(sources.pop(), rng)
    kind = rng.random()
    if kind < 0.35:
        yield quoted(sources.pop(), rng.choice(names), rng)
    elif kind < 0.65:
        yield exclaimed(sources.pop())
    else:
        yield joined([sources.pop() for _ in range(rng.randint(2, 3))], rng)


def about(words: Sequence[str], rng: random.Random) -> Iterator[str]:
    """Each of ``words`` alone, every other one within a sentence, all in a list."""
    for number, word in enumerate(words):
        yield unseen_alone(word, rng)
        if number % 2:
            yield carried(word, rng)
    yield listed(words)


def unseen_alone(word: str, rng: random.Random) -> str:
    """``word`` as a whole utterance; one that is held out with a full stop stays held out."""
    statement = lone(word, ".")
    return statement if is_held_out(statement) else lone(word, rng.choice(ENDS))


def common_words(texts: Iterable[str]) -> list[str]:
    """Words of three letters and more that several of ``texts`` have."""
    counts = Counter(word for text in texts for word in set(re.findall("[a-z]{3,}", text)))
    return sorted(word for word, count in counts.items() if count >= COMMON)


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
