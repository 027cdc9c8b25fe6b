"""The native wire by section: tables, decoding, refusals, audio, keys."""

import dataclasses
import json
import time
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import errors
from engine.core import Policy
from realtime import protocol
from realtime.protocol import (
    CLIENT_MESSAGES,
    SERVER_MESSAGES,
    AudioFormat,
    AudioMessage,
    Cancel,
    ContextOpen,
    Error,
    ErrorCode,
    Ping,
    Played,
    ProtocolError,
    SessionStart,
    TextAppend,
    TextEnd,
    TextRevise,
    decode_audio,
    decode_client,
    decode_server,
    encode,
    key_from_subprotocols,
    key_subprotocol,
)


def refused(data: str | bytes) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        decode_client(data)
    return caught.value


class TestTables:
    def test_every_message_class_is_in_one_table(self) -> None:
        assert set(CLIENT_MESSAGES.values()) == set(get_args(protocol.ClientMessage))
        assert set(SERVER_MESSAGES.values()) == set(get_args(protocol.ServerMessage))
        assert not set(CLIENT_MESSAGES) & set(SERVER_MESSAGES)

    def test_every_engine_error_has_a_wire_code(self) -> None:
        classes = [value for value in vars(errors).values() if isinstance(value, type)]
        codes = {cls.code for cls in classes if issubclass(cls, errors.FootlightsError)}
        assert codes <= {str(code) for code in ErrorCode}

    def test_policies_are_the_engines(self) -> None:
        assert set(get_args(protocol.PolicyName)) == {policy.value for policy in Policy}

    def test_messages_are_frozen(self) -> None:
        with pytest.raises(dataclasses.FrozenInstanceError):
            Ping().id = "x"  # type: ignore[misc]


class TestDecode:
    def test_session_start_with_all_fields(self) -> None:
        text = (
            '{"type":"session.start","protocol":1,"voice":"bella","audio":{"encoding":"pcm_s16le","sample_rate":8000},'
            '"language":"en","words":false,"policy":"whole"}'
        )
        assert decode_client(text) == SessionStart(1, "bella", AudioFormat("pcm_s16le", 8000), "en", False, "whole")

    def test_defaults(self) -> None:
        assert decode_client('{"type":"session.start","protocol":1}') == SessionStart(1)
        assert decode_client('{"type":"text.end"}') == TextEnd("main")

    def test_null_is_absence(self) -> None:
        assert decode_client('{"type":"cancel","context":"a","played_ms":null}') == Cancel("a", None)

    def test_unknown_fields_are_ignored(self) -> None:
        assert decode_client('{"type":"ping","id":"1","colour":{"deep":[1]}}') == Ping("1")

    def test_bytes_are_text_too(self) -> None:
        assert decode_client('{"type":"text.append","text":"naïve 🙂"}'.encode()) == TextAppend("naïve 🙂")

    def test_whole_numbers_are_numbers(self) -> None:
        message = decode_client('{"type":"played","ms":120}')
        assert message == Played(120.0)

    def test_a_field_named_by_a_keyword(self) -> None:
        assert decode_client('{"type":"text.revise","from":3,"text":"x"}') == TextRevise("x", 3)
        assert json.loads(encode(TextRevise("x", 3)))["from"] == 3

    def test_escaped_pairs_are_one_character(self) -> None:
        assert decode_client('{"type":"text.append","text":"\\ud83d\\ude42"}') == TextAppend("🙂")

    @given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
    def test_text_comes_through_verbatim(self, text: str) -> None:
        assert decode_client(encode(TextAppend(text))) == TextAppend(text)

    @given(
        st.builds(
            ContextOpen,
            context=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=64),
            voice=st.none() | st.text("abc", min_size=1, max_size=9),
            policy=st.none() | st.sampled_from(["eager", "clause", "sentence", "whole"]),
        )
    )
    def test_round_trip(self, message: ContextOpen) -> None:
        assert decode_client(encode(message)) == message

    def test_none_is_left_out(self) -> None:
        assert json.loads(encode(Error("busy", "later"))) == {
            "type": "error",
            "code": "busy",
            "message": "later",
            "retryable": False,
            "terminal": False,
        }


class TestVersions:
    @pytest.mark.parametrize("version", ["2", "0", "-1", '"1"', "1.5", "true", "[1]"])
    def test_unknown_versions_are_refused_by_name(self, version: str) -> None:
        error = refused(f'{{"type":"session.start","protocol":{version},"audio":"in another form"}}')
        assert error.code is ErrorCode.UNSUPPORTED_PROTOCOL
        assert "supported: 1" in error.message

    def test_a_missing_version_is_a_missing_field(self) -> None:
        error = refused('{"type":"session.start"}')
        assert (error.code, error.message) == (ErrorCode.BAD_MESSAGE, "protocol is missing")


class TestRefusals:
    @pytest.mark.parametrize(
        "data",
        [
            "",
            "   ",
            "hello",
            "{",
            "[]",
            "null",
            "3",
            '"text"',
            "{}",
            '{"type":null}',
            '{"type":7}',
            '{"type":"ping"}{"type":"ping"}',
            "\x00\x01\x02",
            b"\xff\xfe\x00",
            '{"type":"played","ms":NaN}',
            '{"type":"played","ms":-Infinity}',
            '{"type":"played","ms":1e999}',
            '{"type":"played","ms":-1}',
            '{"type":"played","ms":"12"}',
            '{"type":"played","ms":true}',
            '{"type":"played"}',
            '{"type":"played","ms":' + "9" * 4000 + "}",
            '{"type":"played","ms":' + "9" * 6000 + "}",
            '{"type":"text.append"}',
            '{"type":"text.append","text":5}',
            '{"type":"text.append","text":["a"]}',
            '{"type":"text.append","text":"a","context":""}',
            '{"type":"text.append","text":"a","context":"' + "c" * 65 + '"}',
            '{"type":"text.append","text":"a","context":7}',
            '{"type":"text.append","text":"\\ud800"}',
            '{"type":"text.append","text":"a","\\udfff":1}',
            "\ud800",
            '{"type":"text.revise","text":"a","from":1.5}',
            '{"type":"session.start","protocol":1,"audio":[]}',
            '{"type":"session.start","protocol":1,"audio":{"encoding":"mp3"}}',
            '{"type":"session.start","protocol":1,"audio":{"sample_rate":7999}}',
            '{"type":"session.start","protocol":1,"audio":{"sample_rate":48001}}',
            '{"type":"session.start","protocol":1,"audio":{"sample_rate":24000.5}}',
            '{"type":"session.start","protocol":1,"words":1}',
            '{"type":"session.start","protocol":1,"policy":"fast"}',
            '{"type":"session.start","protocol":1,"policy":["eager"]}',
            '{"type":"ping","id":"' + "i" * 129 + '"}',
        ],
    )
    def test_bad_messages(self, data: str | bytes) -> None:
        assert refused(data).code is ErrorCode.BAD_MESSAGE

    def test_the_message_names_field_and_expectation(self) -> None:
        error = refused('{"type":"session.start","protocol":1,"audio":{"sample_rate":1}}')
        assert error.message == "audio.sample_rate must be 8000 to 48000, not 1"

    def test_the_context_is_named_if_it_can_be_read(self) -> None:
        assert refused('{"type":"text.append","context":"npc"}').context == "npc"
        assert refused('{"type":"text.append","context":"a","text":5}').context == "a"
        assert refused('{"type":"text.append","context":"a","text":"\\ud800"}').context == "a"
        assert refused('{"type":"text.sing","context":"a"}').context == "a"
        assert refused('{"context":"a"}').context == "a"
        assert refused('{"type":"text.append","context":[]}').context is None
        assert refused('{"type":"text.append","context":"\\ud800","text":"a"}').context is None
        assert refused('{"type":"text.sing","context":"' + "c" * 65 + '"}').context is None

    def test_unknown_types_are_refused_by_name(self) -> None:
        error = refused('{"type":"text.sing"}')
        assert error.code is ErrorCode.UNKNOWN_TYPE
        assert "text.sing" in error.message
        assert "text.append" in error.message

    def test_server_messages_are_not_for_the_server(self) -> None:
        assert refused('{"type":"pong"}').code is ErrorCode.UNKNOWN_TYPE

    def test_long_input_is_not_quoted_in_full(self) -> None:
        assert len(refused('{"type":"' + "x" * 60_000 + '"}').message) < 400
        assert len(refused('{"type":"session.start","protocol":"' + "x" * 60_000 + '"}').message) < 400

    @given(st.binary(max_size=300) | st.text(max_size=300))
    def test_garbage_never_raises_anything_else(self, data: str | bytes) -> None:
        try:
            decode_client(data)
        except ProtocolError:
            return

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        ),
        st.sampled_from(sorted(CLIENT_MESSAGES)),
        st.sampled_from(["context", "text", "ms", "protocol", "audio", "voice", "from", "played_ms", "id"]),
    )
    def test_any_json_in_any_field(self, value: object, type_name: str, field: str) -> None:
        try:
            decode_client(json.dumps({"type": type_name, "text": "a", "from": 1, "ms": 1, field: value}))
        except ProtocolError:
            return


class TestLimits:
    def test_size_is_counted_in_bytes(self) -> None:
        head, tail = '{"type":"text.append","text":"', '"}'
        room = protocol.MAX_CLIENT_MESSAGE_BYTES - len(head) - len(tail)
        assert decode_client(head + "a" * room + tail) == TextAppend("a" * room)
        assert refused(head + "a" * (room + 1) + tail).code is ErrorCode.MESSAGE_TOO_LARGE
        assert refused(head + "é" * (room // 2 + 1) + tail).code is ErrorCode.MESSAGE_TOO_LARGE

    def test_a_report_of_the_longest_text_fits(self) -> None:
        report = protocol.Cancelled("main", 0.0, "", "\x01" * 100_000, 0, "exact")
        assert decode_server(encode(report)) == report

    @pytest.mark.parametrize(
        "bomb",
        [
            "[" * 60_000,
            '{"a":' * 10_000,
            "[" * 30_000 + "]" * 30_000,
            '{"type":"ping","x":' + "[" * 20 + "]" * 20 + "}",
            '["\\"' * 15_000,
            '"' * 60_000,
            '\\"' * 30_000,
            "[]" * 20 + '"' + '\\"' * 30_000,
        ],
    )
    def test_bombs_are_refused_quickly(self, bomb: str) -> None:
        started_s = time.perf_counter()
        assert refused(bomb).code is ErrorCode.BAD_MESSAGE
        assert time.perf_counter() - started_s < 0.5

    def test_brackets_in_text_are_not_depth(self) -> None:
        text = '[{"' * 1000
        assert decode_client(json.dumps({"type": "text.append", "text": text})) == TextAppend(text)


class TestAudio:
    def test_header_layout(self) -> None:
        data = AudioMessage(0x0102, 0x01020304, 0x0102030405060708, b"\x01\x00\xff\x7f").encode()
        assert data.hex() == "01000201" + "04030201" + "0807060504030201" + "0100ff7f"

    @given(st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1), st.binary(max_size=64))
    def test_round_trip(self, index: int, sequence: int, first_sample: int, half: bytes) -> None:
        message = AudioMessage(index, sequence, first_sample, half + half)
        assert decode_audio(message.encode()) == message

    @pytest.mark.parametrize("data", [b"", b"\x01" * 15, AudioMessage(0, 0, 0, b"abc").encode()])
    def test_truncated(self, data: bytes) -> None:
        with pytest.raises(ProtocolError) as caught:
            decode_audio(data)
        assert caught.value.code is ErrorCode.BAD_MESSAGE

    def test_unknown_header_version(self) -> None:
        with pytest.raises(ProtocolError) as caught:
            decode_audio(b"\x02\x00" + bytes(16))
        assert caught.value.code is ErrorCode.UNSUPPORTED_PROTOCOL


class TestKeys:
    @given(st.text(st.characters(exclude_categories=["Cs"]), max_size=50))
    def test_round_trip_in_token_characters(self, key: str) -> None:
        name = key_subprotocol(key)
        assert all(c.isascii() and (c.isalnum() or c in "._-") for c in name)
        assert key_from_subprotocols(["footlights.v1", name]) == key

    @pytest.mark.parametrize(
        "offers", [[], ["footlights.v1"], ["footlights.key.!"], ["footlights.key._w"], ["footlights.key.é"]]
    )
    def test_no_readable_key(self, offers: list[str]) -> None:
        assert key_from_subprotocols(offers) is None
