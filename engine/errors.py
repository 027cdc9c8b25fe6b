"""The exception tree. Every class has the wire code a client sees.

FootlightsError
├── ConfigError             a configuration the engine would compute differently, or cannot read
├── WeightsError            a checkpoint whose names, shapes or dtypes do not fit
├── AudioError              a recording that cannot be encoded
├── StateError              memory asked for something its kind cannot do, such as taking a row back
├── TextError               text that cannot be spoken as given
│   ├── StructuralTokenError    prompt structure typed as text
│   └── TextTooLongError
├── UnknownVoiceError       the message lists the voices
├── UnknownLanguageError
├── UnknownUtteranceError
├── UtteranceStateError     text after the end, an id used twice
└── RevisionError           a revision of text that is not there
"""


class FootlightsError(Exception):
    """Base of everything this project raises on purpose."""

    code = "internal"
    retryable = False


class ConfigError(FootlightsError):
    """A configuration that is unreadable or would silently compute something else."""

    code = "bad_config"


class WeightsError(FootlightsError):
    """A checkpoint that does not fit its configuration; names the first mismatch."""

    code = "bad_weights"


class AudioError(FootlightsError):
    """A recording that cannot be encoded; the message says what is wrong with it."""

    code = "bad_audio"


class StateError(FootlightsError):
    """Decoder memory was asked for something its kind cannot do."""

    code = "bad_memory"


class TextError(FootlightsError):
    """Text that cannot be spoken as given."""

    code = "bad_text"


class StructuralTokenError(TextError):
    """The text contains a token that structures the prompt, such as ``<|im_end|>``."""

    code = "structural_token"


class TextTooLongError(TextError):
    """More text than one utterance may hold."""

    code = "text_too_long"


class UnknownVoiceError(FootlightsError):
    """No such voice; the message lists those there are."""

    code = "unknown_voice"


class UnknownLanguageError(FootlightsError):
    """A language the model does not speak; the message lists those it does."""

    code = "unknown_language"


class UnknownUtteranceError(FootlightsError):
    """No utterance of that id is open."""

    code = "unknown_utterance"


class UtteranceStateError(FootlightsError):
    """An operation the utterance's state forbids: text after the end, an id used twice."""

    code = "bad_state"


class RevisionError(FootlightsError):
    """A revision that starts beyond the end of the text."""

    code = "bad_revision"
