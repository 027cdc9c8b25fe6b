"""Abbreviations and the small lists of words that decide how they are read."""

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TITLES = {
    "Mr": "Mister", "Mrs": "Mrs.", "Ms": "Ms.", "Dr": "Doctor", "Prof": "Professor", "Rev": "Reverend",
    "Gen": "General", "Gov": "Governor", "Sen": "Senator", "Rep": "Representative", "Capt": "Captain",
    "Lt": "Lieutenant", "Col": "Colonel", "Sgt": "Sergeant", "Cpl": "Corporal", "Adm": "Admiral", "Maj": "Major",
    "Cmdr": "Commander", "Hon": "Honorable", "Pres": "President", "Mt": "Mount", "Ft": "Fort", "Msgr": "Monsignor",
    "Mme": "Madame",
}  # fmt: skip
"""Stand before a name, so their full stop never ends a sentence."""

SHORTENED = {
    "e.g": "for example", "eg": "for example", "i.e": "that is", "ie": "that is", "vs": "versus", "cf": "compare",
    "approx": "approximately", "dept": "department", "est": "established", "tel": "telephone", "ext": "extension",
    "incl": "including", "viz": "namely", "ca": "circa", "resp": "respectively", "esp": "especially",
    "misc": "miscellaneous", "univ": "university", "assoc": "association", "govt": "government",
}  # fmt: skip
"""Stand inside a sentence."""

CLOSING = {
    "etc": "etcetera", "jr": "junior", "sr": "senior", "inc": "incorporated", "ltd": "limited", "co": "company",
    "corp": "corporation", "bros": "brothers", "esq": "esquire", "ave": "avenue", "blvd": "boulevard", "rd": "road",
    "a.m": "a.m.", "p.m": "p.m.", "ph.d": "P.H.D.",
}  # fmt: skip
"""May also end a sentence: the next word tells."""

BEFORE_NUMBER = {
    "No": "number", "no": "number", "Nos": "numbers", "Fig": "figure", "fig": "figure", "Figs": "figures", "p": "page",
    "pp": "pages", "P": "page", "Vol": "volume", "vol": "volume", "Ch": "chapter", "ch": "chapter", "Sec": "section",
    "Eq": "equation", "eq": "equation", "Art": "article", "Pt": "part", "Ed": "edition", "Rm": "room",
    "Apt": "apartment", "min": "minimum", "max": "maximum", "avg": "average", "Min": "minimum", "Max": "maximum",
    "Avg": "average", "Sect": "section", "par": "paragraph",
}  # fmt: skip
"""Abbreviations only when a number follows ("No. 5"), words otherwise ("No. I won't")."""

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
SHORT_MONTHS = {month[:3]: month for month in MONTHS if month != "May"} | {"Sept": "September"}
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

MAGNITUDES = ("hundred", "thousand", "million", "billion", "trillion")
MAGNITUDE_LETTERS = {
    "k": "thousand", "K": "thousand", "m": "million", "M": "million", "mn": "million", "bn": "billion", "B": "billion",
    "b": "billion", "T": "trillion", "tn": "trillion",
}  # fmt: skip

SENTENCE_STARTERS = _words(
    """The This That These Those There It He She We They I You My Your His Her Its Our Their A An And But Or So Then
    Now If When While After Before Because Since Although However Moreover Also In On At By For From With To What Who
    Why How Where Is Are Was Were Do Does Did Can Could Will Would Should May Please Let Here Not No Yes Some Many Most
    All Both Each Every One Once Until Unless As Even Just Still Meanwhile Finally First Next Later Today Tomorrow
    Yesterday"""
)
"""Capitalised words that begin sentences rather than go on with a name."""

NAME_LIKE = frozenset(
    [*MONTHS, *DAYS, "ET", "EST", "EDT", "PT", "PST", "PDT", "CT", "MT", "GMT", "UTC", "CET", "Eastern", "Pacific"]
)
"""Capitalised words that go on with a sentence behind "p.m."."""


_INITIALS = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]|(?:[A-Z][a-z]?\.)+[A-Z]")


def keeps_full_stop(core: str) -> bool:
    """Whether the full stop behind ``core`` is a part of the word: "Dr", "e.g", "U.S", "J"."""
    plain = core.replace("’", "'")
    return (
        plain in TITLES
        or plain in ("St",)
        or plain in BEFORE_NUMBER
        or plain in SHORT_MONTHS
        or plain.lower() in SHORTENED
        or plain.lower() in CLOSING
        or (len(plain) == 1 and plain.isupper() and plain != "I")
        or _INITIALS.fullmatch(plain) is not None
    )
