"""The parts of the understudy's codec alone, on the teacher's own speech: what each of them costs.

Axes: N samples, S subframes, F frames, C codebooks.
"""

from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from clients.bench.decode import source_hash
from clients.bench.takes import Reader, Take
from engine.codec.post_filter import sharpen
from engine.codec.understudy import UnderstudyCodec
from engine.codec.vocoder import SAMPLE_RATE_HZ, SUBFRAMES_PER_FRAME
from engine.train.quantiser import Quantiser


class _StageReader:
    """Reads what a teacher says through a stage of the codec; the takes of ``checkpoint`` are kept apart."""

    stage: ClassVar[str]

    def __init__(self, teacher: Reader, codec: UnderstudyCodec, checkpoint: str) -> None:
        self._teacher, self._codec = teacher, codec
        self.voices = teacher.voices
        self.folder = f"{teacher.folder}-{self.stage}-{checkpoint}"
        self.identity = f"{self.folder}-{source_hash('codec')}"


class VocoderReader(_StageReader):
    """The teacher's takes, analysed, post-filtered and synthesised again: nothing quantised, nothing learned."""

    stage = "vocoder"
    name = "vocoder alone"
    about = "the teacher's speech as vocoder parameters, and back"

    def read(self, text: str, voice: str, seed: int) -> Take:
        """See `Reader`."""
        take = self._teacher.read(text, voice, seed)
        parameters = torch.from_numpy(_parameters(take))
        frames = len(parameters) // SUBFRAMES_PER_FRAME
        state = self._codec.allocate(1)
        samples = []
        with torch.inference_mode():
            for frame in parameters[: frames * SUBFRAMES_PER_FRAME].view(frames, SUBFRAMES_PER_FRAME, -1):
                shown = torch.cat([state.last[None], sharpen(frame[None])], 1)
                samples.append(self._codec.vocoder(shown, state.phase, state.tail, state.rumble, state.position)[0])
                state.last.copy_(shown[:, -1])
        return Take(torch.cat(samples).numpy(), SAMPLE_RATE_HZ, take.compute_s, take.cpu_s)


class CodecReader(_StageReader):
    """The teacher's takes, analysed, quantised and decoded again: what a perfect decoder would sound like."""

    stage = "codec"
    name = "codec alone"
    about = "the teacher's speech as codes, and back"

    def __init__(self, teacher: Reader, codec: UnderstudyCodec, checkpoint: str) -> None:
        super().__init__(teacher, codec, checkpoint)
        self._quantiser = Quantiser.of(codec)

    def read(self, text: str, voice: str, seed: int) -> Take:
        """See `Reader`."""
        take = self._teacher.read(text, voice, seed)
        codes, _ = self._quantiser.encode(_parameters(take))
        samples = self._codec.decode_step(codes.T[None], self._codec.allocate(1))
        return Take(samples[0].numpy(), SAMPLE_RATE_HZ, take.compute_s, take.cpu_s)


def _parameters(take: Take) -> NDArray[np.float32]:
    """Vocoder parameters [S, D] of ``take``, as the recipe makes them."""
    from engine.train.analyse import analyse

    assert take.sample_rate == SAMPLE_RATE_HZ, take.sample_rate
    return analyse(take.samples.astype(np.float64))
