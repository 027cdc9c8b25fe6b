"""From a checkpoint folder to its voices: learned ones, or the plain one and those taken from recordings."""

from pathlib import Path

import torch

from engine.manifest import PLAIN_VOICE, Manifest
from engine.prompt import PromptBuilder
from engine.runner import Runner
from engine.voices.book import VoiceBook, VoicePrefix
from engine.voices.folder import VoiceFolder
from engine.voices.identity import ModelMark, model_identity
from engine.voices.library import VoiceLibrary
from engine.voices.maker import VoiceMaker

VOICES_FOLDER = "voices"
MOST_SHARE = 0.75
"""Of the rows from which on a context is let go: what a voice may fill of them."""


def open_voices(
    folder: Path,
    manifest: Manifest,
    builder: PromptBuilder,
    runner: Runner,
    is_aligned: bool,
    voices_folder: Path | None = None,
) -> VoiceBook:
    """The voices of the checkpoint ``folder``; ``voices_folder`` has those from recordings (None: its ``voices``).

    Raises ``ConfigError``. A stored voice that cannot be used is no error here: it is listed with its problem.
    """
    system = builder.system_block()
    if manifest.voices:
        # Learned voices differ by speaker tag, which the aligned form puts into a turn without text.
        turns = [builder.turn(f"<|speaker:{i}|> ") for i in range(len(manifest.voices))]
        prefixes = {
            name: VoicePrefix(torch.cat((system, turns[i])) if is_aligned else system, index=i)
            for i, name in enumerate(manifest.voices)
        }
        return VoiceBook(prefixes, runner.prepare)
    empty = runner.decoder.allocate(1)
    maker = VoiceMaker(
        ModelMark(model_identity(folder), manifest.name, empty.kv.keys.dtype),
        runner.codec,
        builder,
        runner.prepare,
        empty,
        most_rows=int(MOST_SHARE * manifest.renew_rows),
    )
    return VoiceLibrary(
        {PLAIN_VOICE: VoicePrefix(system)},
        runner.prepare,
        VoiceFolder(voices_folder or folder / VOICES_FOLDER),
        maker,
    )
