import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.bench.timeline import AUDIBLE, Arrival, FirstSound, Timeline, replay

RATE = 1000  # one sample a millisecond


def sound(samples: int, level: float = 0.5) -> Arrival:
    return Arrival(0.0, np.full(samples, level, np.float32))


def arrivals(*pairs: tuple[float, int]) -> list[Arrival]:
    """(arrival in ms, length in ms)."""
    return [Arrival(at_ms / 1000, sound(samples).samples) for at_ms, samples in pairs]


class TestReplay:
    def test_messages_on_time_never_starve(self) -> None:
        playback = replay(arrivals((100, 50), (150, 50), (200, 50)), RATE)
        assert playback.is_applicable
        assert playback.underruns == 0
        assert playback.longest_s == 0

    def test_each_pause_is_counted_with_its_length(self) -> None:
        playback = replay(arrivals((0, 50), (80, 50), (100, 50), (200, 50)), RATE)
        assert playback.starves_s == pytest.approx([0.030, 0.020])
        assert playback.longest_s == pytest.approx(0.030)

    def test_a_pause_moves_all_that_follows(self) -> None:
        """After 30 ms late, the third message is due at 130, not at 100."""
        assert replay(arrivals((0, 50), (80, 50), (130, 50)), RATE).underruns == 1
        assert replay(arrivals((0, 50), (80, 50), (131, 50)), RATE).underruns == 2

    def test_a_burst_pays_for_a_later_gap(self) -> None:
        assert replay(arrivals((0, 50), (1, 50), (2, 50), (149, 50)), RATE).underruns == 0

    def test_prebuffer_covers_what_is_shorter(self) -> None:
        late = arrivals((0, 50), (140, 50), (290, 50))
        assert replay(late, RATE).underruns == 2
        assert replay(late, RATE, prebuffer_s=0.1).starves_s == pytest.approx([0.090])

    @pytest.mark.parametrize("count", [0, 1])
    def test_too_few_messages_are_no_good_result(self, count: int) -> None:
        assert not replay(arrivals((0, 50), (50, 50))[:count], RATE).is_applicable

    @given(st.lists(st.tuples(st.integers(0, 500), st.integers(1, 100)), min_size=2, max_size=20))
    def test_playing_ends_when_audio_and_pauses_are_over(self, steps: list[tuple[int, int]]) -> None:
        at_ms, pairs = 0, []
        for gap, length in steps:
            at_ms += gap
            pairs.append((float(at_ms), length))
        stream = arrivals(*pairs)
        total_s = sum(len(arrival.samples) for arrival in stream) / RATE
        end_s = stream[0].at_s + total_s + sum(replay(stream, RATE).starves_s)
        latest_s = max(
            arrival.at_s + sum(len(later.samples) for later in stream[index:]) / RATE
            for index, arrival in enumerate(stream)
        )
        assert end_s == pytest.approx(latest_s)


class TestFirstSound:
    def timeline(self, *parts: Arrival) -> Timeline:
        return Timeline(RATE, arrivals=list(parts))

    def test_silence_counts_for_the_listener_but_not_for_the_byte(self) -> None:
        quiet = np.array([0.0, AUDIBLE, -AUDIBLE, 0.0], np.float32)
        loud = np.array([0.0, -0.5, 0.5, 0.5], np.float32)
        made = self.timeline(Arrival(1.0, quiet), Arrival(1.003, loud)).first_sound
        assert made is not None
        assert (made.byte_s, made.audible_s, made.silence_s) == (1.0, 1.003, 0.005)
        assert made.heard_s == pytest.approx(1.005)

    def test_a_late_message_delays_what_is_heard(self) -> None:
        quiet, loud = np.zeros(50, np.float32), np.full(50, 0.5, np.float32)
        made = self.timeline(Arrival(1.0, quiet), Arrival(1.2, loud)).first_sound
        assert made is not None
        assert made.heard_s == pytest.approx(1.2)
        assert made.silence_s == 0.05

    def test_lateness_of_silence_before_counts_too(self) -> None:
        """A pause in the silence is not made up for by a message that came early after it."""
        quiet, loud = np.zeros(50, np.float32), np.full(50, 0.5, np.float32)
        made = self.timeline(Arrival(1.0, quiet), Arrival(1.2, quiet), Arrival(1.2, loud)).first_sound
        assert made is not None
        assert made.heard_s == pytest.approx(1.25)

    def test_later_messages_change_nothing(self) -> None:
        first = sound(50)
        made = self.timeline(first, Arrival(9.0, sound(50).samples)).first_sound
        assert made == FirstSound(0.0, 0.0, 0.0, 0.0)

    def test_silence_alone_was_never_heard(self) -> None:
        assert self.timeline(sound(50, 0.0)).first_sound is None
        assert self.timeline().first_sound is None


def test_gaps_and_lateness() -> None:
    timeline = Timeline(RATE, arrivals=arrivals((0, 50), (80, 50), (100, 20)))
    assert timeline.gaps_s == pytest.approx([0.080, 0.020])
    assert timeline.lateness_s == pytest.approx([0.030, -0.030])
    assert timeline.audio_s == pytest.approx(0.120)
