"""One context of a session: its text, its audio so far, its words, and the account of what was heard."""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from engine.core import AudioChunk, Revised, WordTiming
from realtime.audio import MessageCutter, PcmStream, silence
from realtime.draft import Draft
from realtime.heard import clinging_end, heard_characters
from realtime.lag import AIM, HURRY_FROM, MOST_HURRY, hurry, ms_per_character, skip_target
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


@dataclass(frozen=True)
class Rewound:
    """Audio from ``position`` (sample at the session's rate) on is void; ``was_sent``: some of it has left."""

    position: int
    void_ms: float
    was_sent: bool


@dataclass(frozen=True)
class Skip:
    """After ``spoken_start`` characters of the spoken text go on from ``target`` of the client's."""

    spoken_start: int
    target: int


class Context:
    """Progress of one context, from its opening until the session forgets it."""

    def __init__(
        self, context_id: str, index: int, utterance_id: str, voice: str, model_rate: int, output_rate: int
    ) -> None:
        self.context_id = context_id
        self.index = index
        self.utterance_id = utterance_id
        self.voice = voice
        self.draft = Draft(utterance_id)
        self.playout = Playout()
        self.pause_causes: set[str] = set()
        self.is_finished = False
        """Has the engine spoken all of it?"""
        self.has_audio_started = False
        self.max_lag_ms: float | None = None
        self.may_hurry = False
        """Is it spoken faster before anything is left out?"""
        self.hurry = 1.0
        """How much faster than asked for it is spoken."""
        self.lag_ms = 0.0
        """When something was last done about it."""
        self.revisions = 0
        """Asked for by the client."""
        self.revisions_taken = 0
        """Those that are under way or answered."""
        self.revised_s: float | None = None
        """When the engine was last given a revision."""
        self.messages = 0
        self.first_speakable_s: float | None = None
        self.last_input_s = 0.0
        self.ttfa_ms: float | None = None
        """Known once a word has begun: text may have nothing to say in it."""
        self._first_audio_s: float | None = None
        self._output_rate = output_rate
        self._model_rate = model_rate
        self._pcm = PcmStream(model_rate, output_rate)
        self._cutter = MessageCutter(output_rate)
        self._model_samples = 0
        self._saved_ms = 0.0
        """How much longer the audio would be without any hurry."""
        self._samples = 0
        self._words: dict[int, WordTiming] = {}
        """By first character: a word that comes again has its exact times now."""
        self._last_word: WordTiming | None = None
        self._unsent: deque[AudioMessage] = deque()

    # ------------------------------------------------------------------------------------------ text

    @property
    def characters(self) -> int:
        """Of the text that is spoken."""
        return self.draft.spoken_length

    @property
    def is_text_ended(self) -> bool:
        """Has the client ended the text?"""
        return self.draft.is_finished

    @property
    def is_revisable_often(self) -> bool:
        """Is audio made far in advance likely to be made in vain?"""
        return self.revisions > 0 or self.max_lag_ms is not None

    def touch(self, text: str, now_s: float) -> None:
        """The client sent something that the speech may have waited for."""
        self.last_input_s = now_s
        if self.first_speakable_s is None and any(character.isalnum() for character in text):
            self.first_speakable_s = now_s

    # ------------------------------------------------------------------------------------------ audio

    @property
    def audio_ms(self) -> float:
        """Audio made so far, at the session's rate."""
        return 1000 * self._samples / self._output_rate

    def note_audio(self, now_s: float) -> float | None:
        """Audio is about to be sent. Gives ``ttfa_ms`` when it becomes known: once, with the first word."""
        if self.first_speakable_s is None or self.ttfa_ms is not None:
            return None
        if self._first_audio_s is None:
            self._first_audio_s = now_s
        if self._words:
            self.ttfa_ms = round(1000 * (self._first_audio_s - self.first_speakable_s), 3)
        return self.ttfa_ms

    def is_next(self, chunk: AudioChunk) -> bool:
        """Does the chunk continue the audio without a gap?"""
        return chunk.first_sample == self._model_samples

    def push(self, chunk: AudioChunk, now_s: float) -> list[AudioMessage]:
        """The messages that this chunk completes."""
        assert self.is_next(chunk), (chunk.first_sample, self._model_samples)
        self._model_samples += len(chunk.samples)
        self._saved_ms += (self.hurry - 1) * 1000 * len(chunk.samples) / self._model_rate
        self._learn(chunk.words)
        # No revision changes what has been heard.
        self._pcm.forget(int(self.playout.heard_ms(now_s) * self._model_rate / 1000))
        return self._messages(self._cutter.push(self._pcm.push(chunk.samples)))

    def finish(self) -> list[AudioMessage]:
        """The last messages: what was kept back, or a short silence if there was no audio at all."""
        self.is_finished = True
        payloads = self._cutter.push(self._pcm.finish(), is_last=True)
        if not payloads and not self._samples:
            payloads = self._cutter.push(silence(self._output_rate, SILENCE_MS), is_last=True)
        return self._messages(payloads)

    def sent(self, message: AudioMessage) -> None:
        """The message cannot be dropped any more."""
        while self._unsent and self._unsent[0].first_sample <= message.first_sample:
            self._unsent.popleft()
        self.playout.sent(1000 * message.end / self._output_rate)

    def rewind(self, event: Revised) -> Rewound:
        """The text was revised: what was made of the old one is void."""
        from_ms = 1000 * event.from_sample / self._model_rate
        words, self._words, self._last_word = self._words.values(), {}, None
        self._learn(word for word in words if word.char_start < event.kept_to and word.start_ms < from_ms)
        if event.from_sample < self._model_samples:
            self._saved_ms *= event.from_sample / self._model_samples
            self._model_samples = event.from_sample
        position = self._pcm.rewind(event.from_sample)
        self._cutter.rewind(max(0, position - self._samples))
        void_ms = max(0.0, 1000 * (self._samples - position) / self._output_rate)
        while self._unsent and self._unsent[-1].end > position:
            kept = self._unsent.pop().until(position)
            if kept is not None:
                self._unsent.append(kept)
                break
            self.messages -= 1
        self._samples = min(self._samples, position)
        position_ms = 1000 * position / self._output_rate
        was_sent = self.playout.sent_ms > position_ms
        self.playout.rewind(position_ms)
        return Rewound(position, void_ms, was_sent)

    def _learn(self, words: Iterable[WordTiming]) -> None:
        for word in words:
            self._words[word.char_start] = word
            if self._last_word is None or word.char_end >= self._last_word.char_end:
                self._last_word = word

    def _messages(self, payloads: list[bytes]) -> list[AudioMessage]:
        messages = []
        for payload in payloads:
            messages.append(AudioMessage(self.index, self.messages, self._samples, payload))
            self.messages += 1
            self._samples += len(payload) // 2
        self._unsent += messages
        return messages

    # ------------------------------------------------------------------------------------------ lag

    def skip(self, now_s: float, margin_ms: float) -> Skip | None:
        """What to leave out, None while the speech is near enough to its text or there is nothing to leave out.

        The lag is how long it takes until all text given so far has been heard.
        """
        if self.max_lag_ms is None or self.draft.is_waiting:
            return None
        ahead_ms, pace_ms, characters = self._backlog(now_s)
        if self.may_hurry:
            pace_ms /= MOST_HURRY
        lag_ms = ahead_ms + pace_ms * characters
        if lag_ms <= self.max_lag_ms:
            return None
        self.lag_ms = lag_ms
        fixed_ms = self.playout.bound_ms(now_s) + margin_ms
        begun = [word.char_end for word in self._words.values() if word.start_ms < fixed_ms]
        spoken_start = clinging_end(self.draft.spoken, [*self._words.values()], max(begun, default=0))
        start = self.draft.of_client(spoken_start)
        target = skip_target(self.draft.text, start, int(AIM * self.max_lag_ms / pace_ms))
        return None if target is None else Skip(spoken_start, target)

    def change_hurry(self, now_s: float) -> bool:
        """Adapts `hurry` to the lag, where it may; whether that changed it."""
        if not self.may_hurry or self.max_lag_ms is None or self.draft.is_waiting:
            return False
        ahead_ms, pace_ms, characters = self._backlog(now_s)
        lag_ms, before = ahead_ms + pace_ms * characters, self.hurry
        self.hurry = hurry(lag_ms, self.max_lag_ms, before)
        if self.hurry != before:
            self.lag_ms = lag_ms
        return self.hurry != before

    @property
    def most_ahead_ms(self) -> float:
        """Of audio before the listener: what is made already cannot be hurried any more."""
        return HURRY_FROM * self.max_lag_ms if self.may_hurry and self.max_lag_ms is not None else math.inf

    def _backlog(self, now_s: float) -> tuple[float, float, int]:
        """Audio (ms) and characters that are still to be heard, and how long a character takes without any hurry."""
        last = self._last_word
        spoken_to, spoken_ms = (last.char_end, last.end_ms + self._saved_ms) if last is not None else (0, 0.0)
        ahead_ms = self.playout.queued_ms - self.playout.bound_ms(now_s)
        return ahead_ms, ms_per_character(spoken_ms, spoken_to), self.draft.spoken_length - spoken_to

    # ------------------------------------------------------------------------------------------ account

    def account(self, now_s: float) -> Account:
        """What the listener has heard by now."""
        played_ms = self.playout.heard_ms(now_s)
        words = [*self._words.values()]
        char_end = heard_characters(self.draft.spoken, words, played_ms, is_finished=self.is_finished)
        spoken, unspoken = self.draft.split(char_end)
        # Where nothing was sent nothing was heard, and that is certain.
        is_exact = self.playout.acknowledged_ms is not None or self.playout.sent_ms == 0
        return Account(round(played_ms, 3), spoken, unspoken, char_end, "exact" if is_exact else "estimated")
