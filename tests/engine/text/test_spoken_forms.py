"""Written forms and how they are said."""

import pytest

from engine.text.front import TextFront, explain
from tests.engine.text.reading import lexicon_of, said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is 98.6 degrees, or 22,1.", "It is ninety eight point six degrees,/ or twenty two comma one.//"),
        ("Version 0.12.1 and v2.0.", "Version zero point twelve point one and version two point zero.//"),
        (
            "We have 1,234 or 1205 or 12 or .5.",
            "We have one thousand two hundred and thirty four or twelve o five or twelve or point five.//",
        ),
        ("Codes 007 and 1234567.", "Codes zero zero seven and one two three four five six seven.//"),
        ("1000000 or 1,000,000", "one million or one million.//"),
        ("In 1999, 2005 and the 1990s.", "In nineteen ninety nine,/ two thousand five and the nineteen nineties.//"),
        ("The '90s were 1900.", "The nineties were nineteen hundred.//"),
        ("the 21st and 100th", "the twenty first and one hundredth.//"),
        ("50% off, 5-10%.", "fifty percent off,/ five to ten percent.//"),
        ("From 1990-2000, pages 3–5.", "From nineteen ninety to two thousand,/ pages three to five.//"),
        ("-3.5, +4, ~50, ≥5.", "minus three point five,/ plus four,/ about fifty,/ at least five.//"),
        ("$20, $5.99, $0.50, $1.", "twenty dollars,/ five dollars and ninety nine cents,/ fifty cents,/ one dollar.//"),
        (
            "$1.5 million and $5M and $5 now",
            "one point five million dollars and five million dollars and five dollars now.//",
        ),
        (
            "€20 or 20€ or £1 or €29,99",
            "twenty euros or twenty euros or one pound or twenty nine euros and ninety nine cents.//",
        ),
        ("3:45, 10:00, 3:07 pm, 3pm.", "three forty five,/ ten o'clock,/ three o seven p.m.,/ three p.m..//"),
        ("On May 5, 2026 we met.", "On May fifth,/ twenty twenty six we met.//"),
        ("On 5 May and Jan. 3 and Jan 3.", "On the fifth of May and January third and January third.//"),
        ("On 12/25/2024.", "On december twenty fifth twenty twenty four.//"),
        ("Call 555-123-4567.", "Call five five five, one two three, four five six seven.//"),
        ("Call (555) 123-4567.", "Call five five five one two three, four five six seven.//"),
        ("Call +1 555 123 4567.", "Call plus one five five five one two three four five six seven.//"),
        ("2 + 2 = 4.", "two plus two equals four.//"),
        ("5 - 3 = 2 and 2*3 and 10 / 2.", "five minus three equals two and two times three and ten divided by two.//"),
        ("x² + y^2", "x squared plus y squared.//"),
        ("5 < 6 and 7 > 3.", "five is less than six and seven is greater than three.//"),
        ("12 km at 100 km/h, 1 km.", "twelve kilometers at one hundred kilometers per hour,/ one kilometer.//"),
        (
            "5kg, 20°C, -5 °F, 16 GB.",
            "five kilograms,/ twenty degrees Celsius,/ minus five degrees Fahrenheit,/ sixteen gigabytes.//",
        ),
        ("5 ft 10 in. tall", "five feet ten inches.// tall.//"),
        ("5 ft. tall, 6 lbs. of it. 3 km. Then", "five feet tall,/ six pounds of it.// three kilometers.// Then.//"),
        ("COVID-19, B2B, H2O, 4K, MP3.", "COVID nineteen,/ B two B,/ H two O,/ four K,/ MP three.//"),
        (
            "1/2 cup, 3 1/2 cups, 2½ of 3/4.",
            "one half cup,/ three and a half cups,/ two and a half of three quarters.//",
        ),
        ("3/8, 1/3, 8/10, 5/3", "three eighths,/ one third,/ eight out of ten,/ five over three.//"),
        ("a 55-year-old, 24/7", "a fifty five year old,/ twenty four seven.//"),
        ("World War II and Henry VIII.", "World War two and Henry the eighth.//"),
        ("C++ and C# and .NET and Node.js.", "C plus plus and C sharp and dot net and Node dot js.//"),
        ("AT&T, Q&A, rock & roll, w/o.", "AT and T,/ Q and A,/ rock and roll,/ without.//"),
        ("#5 and @me and item(s).", "number five and at me and items.//"),
        ("π is about 3.14, 5 µm.", "pi is about three point one four,/ five micrometers.//"),
        ("snake_case café naïve", "snake case cafe naive.//"),
        ("Mail user@example.com, now.", "Mail user at example dot com,/ now.//"),
        ("See https://example.com/docs/intro?x=1#y.", "See example dot com slash docs slash intro.//"),
        ("See (www.test.org) and <https://foo.io>.", "See test dot org and foo dot io.//"),
        ("At example.com. Then 10.0.0.1.", "At example dot com.// Then ten dot zero dot zero dot one.//"),
        ("8...", "eight...//"),
        (
            "10%–20%, $1.5M–$2M, 9am–5pm, 9:30-10:45.",
            "ten percent to twenty percent,/ one point five million dollars to two million dollars,/ "
            "nine a.m. to five p.m.,/ nine thirty to ten forty five.//",
        ),
        ("Mon–Fri, Jan-Mar.", "Monday to Friday,/ January to March.//"),
        (
            "2026-01-05 and 2026-11-30T09:05:00Z.",
            "January fifth twenty twenty six and November thirtieth twenty twenty six at nine o five U.T.C..//",
        ),
        (
            "€1.234,56, ₹1,00,000, $20/month.",
            "one thousand two hundred and thirty four euros and fifty six cents,/ one hundred thousand rupees,/ "
            "twenty dollars per month.//",
        ),
        ("1e-5, 3:1, §5.", "one times ten to the minus five,/ three to one,/ section five.//"),
        ("№7, >=3.", "number seven,/ at least three.//"),
        ("v1.2.3-beta, 1.0-rc1.", "version one point two point three beta,/ one point zero rc one.//"),
        ("10.0.0.1:80", "ten dot zero dot zero dot one port eight zero.//"),
        ("Call 911 or +49 30 123456.", "Call nine one one or plus four nine three zero one two three four five six.//"),
        ("Vol. II, min. 5, max. 10.", "volume two,/ minimum five,/ maximum ten.//"),
    ],
)  # fmt: skip
def test_spoken_form(text: str, expected: str) -> None:
    assert said(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Dr. Smith paid 3.14 dollars at example.com.",
            "Doctor Smith paid three point one four dollars at example dot com.//",
        ),
        ("J.K. Rowling and J. Smith. Vitamin C. The end.", "J.K. Rowling and J Smith.// Vitamin C.// The end.//"),
        (
            "At 9 a.m. we go. At 5 p.m. Bring it. By 5 p.m. Eastern.",
            "At nine a.m. we go.// At five p.m..// Bring it.// By five p.m. Eastern.//",
        ),
        ("The U.S. Army in the U.S. The end.", "The U.S. Army in the U.S..// The end.//"),
        ("Cats, dogs, etc. They run, e.g. now.", "Cats,/ dogs,/ etcetera.// They run,/ for example now.//"),
        ("No. I won't. No. 5 is.", "No.// I won't.// number five is.//"),
        ("Acme Inc. is here. Acme Inc. The end.", "Acme incorporated is here.// Acme incorporated.// The end.//"),
        ("12 Main St. is near St. Louis.", "twelve Main Street is near Saint Louis.//"),
        ("I met Jan. She left in Jan. We go.", "I met Jan.// She left in January.// We go.//"),
        ("Mr. and Mrs. X vs. Prof. Y Jr. ran.", "Mister and Mrs. X versus Professor Y junior ran.//"),
        ("Fig. 3 and p. 12 and vol. 2.", "figure three and page twelve and volume two.//"),
    ],
)  # fmt: skip
def test_a_full_stop_of_an_abbreviation_ends_a_sentence_only_when_the_next_word_says_so(
    text: str, expected: str
) -> None:
    assert said(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Wait... what? No… Yes! Go: now; or, never.", "Wait.../ what?// No...// Yes!// Go:/ now;/ or,/ never.//"),
        ("one—two – three - four -- five", "one,/ two,/ three,/ four,/ five.//"),
        ("“What?” he asked. “Go!” Then", "What?/ he asked.// Go!// Then.//"),
        ("end.Next word.Then what?No apples,oranges", "end.// Next word.// Then what?// No apples,/ oranges.//"),
        ("Hello ! Yes , no", "Hello!// Yes,/ no.//"),
        ("(Really.) 'Quoted' dogs' 'tis", "Really.// Quoted dogs' 'tis.//"),
        ("Wow!!!!!! What?!?!?!", "Wow!!!// What?!?//"),
        ("one\n\ntwo\nThree\nand four", "one.// two,/ Three and four.//"),
        (
            "a long line of prose that was wrapped by an editor at eighty\nColumns here",
            "a long line of prose that was wrapped by an editor at eighty Columns here.//",
        ),
    ],
)  # fmt: skip
def test_boundaries(text: str, expected: str) -> None:
    assert said(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "…",
        "—",
        "*",
        "🎉",
        "🎉👍🏽✅⚙️",
        "?!",
        "...",
        "[laughs]",
        "<b></b>",
        "┌──┐│└─┘",
        "+",
        "= >",
        "\n\n\n",
        "**",
        "😀 … — *",
        ":)",
        "<3",
        "\x00\x07",
        "\u200b",
    ],
)
def test_text_without_letters_or_digits_is_silent(text: str) -> None:
    assert explain(text) == []


def test_scripts_that_the_voice_cannot_read_are_counted_and_left_out() -> None:
    front = TextFront()
    words = [*front.append("Привет мир, hello 我有AI助手。ok 1.23 м"), *front.finish()]
    assert [word.spoken for word in words] == ["hello", "AI", "ok", "one point two three"]
    assert front.skipped == 5


def test_a_lexicon_respells_words_before_any_rule() -> None:
    front = TextFront(lexicon=lexicon_of({"Siobhan": "shivawn", "st": "saint", "GIF": "jif"}))
    words = [*front.append("Siobhan sent a GIF, too bad."), *front.finish()]
    assert [word.spoken for word in words] == ["shivawn", "sent", "a", "jif", "too", "bad"]
    assert [word.text for word in words][0] == "Siobhan"
