"""Words of one spelling and two sounds: which one is said, by the words around them."""

import pytest

from engine.text.front import TextFront, explain

VERBS = {
    "live": "lˈɪv", "lives": "lˈɪvz", "use": "jˈuz", "uses": "jˈuzᵻz", "record": "ɹəkˈɔɹd", "close": "klˈOz",
    "present": "pɹizˈɛnt", "separate": "sˈɛpəɹˌAt", "object": "əbʤˈɛkt", "produce": "pɹədˈus", "refuse": "ɹəfjˈuz",
    "excuse": "ɪkskjˈuz", "tear": "tˈɛɹ", "wind": "wˈInd", "permit": "pəɹmˈɪt", "estimate": "ˈɛstəmˌAt",
    "contract": "kəntɹˈækt", "abuse": "əbjˈuz", "house": "hˈWz", "project": "pɹəʤˈɛkt", "increase": "ɪnkɹˈis",
    "read": "ɹˈɛd", "projects": "pɹəʤˈɛkts", "subject": "səbʤˈɛkt", "combine": "kəmbˈIn",
}  # fmt: skip
OTHERS = {
    "live": "lˈIv", "lives": "lˈIvz", "use": "jˈus", "uses": "jˈusᵻz", "record": "ɹˈɛkəɹd", "close": "klˈOs",
    "present": "pɹˈɛzᵊnt", "separate": "sˈɛpəɹət", "object": "ˈɑbʤəkt", "produce": "pɹˈOdˌus", "refuse": "ɹˈɛfjˌus",
    "excuse": "ɪkskjˈus", "tear": "tˈɪɹ", "wind": "wˈɪnd", "permit": "pˈɜɹmɪt", "estimate": "ˈɛstəmət",
    "contract": "kˈɑntɹˌækt", "abuse": "əbjˈus", "house": "hˈWs", "project": "pɹˈɑʤˌɛkt", "increase": "ˈɪnkɹˌis",
    "read": "ɹˈid", "projects": "pɹˈɑʤˌɛkts", "subject": "sˈʌbʤɛkt", "content": "kˈɑntɛnt",
    "deliberate": "dəlˈɪbəɹət", "invalid": "ɪnvˈælɪd",
}  # fmt: skip

AS_VERBS = """
I *live* in London
We *live* here
They *live* well
who *live*
people who *live* in towns
the people *live*
The people *live* in tents
Where do you *live*?
to really *live* for
She used to *live* here
He doesn't *live* here
I no longer *live* there
They have to *live* and we work
*Live* your life
He *lives* in London
My sister *lives* in Leeds
Mary *lives* with him
everyone who *lives* here
We *use* it
I *use* it
you *use*
children *use* it
children *use*
Do not *use* it
DO NOT *USE*
Don't *use* it
I'll *use*
I'd *use* that
We always *use* soap
They really *use* it
*Use* the door
Never *use* it
*Use* caution
Please, *use* the door
If you can, *use* it
Let me *use* it
Did he *use* it?
The companies *use* a key
and *use* it
She *uses* it
The company *uses* the road
Please *record* it
I *record* music
*Record* the call
Will you *record* this?
*Close* the door
They *close* at six
Can you *close* it?
They *present* the plan
*Present* your ticket
*Separate* the eggs
You may *object*
We *produce* oil
I *refuse*
*Excuse* me
They *tear* it up
You *wind* the clock
The rules *permit* it
We *estimate* the cost
If muscles can, they *contract*
Do not *abuse* it
They *house* the poor
We *project* a loss
it *projects* a loss
Prices will *increase*
I have *read* it
I've *read* it
It was *read* aloud
We *subject* them to tests
*Combine* the eggs
"""
AS_OTHERS = """
I have *close* friends
He has no *use* for it
*live* music
*live* show
a *live* show
The show is *live*
Are we *live*?
I had *live* music
They bring you *live* news
our *lives* depend on it
It saved *lives* in the war
Their *lives* are short
the *use* of
no *use*
of no *use*
in *use*
It is no *use*
for daily *use*
*Use* of force
*Use* cases vary
water *use* in towns
many *uses*
a *record*
the *record* of it
world *record*
the sales *record*
a *close* friend
They are *close* to home
Stay *close*
very *close*
at *present*
the *present* I bought
She is *present*
is it *separate*?
They are *separate*
a *separate* room
an *object*
fresh *produce* is sold
the *refuse* bin
no *excuse* for it
a *tear* in her eye
the *wind* is cold
a *permit*
an *estimate*
your *contract*
the *abuse* of power
The *house* is old
this *project*
It applies to *projects* and plans
an *increase* in pay
Please *read* it
to *read*
the *subject* is closed
access to *content*
the *content*
a *deliberate* act
an *invalid* card
It's *invalid*
"""


def phrases(text: str) -> list[str]:
    return text.strip().splitlines()


def marked_sounds(phrase: str) -> list[tuple[str, str]]:
    """``(word, phonemes)`` of each word between asterisks."""
    words = [word for word in phrase.split() if "*" in word]
    said = explain(phrase.replace("*", ""))
    places = [i for i, word in enumerate(phrase.split()) if "*" in word]
    return [(word.strip("*,?").lower(), said[i].phonemes.strip(",.?")) for word, i in zip(words, places, strict=True)]


@pytest.mark.parametrize("phrase", phrases(AS_VERBS))
def test_verbs(phrase: str) -> None:
    assert all(sound == VERBS[word] for word, sound in marked_sounds(phrase))


@pytest.mark.parametrize("phrase", phrases(AS_OTHERS))
def test_nouns_and_adjectives(phrase: str) -> None:
    assert all(sound == OTHERS[word] for word, sound in marked_sounds(phrase))


@pytest.mark.parametrize(
    ("text", "sound"),
    [
        ("I *used* to go", "jˈust"), ("She *used* to go", "jˈust"), ("People *used* to go", "jˈust"),
        ("I'm *used* to it", "jˈust"), ("There *used* to be one", "jˈust"), ("You get *used* to it", "jˈust"),
        ("a tool *used* to cut", "jˈuzd"), ("It is *used* to cut", "jˈuzd"), ("I *used* it", "jˈuzd"),
    ],
)  # fmt: skip
def test_used_to(text: str, sound: str) -> None:
    assert marked_sounds(text) == [("used", sound)]


@pytest.mark.parametrize("phrase", [*phrases(AS_VERBS), *phrases(AS_OTHERS)])
def test_the_cut_of_the_text_changes_nothing(phrase: str) -> None:
    text = phrase.replace("*", "")
    front = TextFront()
    assert [*(word for c in text for word in front.append(c)), *front.finish()] == explain(text)
