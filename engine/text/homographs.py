"""Words of one spelling and two sounds, told apart by the words around them: "we live here", "live music".

The phonemiser's lexicon has both sounds of such a word by part of speech. Its own tagger knows a verb behind "to" and
"can" alone, takes what stands behind "is" for a participle, and all else for a noun.
"""

from collections.abc import Mapping, Sequence

_PAUSES = (",", ".", "!", "?", ";", ":")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SUBJECTS = _words("i we they you who")
_THIRD = _words(
    """he she it who which everyone everybody someone somebody anyone anybody nobody one nothing everything something"""
)
_PLURALS = _words("people children men women police folks")
_OBJECT_PRONOUNS = _words("me us them him her people everyone it")
_AUXILIARIES = _words(
    """to can could will would shall should may might must do does did cannot please gonna wanna gotta let's lets"""
)
_BE = _words(
    """is are was were be been being am i'm we're you're they're it's that's there's here's he's she's what's who's
    isn't aren't wasn't weren't ain't"""
)
_HAVE = _words("have has had having i've we've you've they've who've haven't hasn't hadn't")
_NOMINAL = _words(
    """a an the these those every any some no my your our their his its her whose of in on at by for from with into
    about as than upon over under between among during without within against before after through per via like more
    most less much many another other such own very so too quite"""
)
_POINTING = _words("this that each either neither all both and or but then so if when")
"""May stand before either; the word behind tells."""
_ADVERBS = _words(
    """not never ever always often also just only really still actually usually sometimes now then already even both all
    each probably currently simply generally rarely seldom merely mostly here rather almost longer"""
)
_NO_ADVERBS = _words(
    "family supply july italy reply assembly ally belly bully jelly rally fly early daily weekly monthly"
)
_WITH_HABITS = (
    _SUBJECTS
    | _PLURALS
    | (_THIRD - {"which"})
    | _words("am i'm we're you're he's she's there get gets got getting become")
)
"""Before "used to" as in "I used to go", "I'm used to it"; otherwise it may be "what is used to cut"."""
_LETTING = _words("let lets let's make makes made making help helps helped helping watch see saw hear heard")
_GIVING = _words("give gives gave bring brings brought show shows offer offers send sends")
_NO_PLURALS = _words("news sports this is was has as yes us thus always perhaps less plus james")

_DETERMINERS = _words("the a an my your his her its our their it them me him us")
_OBJECTS = _DETERMINERS | _words(
    "you this that these those all any some every each both everything something anything yourself themselves one"
)
_PLACES = _words("in at on with near next here there alone together by under without")
_NO_VERB_BEFORE = _words("of is was were are has by case cases")

_SELDOM_VERBS = _words("content invalid")
_USUALLY_ADJECTIVES = _words("close invalid")


def is_homograph(entry: object) -> bool:
    """Whether a lexicon's ``entry`` for a word has two sounds by part of speech that we can tell apart."""
    if not isinstance(entry, Mapping):
        return False
    default, others = (
        entry.get("DEFAULT"),
        [entry[tag] for tag in ("VERB", "NOUN", "VBN", "VBD", "ADJ") if tag in entry],
    )
    is_verbal = not entry.keys().isdisjoint(("VERB", "NOUN", "VBN", "VBD")) or str(default).endswith("At")
    return is_verbal and None not in others and any(sound != default for sound in others)


def part_of_speech(word: str, entry: Mapping[str, str], left: Sequence[str], following: str) -> str | None:
    """Tag of ``word`` in its lexicon ``entry``; None where the words around do not tell.

    ``left``: the words of the sentence so far, pauses attached. ``following``: the next word, if it is known.
    """
    word, after = word.lower(), following.lower()
    is_third = word.endswith("s") and not word.endswith("ss")
    nominal = "JJ" if "VERB" in entry or "NOUN" not in entry else "NN"
    before, further = _left(left)
    if word == "used":
        return "VBD" if after == "to" and before in _WITH_HABITS else None
    usual = nominal if word in _USUALLY_ADJECTIVES else None
    if "VBN" in entry:
        return "VBN" if before in _BE | _HAVE else None
    if before in _BE | _HAVE:
        return "NN" if is_third else nominal if before in _HAVE else "JJ"
    if word in _SELDOM_VERBS:
        return "NN" if before != "feel" and word not in _USUALLY_ADJECTIVES else "JJ"
    if before in _SUBJECTS and further in _BE:
        return nominal
    if _is_verb(word, before, further, after, is_third):
        return "VBZ" if is_third else "VB"
    if before in _NOMINAL or before in _AUXILIARIES or before.endswith("'s"):
        is_close = word == "close" and before in ("the", "a") and after in ("", "of")
        return "NN" if is_close else nominal
    return usual


def _left(left: Sequence[str]) -> tuple[str, str]:
    """The word before, without adverbs between, and the one before that; empty where a clause begins."""
    found = list[str]()
    for word in reversed(left):
        if word.endswith(_PAUSES) and (found or not word.lower().startswith("please")):
            break
        plain = word.lower().rstrip("".join(_PAUSES))
        is_adverb = plain in _ADVERBS or (plain.endswith("ly") and plain not in _NO_ADVERBS)
        is_adverb = is_adverb or (plain == "no" and left[-1].lower() == "longer")
        if not is_adverb or found:
            found.append(plain)
    before, further, *_ = (*found, "", "")
    return before, further


def _is_verb(word: str, before: str, further: str, after: str, is_third: bool) -> bool:
    if is_third:
        if before in _THIRD:
            return True
        if before in _NOMINAL or before in _AUXILIARIES or before.endswith(("'s", "s")):
            return False
        is_at_home = word == "lives" and after in _PLACES and not before.endswith(("ed", "ing")) and before != ""
        return is_at_home or (before != "" and after in _OBJECTS - {"you"})
    if before in _AUXILIARIES or before.endswith(("'ll", "'d", "n't")):
        return True
    if before in _SUBJECTS:
        return not (word == "live" and further in _GIVING)
    if before in _OBJECT_PRONOUNS and further in _LETTING:
        return True
    if before in _THIRD or before in _OBJECT_PRONOUNS - _PLURALS:
        return further in _AUXILIARIES or further.endswith("n't")
    if before in _NOMINAL or before.endswith("'s"):
        return False
    if before == "":
        return after in _OBJECTS or (word in ("use", "excuse") and after not in _NO_VERB_BEFORE)
    if before in _POINTING:
        return after in _OBJECTS or (word == "live" and after in _PLACES)
    is_plural = before in _PLURALS or (before.endswith("s") and not before.endswith("ss") and before not in _NO_PLURALS)
    if is_plural and word in ("live", "use"):
        return after not in _NO_VERB_BEFORE
    return after in _DETERMINERS
