"""Text format and lexicon on their way to the engine, and notices on their way back."""

import pytest

from engine.core import Failed, LexiconEntry, Notice, TextFormat, Utterance
from realtime.commands import Add
from realtime.protocol import (
    ContextOpen,
    Error,
    ErrorCode,
    Pronunciation,
    SessionReady,
    SessionStart,
    TextAppend,
    TextNotice,
)
from tests.realtime.stage import Stage

GIF, SIOBHAN = Pronunciation("GIF", say="jif"), Pronunciation("Siobhan", ipa="ʃɪˈvɔːn")


def added(stage: Stage) -> list[Utterance]:
    return [command.utterance for command in stage.commands if isinstance(command, Add)]


def test_markdown_without_a_lexicon_is_what_nobody_asks_for() -> None:
    stage = Stage().start()
    stage.receive(TextAppend("Hello"))
    assert [(u.text_format, u.lexicon) for u in added(stage)] == [(TextFormat.MARKDOWN, ())]


def test_a_context_has_the_format_and_the_words_of_its_session_unless_it_has_its_own() -> None:
    stage = Stage().start(SessionStart(1, text_format="ssml", lexicon=(GIF, SIOBHAN)))
    own = Pronunciation("GIF", say="ghif")
    stage.receive(ContextOpen("a"), ContextOpen("b", text_format="plain", lexicon=(own,)))
    first, second = added(stage)
    siobhan = LexiconEntry("Siobhan", ipa="ʃɪˈvɔːn")
    assert (first.text_format, first.lexicon) == (TextFormat.SSML, (LexiconEntry("GIF", "jif"), siobhan))
    assert (second.text_format, set(second.lexicon)) == (TextFormat.PLAIN, {LexiconEntry("GIF", "ghif"), siobhan})


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (Pronunciation("a", say="a"), "never ends"),
        (Pronunciation("a"), "one of 'say' and 'ipa'"),
        (Pronunciation("a", ipa="Ж"), "no sound this voice knows"),
    ],
)
def test_a_bad_lexicon_is_refused_before_anything_is_spoken(entry: Pronunciation, told: str) -> None:
    stage = Stage()
    stage.receive(SessionStart(1, lexicon=(entry,)))
    (error,) = stage.messages
    assert isinstance(error, Error)
    assert (error.code, error.terminal) == (ErrorCode.BAD_LEXICON, False)
    assert told in error.message
    stage.messages.clear()
    stage.receive(SessionStart(1))
    assert isinstance(stage.messages[0], SessionReady)
    stage.messages.clear()
    stage.receive(ContextOpen("a", lexicon=(entry,)))
    (error,) = stage.messages
    assert isinstance(error, Error)
    assert (error.code, error.context, error.terminal) == (ErrorCode.BAD_LEXICON, "a", True)
    assert added(stage) == []


def test_a_notice_is_told_and_ends_nothing() -> None:
    stage = Stage().start()
    stage.receive(TextAppend("Hello"))
    (utterance,) = added(stage)
    stage.perform(stage.session.engine_event(Notice(utterance.utterance_id, "character 3: no")))
    assert stage.messages == [TextNotice("main", "character 3: no")]
    stage.perform(stage.session.engine_event(Failed(utterance.utterance_id, "internal", "x")))
    stage.perform(stage.session.engine_event(Notice(utterance.utterance_id, "late")))
    assert TextNotice("main", "late") not in stage.messages
