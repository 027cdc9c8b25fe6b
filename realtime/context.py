"""One context of a session: its text, its audio so far, its words, and the account of what was heard."""

from dataclasses import dataclass

from engine.core import AudioChunk, WordTiming
from realtime.audio import MessageCutter, PcmStream, silence
from realtime.heard import heard_characters
from realtime.playout import Playout
from realtime.protocol import AudioMessage, Precision

SILENCE_MS = 40
"""Audio of a context whose text has nothing to speak: players and frameworks take no audio at all for a fault."""


@dataclass(frozen=True)
class Account:
    """What was heard: ``spoken + unspoken`` is the text, ``char_end == len(spoken)``."""

    played_ms: float
    spoken: str
    unspoken: str
    char_end: int
    precision: Precision


class Context:
    """Progress of one context, from its opening until the session forgets it."""

    def __init__(
        self, context_id: str, index: int, utterance_id: str, voice: str, model_rate: int, output_rate: int
    ) -> None:
        self.context_id = context_id
        self.index = index
        self.utterance_id = utterance_id
        self.voice = voice
        self.playout = Playout()
        self.pause_causes: set[str] = set()
        self.is_text_ended = False
        self.is_finished = False
        """Has the engine spoken all of it?"""
        self.has_audio_started = False
        self.characters = 0
        self.messages = 0
        self.first_speakable_s: float | None = None
        self.last_input_s = 0.0
        self.ttfa_ms: float | None = None
        self._output_rate = output_rate
        self._pcm = PcmStream(model_rate, output_rate)
        self._cutter = MessageCutter(output_rate)
        self._model_samples = 0
        self._samples = 0
        self._pieces: dict[int, str] = {}
        self._appends = 0
        self._words: dict[int, WordTiming] = {}
        """By first character: a word that comes again has its exact times now."""

    # ------------------------------------------------------------------------------------------ text

    @property
    def text(self) -> str:
        """Everything appended and not rejected."""
        return "".join(self._pieces.values())

    def append(self, text: str, now_s: float) -> int:
        """Takes the text; gives the index of this append."""
        append_index = self._appends
        self._appends += 1
        self._pieces[append_index] = text
        self.characters += len(text)
        self.touch(now_s)
        if self.first_speakable_s is None and any(character.isalnum() for character in text):
            self.first_speakable_s = now_s
        return append_index

    def reject(self, append_index: int) -> None:
        """The engine refused that append: it is no part of the text."""
        self.characters -= len(self._pieces.pop(append_index, ""))

    def touch(self, now_s: float) -> None:
        """The client sent something that the speech may have waited for."""
        self.last_input_s = now_s

    # ------------------------------------------------------------------------------------------ audio

    @property
    def audio_ms(self) -> float:
        """Audio made so far, at the session's rate."""
        return 1000 * self._samples / self._output_rate

    def is_next(self, chunk: AudioChunk) -> bool:
        """Does the chunk continue the audio without a gap?"""
        return chunk.first_sample == self._model_samples

    def push(self, chunk: AudioChunk) -> list[AudioMessage]:
        """The messages that this chunk completes."""
        assert self.is_next(chunk), (chunk.first_sample, self._model_samples)
        self._model_samples += len(chunk.samples)
        self._words.update((word.char_start, word) for word in chunk.words)
        return self._messages(self._cutter.push(self._pcm.push(chunk.samples)))

    def finish(self) -> list[AudioMessage]:
        """The last messages: what was kept back, or a short silence if there was no audio at all."""
        self.is_finished = True
        payloads = self._cutter.push(self._pcm.finish(), is_last=True)
        if not payloads and not self._samples:
            payloads = self._cutter.push(silence(self._output_rate, SILENCE_MS), is_last=True)
        return self._messages(payloads)

    def sent(self, message: AudioMessage) -> None:
        """The message has left."""
        end = message.first_sample + len(message.payload) // 2
        self.playout.sent(1000 * end / self._output_rate)

    def _messages(self, payloads: list[bytes]) -> list[AudioMessage]:
        messages = []
        for payload in payloads:
            messages.append(AudioMessage(self.index, self.messages, self._samples, payload))
            self.messages += 1
            self._samples += len(payload) // 2
        return messages

    # ------------------------------------------------------------------------------------------ account

    def account(self, now_s: float) -> Account:
        """What the listener has heard by now."""
        played_ms = self.playout.heard_ms(now_s)
        text = self.text
        char_end = heard_characters(text, [*self._words.values()], played_ms, is_finished=self.is_finished)
        # Where nothing was sent nothing was heard, and that is certain.
        is_exact = self.playout.acknowledged_ms is not None or self.playout.sent_ms == 0
        return Account(
            round(played_ms, 3), text[:char_end], text[char_end:], char_end, "exact" if is_exact else "estimated"
        )
