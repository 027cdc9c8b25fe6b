"""The sentences that are read aloud, and the rule they were chosen by.

``sentences.txt`` is committed. Lines are added to it from the sources, and only sentences that
`engine.train.texts.is_held_out` keeps out of training, with::

    python -m clients.bench.sentences --own assistant-sentences.txt --wordnet /usr/share/wordnet --exclude index.jsonl
"""

import argparse
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path

from engine.train.texts import is_held_out, wordnet_examples

FILE = Path(__file__).with_name("sentences.txt")
COUNT = 360
FEWEST_WORDS, MOST_WORDS = 5, 16
_PLAIN = re.compile(r"[A-Za-z ,.'?!;:-]+")
"""No figures: then an error in the transcript is one of the sound, not of how a number was written."""


def load(count: int | None = None) -> list[str]:
    """The first ``count`` sentences (None: all), sources taking turns. Raises ``ValueError`` if there are fewer."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    if count is not None and not 0 < count <= len(lines):
        raise ValueError(f"there are {len(lines)} sentences, not {count}")
    return lines[:count]


def is_suitable(text: str) -> bool:
    """Whether ``text`` was kept out of training, as it stands and stripped, and is an ordinary sentence."""
    return (
        is_held_out(text)
        and is_held_out(text.strip())
        and FEWEST_WORDS <= len(text.split()) <= MOST_WORDS
        and _PLAIN.fullmatch(text) is not None
        and text[-1] in ".?!"
    )


def choose(
    own: Iterable[str], examples: Iterable[str], seen: Iterable[str] = (), kept: Sequence[str] = (), count: int = COUNT
) -> list[str]:
    """``kept`` and suitable sentences of each source in turn, none of them in ``seen``, up to ``count``; by hash.

    Where a source has no more the other goes on. Raises ``ValueError`` if both end too soon.
    """
    known = {text.strip() for text in seen} | set(kept)
    sources = []
    for texts in (own, examples):
        suitable = {text for text in map(str.strip, texts) if is_suitable(text)} - known
        sources.append(sorted(suitable, key=_order))
        known |= suitable
    chosen = [*kept, *(text for texts in zip_longest(*sources) for text in texts if text is not None)]
    if len(chosen) < count:
        raise ValueError(f"there are {len(chosen)} suitable sentences, {count} are needed")
    return chosen[:count]


def _order(text: str) -> bytes:
    return hashlib.sha256(f"bench {text}".encode()).digest()


def main() -> None:
    """Add what is lacking to the file; its lines stay, so that figures stay comparable."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--own", type=Path, required=True, help="the project's sentences, one a line")
    parser.add_argument("--wordnet", type=Path, required=True, help="folder of WordNet 3 data files")
    parser.add_argument("--exclude", type=Path, action="append", default=[], help="index.jsonl of speech trained on")
    parser.add_argument("--out", type=Path, default=FILE)
    args = parser.parse_args()
    seen = [json.loads(line)["text"] for path in args.exclude for line in path.read_text("utf-8").splitlines()]
    kept = args.out.read_text("utf-8").splitlines() if args.out.exists() else []
    chosen = choose(args.own.read_text("utf-8").splitlines(), wordnet_examples(args.wordnet), seen, kept)
    args.out.write_text("\n".join(chosen) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
