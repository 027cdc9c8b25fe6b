"""What a session asks of its driver."""

from dataclasses import dataclass

from realtime.commands import Command
from realtime.protocol import AudioMessage, ServerMessage


@dataclass(frozen=True)
class Send:
    """Send this message."""

    message: ServerMessage


@dataclass(frozen=True)
class SendAudio:
    """Send this audio; call `Session.audio_sent` when it cannot be dropped any more."""

    audio: AudioMessage


@dataclass(frozen=True)
class DropAudio:
    """Throw away the unsent audio of this context index from ``first_sample`` on."""

    index: int
    first_sample: int = 0


@dataclass(frozen=True)
class Submit:
    """Give the command to the bridge, with `Session.engine_event` listening."""

    command: Command


@dataclass(frozen=True)
class Close:
    """Send what is queued, then close the connection."""

    code: int
    reason: str


Action = Send | SendAudio | DropAudio | Submit | Close
