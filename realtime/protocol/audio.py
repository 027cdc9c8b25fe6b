"""Binary messages: samples and their place in a context."""

import struct
from dataclasses import dataclass, replace

from realtime.protocol.errors import ErrorCode, ProtocolError

AUDIO_HEADER = struct.Struct("<HHIQ")
AUDIO_HEADER_VERSION = 1


@dataclass(frozen=True)
class AudioMessage:
    """One binary message: 16 bytes of little-endian header ``<HHIQ``, then the samples (pcm_s16le, mono).

    Header: header version (1), context index (`AudioStart.index`), sequence number (0, 1, .. per context), position of
    the first sample in the context at the session's rate.
    """

    index: int
    sequence: int
    first_sample: int
    payload: bytes

    @property
    def end(self) -> int:
        """Position after the last sample."""
        return self.first_sample + len(self.payload) // 2

    def until(self, position: int) -> "AudioMessage | None":
        """Without the samples from that position on; None if none is left."""
        if position <= self.first_sample:
            return None
        return (
            self if position >= self.end else replace(self, payload=self.payload[: 2 * (position - self.first_sample)])
        )

    def encode(self) -> bytes:
        """The bytes on the wire."""
        header = AUDIO_HEADER.pack(AUDIO_HEADER_VERSION, self.index, self.sequence, self.first_sample)
        return header + self.payload


def decode_audio(data: bytes) -> AudioMessage:
    """The binary message.

    Raises:
        ProtocolError: too short, an unknown header version, half a sample.
    """
    if len(data) < AUDIO_HEADER.size or len(data) % 2:
        raise ProtocolError(ErrorCode.BAD_MESSAGE, f"an audio message of {len(data)} bytes: no header or half a sample")
    version, index, sequence, first_sample = AUDIO_HEADER.unpack_from(data)
    if version != AUDIO_HEADER_VERSION:
        raise ProtocolError(
            ErrorCode.UNSUPPORTED_PROTOCOL,
            f"audio header version {version} is not supported; supported: {AUDIO_HEADER_VERSION}",
        )
    return AudioMessage(index, sequence, first_sample, data[AUDIO_HEADER.size :])
