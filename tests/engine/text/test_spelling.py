"""Words that nobody can say are spelled; sounds that people write down sound like it."""

import pytest

from engine.text.front import TextFront, explain

LETTERS = {
    "a": "A", "b": "bi", "c": "si", "d": "di", "e": "i", "f": "ɛf", "g": "ʤi", "h": "Aʧ", "i": "I", "j": "ʤA",
    "k": "kA", "l": "ɛl", "m": "ɛm", "n": "ɛn", "o": "O", "p": "pi", "q": "kju", "r": "ɑɹ", "s": "ɛs", "t": "ti",
    "u": "ju", "v": "vi", "w": "dʌbᵊlju", "x": "ɛks", "y": "wI", "z": "zi",
}  # fmt: skip


def sound(text: str) -> str:
    """Phonemes of ``text`` without stress, spaces and pauses."""
    return "".join(c for word in explain(text) for c in word.phonemes if c not in "ˈˌ ,.!?")


@pytest.mark.parametrize("cut", [1, 1000])
@pytest.mark.parametrize(
    "word",
    ["Qxzvbnmkjhgfdsaqwrtpyzxcvbnmlkjhgfdsaqwr", "q" * 40, "bcdfg", "vpn", "Vpn", "VPN", "ssl", "ptsd", "sshd", "lgtm"]
    + ["grmph", "brzt", "mph", "asdfghjkl", "xkcd", "km", "wtf"],
)
def test_a_word_that_nobody_can_say_is_spelled(word: str, cut: int) -> None:
    names = "".join(LETTERS[c] for c in word.lower())
    assert sound(word) == names
    front = TextFront()
    words = [w for at in range(0, len(word), cut) for w in front.append(word[at : at + cut])]
    assert [*words, *front.finish()] == explain(word)
    assert sound(f"Say {word}, then.") == "sA" + names + "ðɛn"


def test_an_ending_is_said_with_the_letters() -> None:
    assert sound("vpn's") == "vipiɛnz"
    assert sound("ssl-vpn") == "ɛsɛsɛlvipiɛn"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("hmm", "hʌm"), ("Hmmmm", "hʌm"), ("mhm", "əmhʌm"), ("shh", "ʃʃ"), ("SHHHH", "ʃʃ"), ("brrr", "bɜɹ"),
        ("Grrrrrr", "ɡɜɹ"), ("pfft", "pfʌt"), ("psst", "pst"), ("tsk", "tɪsk"), ("tsk-tsk", "tɪsktɪsk"),
        ("zzz", "zzz"), ("ugh", "ʌh"), ("argh", "ɑɹɡ"), ("HMM", "Aʧɛmɛm"), ("PST", "piɛsti"),
    ],
)  # fmt: skip
def test_sounds_that_people_write(word: str, expected: str) -> None:
    assert sound(word) == expected


@pytest.mark.parametrize(
    "word",
    ["Llanfairpwllgwyngyll", "Donaudampfschifffahrtsgesellschaft", "Hirschsprung", "Mstislav", "Schtschurowskia"]
    + ["Knightsbridge", "zorblat", "nth", "cwm", "Borschtsch", "kubectl", "Herbststurm"],
)
def test_long_and_foreign_words_are_read(word: str) -> None:
    assert sound(word) != "".join(LETTERS[c] for c in word.lower())


@pytest.mark.parametrize(("word", "same"), [("Jr", "junior"), ("Ltd", "limited"), ("Blvd", "boulevard"), ("Ng", "ing")])
def test_short_forms_are_not_spelled(word: str, same: str) -> None:
    assert sound(f"Acme {word} came") == sound(f"Acme {same} came")


@pytest.mark.parametrize("text", ["A", "a", "A?", "A!", "A.", "a...", " A "])
@pytest.mark.parametrize("cut", [1, 1000])
def test_a_alone_is_the_letter(text: str, cut: int) -> None:
    assert sound(text) == "A"
    front = TextFront()
    words = [word for at in range(0, len(text), cut) for word in front.append(text[at : at + cut])]
    assert [*words, *front.finish()] == explain(text)


@pytest.mark.parametrize("text", ["A dog.", "a dog", "I saw a."])
def test_a_among_others_is_the_article(text: str) -> None:
    assert "A" not in sound(text)
