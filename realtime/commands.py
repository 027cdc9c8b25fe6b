"""What crosses the pipe between the gateway and the worker process. Plain data, picklable, nothing else."""

from dataclasses import dataclass, field

from engine.core import EngineEvent, Explanation, ModelInfo, Recording, Tally, Utterance

# ---------------------------------------------------------------------------------------------- gateway to worker


@dataclass(frozen=True)
class Start:
    """First command of a worker: make the engine. ``arguments`` go to its factory as keywords."""

    arguments: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Add:
    """Begin an utterance."""

    utterance: Utterance

    @property
    def utterance_id(self) -> str:
        """Of the utterance that begins."""
        return self.utterance.utterance_id


@dataclass(frozen=True)
class AppendText:
    """More text; ``edit_index`` counts the appends and revisions of the utterance, a `Rejected` names it."""

    utterance_id: str
    text: str
    edit_index: int


@dataclass(frozen=True)
class Revise:
    """Other text from character ``start`` on: `Engine.revise`. Answered by a `core.Revised` or a `Rejected`.

    ``length``: of the utterance's text, as the gateway knows it. Where an append was refused meanwhile it is another,
    and the answer is ``Rejected(code="stale")``.
    """

    utterance_id: str
    start: int
    text: str
    heard_ms: float
    length: int
    edit_index: int


@dataclass(frozen=True)
class Flush:
    """Speak what is there without waiting for more text."""

    utterance_id: str


@dataclass(frozen=True)
class Finish:
    """No more text will come."""

    utterance_id: str


@dataclass(frozen=True)
class Abort:
    """Stop and forget."""

    utterance_id: str


@dataclass(frozen=True)
class Pause:
    """Make no more audio until `Resume`: the listener has enough or cannot take it."""

    utterance_id: str


@dataclass(frozen=True)
class Resume:
    """End of a `Pause`."""

    utterance_id: str


@dataclass(frozen=True)
class Hurry:
    """Speak from now on ``speed`` times as fast as the text asks for: the speech is behind it."""

    utterance_id: str
    speed: float


@dataclass(frozen=True)
class AddVoice:
    """Make a voice of recordings; a `VoiceAnswer` of that ``request`` follows, seconds later."""

    request: int
    name: str
    recordings: tuple[Recording, ...]


@dataclass(frozen=True)
class RemoveVoice:
    """Delete a voice; a `VoiceAnswer` follows."""

    request: int
    name: str


@dataclass(frozen=True)
class LookAtVoices:
    """Asks which voices there are: the next `Report` has the model's ``info``."""


@dataclass(frozen=True)
class Explain:
    """How would ``text`` be read for ``utterance``? An `Explained` follows, or a `Failed`; nothing is spoken."""

    utterance: Utterance
    text: str

    @property
    def utterance_id(self) -> str:
        """Of the utterance that is none."""
        return self.utterance.utterance_id


@dataclass(frozen=True)
class Probe:
    """Asks for a sign of life: the next `Report` carries ``number``."""

    number: int


@dataclass(frozen=True)
class Stop:
    """Leave the loop and exit."""


VoiceCommand = AddVoice | RemoveVoice | LookAtVoices
Command = Add | AppendText | Revise | Flush | Finish | Abort | Pause | Resume | Hurry | Explain

STALE = "stale"
"""Code of a revision whose ``length`` was another: to be made anew."""

# ---------------------------------------------------------------------------------------------- worker to gateway


@dataclass(frozen=True)
class Imported:
    """The code is loaded; the worker waits for `Start`."""


@dataclass(frozen=True)
class Ready:
    """The engine is made and warm."""

    info: ModelInfo
    warm_s: float


@dataclass(frozen=True)
class StartFailed:
    """The engine could not be made; the worker exits."""

    message: str


@dataclass(frozen=True)
class Rejected:
    """One append or revision was refused; the utterance lives on as if it had not been asked for."""

    utterance_id: str
    edit_index: int
    code: str
    message: str


@dataclass(frozen=True)
class Explained:
    """Answer to an `Explain`."""

    utterance_id: str
    explanation: Explanation


WorkerEvent = EngineEvent | Rejected | Explained


@dataclass(frozen=True)
class VoiceAnswer:
    """How an `AddVoice` or `RemoveVoice` ended; ``code`` is the wire code of its error, None: it is done."""

    request: int
    code: str | None = None
    message: str = ""
    notes: tuple[str, ...] = ()
    """On a voice that was made: what was allowed but will be heard."""


@dataclass(frozen=True)
class Report:
    """What one turn of the worker's loop brought."""

    events: tuple[WorkerEvent, ...] = ()
    step_s: float | None = None
    """Time spent in ``Engine.step``; None if there was nothing to do."""
    probe: int | None = None
    answers: tuple[VoiceAnswer, ...] = ()
    info: ModelInfo | None = None
    """The model, if its voices have changed or were asked for."""
    tally: Tally | None = None
    """What this turn added to the engine's, if anything."""
