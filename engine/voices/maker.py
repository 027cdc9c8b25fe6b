"""Voices for one model: made of recordings, put together again from a file, refused when they are another model's.

Axes: C codebooks, F frames, T rows.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from engine.cache.decoder import DecoderState
from engine.codec.codec import Codec
from engine.core import Recording
from engine.errors import ClipError, ForeignVoiceError, NoCloningError, TextError, TextTooLongError, VoiceError
from engine.prompt import PromptBuilder, Reference, validate_text
from engine.voices.book import ReadyVoice, VoicePrefix
from engine.voices.clip_process import read_clip_apart
from engine.voices.clips import MOST_S, Clip
from engine.voices.files import Label, StoredVoice, memory_on, memory_shapes
from engine.voices.identity import ModelMark

MOST_REFERENCES = 8
MOST_TRANSCRIPT = 2000
"""Characters of one transcript: more are not said in ``MOST_S``."""
PROBE_FRAMES = 2
PROBE_TOLERANCE = 0.02
"""Two computations of one codec differ far less, two codecs far more."""


@runtime_checkable
class Encoder(Protocol):
    """A codec that hears, too."""

    def encode(self, samples: Tensor, rate: int) -> Tensor:
        """A recording [S] (float32) at ``rate`` Hz -> codes [C, F] (int64)."""


class VoiceMaker:
    """``prepare`` runs a prefix through the decoder; ``empty`` is memory of one sequence without rows, on its device.

    ``mark``: the model's. ``most_rows``: a voice's prompt rows at most, so that there is context left to
    speak in.
    """

    def __init__(
        self,
        mark: ModelMark,
        codec: Codec,
        builder: PromptBuilder,
        prepare: Callable[[VoicePrefix], ReadyVoice],
        empty: DecoderState,
        most_rows: int,
        read: Callable[[bytes, int], Clip] = read_clip_apart,
    ) -> None:
        self.mark = mark
        self._codec, self._builder = codec, builder
        self._prepare, self._most_rows, self._read = prepare, most_rows, read
        self._empty = empty
        self._probe: Tensor | None = None

    @property
    def can_clone(self) -> bool:
        """Whether the codec encodes."""
        return isinstance(self._codec, Encoder)

    @torch.inference_mode()
    def make(self, recordings: Sequence[Recording]) -> tuple[StoredVoice, ReadyVoice, tuple[str, ...]]:
        """A voice from recordings, and notes on them. Raises ``NoCloningError``, ``ClipError``, ``TextError``.

        Any thread may call it.
        """
        if not isinstance(self._codec, Encoder):
            raise NoCloningError(
                f"{self.mark.name} has no encoder, so it cannot take a voice from a recording; "
                "its voices are those it has"
            )
        if not 1 <= len(recordings) <= MOST_REFERENCES:
            raise ClipError(f"a voice is made of 1 to {MOST_REFERENCES} recordings, not {len(recordings)}")
        for recording in recordings:
            validate_text(recording.transcript)
            if len(recording.transcript) > MOST_TRANSCRIPT:
                raise TextTooLongError(f"a transcript may have {MOST_TRANSCRIPT} characters")
        clips = [self._read(recording.audio, self._codec.sample_rate) for recording in recordings]
        if sum(clip.duration_s for clip in clips) > MOST_S:
            raise ClipError(f"the recordings of a voice may be {MOST_S:g} s long in all; choose the best parts")
        device = self._codec.device
        references = [
            Reference(
                recording.transcript,
                self._codec.encode(torch.from_numpy(clip.samples.copy()).to(device), clip.sample_rate).cpu(),
            )
            for recording, clip in zip(recordings, clips, strict=True)
        ]
        stored, ready = self._finish(references, tuple(round(clip.duration_s, 3) for clip in clips))
        return stored, ready, tuple(dict.fromkeys(note for clip in clips for note in clip.notes))

    @torch.inference_mode()
    def remake(self, stored: StoredVoice) -> tuple[StoredVoice, ReadyVoice]:
        """The voice for this model, from the codes and transcripts of one made for another.

        Raises ``ForeignVoiceError`` if the codes are of another codec.
        """
        probe = self.probe
        is_same = stored.probe.shape == probe.shape and bool(
            (stored.probe.float() - probe).abs().max() <= PROBE_TOLERANCE
        )
        if not is_same or any(len(codes) != self._codec.num_codebooks for codes in stored.codes):
            raise ForeignVoiceError("its codes are of another codec: add the voice again from its recordings")
        return self._finish(stored.references, stored.label.durations_s)

    def _finish(
        self, references: Sequence[Reference], durations_s: tuple[float, ...]
    ) -> tuple[StoredVoice, ReadyVoice]:
        rows = self._builder.system_block(references)
        if len(rows) > self._most_rows:
            raise ClipError(
                f"recordings and transcripts make {len(rows)} rows; {self._most_rows} are the most for "
                f"{self.mark.name}: use shorter recordings"
            )
        ready = self._prepare(VoicePrefix(rows))
        transcripts = tuple(reference.transcript for reference in references)
        label = Label(self.mark.identity, self.mark.name, self.mark.dtype_name, transcripts, durations_s)
        return StoredVoice(label, tuple(r.codes for r in references), rows, ready.memory, self.probe), ready

    @torch.inference_mode()
    def restore(self, name: str, stored: StoredVoice) -> ReadyVoice:
        """The ready state that a file holds, as it is: nothing is computed. Raises ``VoiceError``."""
        problem = self.mark.problem(stored.label)
        try:
            if problem is None and not torch.equal(self._builder.system_block(stored.references), stored.rows):
                problem = "it was made with another form of the prompt"
        except TextError as error:
            raise VoiceError(f"voice {name!r} is none of this model: {error}") from error
        found = memory_shapes(stored.memory, len(stored.rows) - 1)
        if problem is None and found != memory_shapes(self._empty, len(stored.rows) - 1):
            problem = "its memory has other shapes than this model's"
        if problem is not None:
            raise ForeignVoiceError(
                f"voice {name!r} cannot be used: {problem}. Make it anew from its codes with "
                f"`footlights voice remake {name}`, or add it again from its recordings"
            )
        device = self._empty.kv.keys.device
        return ReadyVoice(VoicePrefix(stored.rows), stored.rows[-1].to(device), memory_on(device, stored.memory))

    @property
    @torch.inference_mode()
    def probe(self) -> Tensor:
        """What the codec makes of a fixed pattern of codes: float32 samples."""
        if self._probe is None:
            count = self._codec.num_codebooks
            codes = (7 * torch.arange(count * PROBE_FRAMES).view(1, count, PROBE_FRAMES) + 3) % 61
            codes = codes.to(self._codec.device)
            self._probe = self._codec.decode_step(codes, self._codec.allocate(1))[0].float().cpu()
        return self._probe
