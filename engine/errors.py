"""The exception tree. Every class has the wire code a client sees.

FootlightsError
├── ConfigError             a configuration the engine would compute differently, or cannot read
├── WeightsError            a checkpoint whose names, shapes or dtypes do not fit
│   └── UnsupportedFormatError  weights stored in a way that is not read; the message lists those that are
├── DownloadError           a model that could not be fetched; the message says what can be done
├── StateError              memory asked for something its kind cannot do, such as taking a row back
├── TextError               text that cannot be spoken as given
│   ├── StructuralTokenError    prompt structure typed as text
│   └── TextTooLongError
├── LexiconError            a pronunciation that cannot be used: the message names the entry
├── UnknownVoiceError       the message lists the voices
├── VoiceError              a voice's name or file that is unfit
│   ├── ForeignVoiceError       made for another model
│   ├── VoiceExistsError
│   └── NoCloningError          a model with learned voices alone
├── ClipError               a recording no voice can be made of; the message names the limit
├── UnknownLanguageError
├── UnknownUtteranceError
├── UtteranceStateError     text after the end, an id used twice
├── RevisionError           a revision of text that is not there
└── SpeechError             the model gave something that is no speech
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


class UnsupportedFormatError(WeightsError):
    """Weights stored in a way that is not read; the message lists the ways that are."""

    code = "unsupported_format"


class DownloadError(FootlightsError):
    """A model that could not be fetched; the message says what can be done."""

    code = "download_failed"


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


class LexiconError(FootlightsError):
    """A lexicon with an entry that cannot be used, or that never ends, or too many."""

    code = "bad_lexicon"


class UnknownVoiceError(FootlightsError):
    """No such voice; the message lists those there are."""

    code = "unknown_voice"


class VoiceError(FootlightsError):
    """A voice's name is not allowed, or its file is damaged."""

    code = "bad_voice"


class ForeignVoiceError(VoiceError):
    """A voice made for another model; the message says how to make it anew."""

    code = "foreign_voice"


class VoiceExistsError(VoiceError):
    """A voice of that name is there already."""

    code = "voice_exists"


class NoCloningError(VoiceError):
    """The model cannot take a voice from a recording."""

    code = "no_cloning"


class ClipError(FootlightsError):
    """A recording that no voice can be made of; the message names the limit."""

    code = "bad_clip"


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


class SpeechError(FootlightsError):
    """A turn was too short for its text, stood still, dragged or did not end, and could not be made again."""

    code = "bad_speech"
    retryable = True
