"""``footlights bench samples``: a few short recordings of every voice, and a page without scripts that plays them."""

import argparse
import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import soundfile

from clients.bench import decode
from clients.bench.assets import MissingError
from clients.bench.environment import commit
from clients.bench.peers import KokoroReader
from clients.bench.takes import Reader, Take
from engine.errors import ConfigError

TEXTS = {
    "welcome": "Good evening, and welcome. Your table is ready at half past eight.",
    "question": "You kept every letter, and never told me why?",
    "figures": "The train to Leeds leaves at 9:45, and a ticket costs $20.",
    "list": "Bring apples, tea, a lantern, and something warm to wear!",
}
FROM_TEACHER = "question"
"""No figures in it: the teacher has no front end of its own here."""
MOST_BYTES = 40_000
PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Footlights: samples of the built-in voice</title>
<style>
  body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem }}
  h2 {{ margin: 2rem 0 .5rem }}
  figure {{ margin: 1rem 0 }}
  audio {{ display: block; width: 100%; max-width: 28rem; margin-top: .25rem }}
</style>
<h1>Samples of the built-in voice</h1>
<p>{about}</p>
{sections}
</html>
"""


@dataclass(frozen=True)
class Sample:
    """One file of the page."""

    voice: str
    caption: str
    file: str


def samples(arguments: argparse.Namespace) -> None:
    """``footlights bench samples``. Raises ``FootlightsError``."""
    folder: Path = arguments.model or decode.DEFAULT_MODEL
    engine = decode.open_engine(folder, arguments.text_stream)
    checkpoint = decode.checkpoint_hash(folder)
    voices = arguments.voices or engine.info.voices
    model = decode.EngineReader(engine, checkpoint, voices)
    try:
        teacher: Reader | None = KokoroReader(voices)
    except MissingError as error:
        print(f"without the teacher beside it: {error}")
        teacher = None
    code = commit()  # before the recordings themselves are changes
    made = record(model, teacher, voices, arguments.seed, arguments.out)
    about = f"Made by <code>footlights bench samples --seed {arguments.seed}</code> at commit {code}, "
    about += f"checkpoint {checkpoint}: one take of each text, the first one, not the best."
    (arguments.out / "index.html").write_text(page(made, about), encoding="utf-8")
    print(f"{len(made)} samples and index.html in {arguments.out}")


def record(model: Reader, teacher: Reader | None, voices: Sequence[str], seed: int, folder: Path) -> list[Sample]:
    """Speak ``TEXTS`` in all ``voices``, one of them by the teacher too, into ``folder`` (OGG with Opus).

    Other recordings in there are removed. Raises ``ConfigError`` for a file above ``MOST_BYTES``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.ogg"):
        path.unlink()
    made = []
    for voice in voices:
        for name, text in TEXTS.items():
            _write(folder / f"{voice}-{name}.ogg", model.read(text, voice, seed))
            made.append(Sample(voice, text, f"{voice}-{name}.ogg"))
        if teacher is not None and voice in teacher.voices:
            text = TEXTS[FROM_TEACHER]
            _write(folder / f"{voice}-{FROM_TEACHER}-teacher.ogg", teacher.read(text, voice, seed))
            caption = f"For comparison, the teacher ({teacher.name}): {text}"
            made.append(Sample(voice, caption, f"{voice}-{FROM_TEACHER}-teacher.ogg"))
    return made


def page(made: Sequence[Sample], about: str) -> str:
    """The page; ``about`` is HTML."""
    lines = []
    for voice in dict.fromkeys(sample.voice for sample in made):
        lines.append(f"<h2>{html.escape(voice)}</h2>")
        lines += [
            f"<figure><figcaption>{html.escape(sample.caption)}</figcaption>"
            f'<audio controls preload="none" src="{html.escape(sample.file)}"></audio></figure>'
            for sample in made
            if sample.voice == voice
        ]
    return PAGE.format(about=about, sections="\n".join(lines))


def _write(path: Path, take: Take) -> None:
    soundfile.write(path, take.samples, take.sample_rate, format="OGG", subtype="OPUS")
    if path.stat().st_size > MOST_BYTES:
        raise ConfigError(f"{path} has {path.stat().st_size} bytes, more than the {MOST_BYTES} of a sample")
