from clients.commands.playout import BYTES_PER_SAMPLE, RESUME_MS, START_MS, PlayoutBuffer

RATE = 1000  # one sample a millisecond


def pcm(samples: int) -> bytes:
    return b"\1\1" * samples


def sounding(out: bytes) -> int:
    """How many samples of speech are in there; they come first."""
    count = len(out.rstrip(b"\0")) // BYTES_PER_SAMPLE
    assert out == pcm(count).ljust(len(out), b"\0")
    return count


def test_starts_when_a_little_is_there() -> None:
    buffer = PlayoutBuffer(RATE)
    buffer.write(pcm(START_MS - 1))
    assert sounding(buffer.read(10)) == 0
    buffer.write(pcm(1))
    assert sounding(buffer.read(10)) == 10
    assert buffer.played_samples == 10
    assert buffer.buffered_samples == START_MS - 10


def test_running_dry_counts_once_and_waits_for_more() -> None:
    buffer = PlayoutBuffer(RATE)
    buffer.write(pcm(START_MS))
    assert [sounding(buffer.read(30)) for _ in range(4)] == [30, START_MS - 30, 0, 0]
    assert buffer.dry_count == 1
    buffer.write(pcm(RESUME_MS - 1))
    assert sounding(buffer.read(10)) == 0
    buffer.write(pcm(1))
    assert sounding(buffer.read(10)) == 10


def test_the_end_is_no_running_dry_and_plays_what_is_left() -> None:
    buffer = PlayoutBuffer(RATE)
    buffer.write(pcm(START_MS // 2))
    buffer.end()
    assert sounding(buffer.read(START_MS)) == START_MS // 2
    assert sounding(buffer.read(START_MS)) == 0
    assert buffer.dry_count == 0


def test_clearing_is_silence() -> None:
    buffer = PlayoutBuffer(RATE)
    buffer.write(pcm(2 * START_MS))
    buffer.read(10)
    buffer.clear()
    assert sounding(buffer.read(10)) == 0
    assert buffer.played_samples == 10
    assert buffer.buffered_samples == 0
