"""Abbreviations, units and the small lists of words that decide how they are read."""

import re

TITLES = {
    "Mr": "Mister", "Mrs": "Mrs.", "Ms": "Ms.", "Dr": "Doctor", "Prof": "Professor", "Rev": "Reverend", "Gen": "General",
    "Gov": "Governor", "Sen": "Senator", "Rep": "Representative", "Capt": "Captain", "Lt": "Lieutenant", "Col": "Colonel",
    "Sgt": "Sergeant", "Cpl": "Corporal", "Adm": "Admiral", "Cmdr": "Commander", "Maj": "Major", "Hon": "Honorable",
    "Pres": "President", "Supt": "Superintendent", "Mt": "Mount", "Ft": "Fort", "Msgr": "Monsignor", "Mme": "Madame",
}  # fmt: skip
"""Stand before a name, so their full stop never ends a sentence."""

SHORTENED = {
    "e.g": "for example", "eg": "for example", "i.e": "that is", "ie": "that is", "vs": "versus", "cf": "compare",
    "approx": "approximately", "dept": "department", "est": "established", "tel": "telephone", "ext": "extension",
    "incl": "including", "viz": "namely", "ca": "circa", "resp": "respectively", "esp": "especially", "misc": "miscellaneous",
    "univ": "university", "assoc": "association", "govt": "government",
}  # fmt: skip
"""Stand inside a sentence."""

CLOSING = {
    "etc": "etcetera", "jr": "junior", "sr": "senior", "inc": "incorporated", "ltd": "limited", "co": "company",
    "corp": "corporation", "bros": "brothers", "esq": "esquire", "ave": "avenue", "blvd": "boulevard", "rd": "road",
    "a.m": "a.m.", "p.m": "p.m.", "ph.d": "P.H.D.", "llc": "L.L.C.", "et al": "et al",
}  # fmt: skip
"""May also end a sentence: the next word tells."""

BEFORE_NUMBER = {
    "No": "number", "no": "number", "Nos": "numbers", "Fig": "figure", "fig": "figure", "Figs": "figures", "p": "page",
    "pp": "pages", "P": "page", "Vol": "volume", "vol": "volume", "Ch": "chapter", "ch": "chapter", "Sec": "section",
    "Eq": "equation", "eq": "equation", "Art": "article", "Pt": "part", "Ed": "edition", "Rm": "room", "Apt": "apartment",
}  # fmt: skip
"""Abbreviations only when a number follows ("No. 5"), words otherwise ("No. I won't")."""

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip
SHORT_MONTHS = {month[:3]: month for month in MONTHS if month != "May"} | {"Sept": "September"}
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

MAGNITUDES = ("hundred", "thousand", "million", "billion", "trillion")
MAGNITUDE_LETTERS = {"k": "thousand", "K": "thousand", "m": "million", "M": "million", "mn": "million", "bn": "billion"} | {
    "B": "billion", "b": "billion", "T": "trillion", "tn": "trillion",
}  # fmt: skip

UNITS = {
    "km": ("kilometer", "kilometers"), "m": ("meter", "meters"), "cm": ("centimeter", "centimeters"),
    "mm": ("millimeter", "millimeters"), "µm": ("micrometer", "micrometers"), "nm": ("nanometer", "nanometers"),
    "mi": ("mile", "miles"), "ft": ("foot", "feet"), "yd": ("yard", "yards"), "yds": ("yard", "yards"),
    "kg": ("kilogram", "kilograms"), "g": ("gram", "grams"), "mg": ("milligram", "milligrams"), "t": ("ton", "tons"),
    "lb": ("pound", "pounds"), "lbs": ("pound", "pounds"), "oz": ("ounce", "ounces"),
    "l": ("liter", "liters"), "L": ("liter", "liters"), "ml": ("milliliter", "milliliters"), "mL": ("milliliter", "milliliters"),
    "tsp": ("teaspoon", "teaspoons"), "tbsp": ("tablespoon", "tablespoons"), "gal": ("gallon", "gallons"),
    "s": ("second", "seconds"), "sec": ("second", "seconds"), "secs": ("second", "seconds"), "ms": ("millisecond", "milliseconds"),
    "µs": ("microsecond", "microseconds"), "ns": ("nanosecond", "nanoseconds"), "min": ("minute", "minutes"),
    "mins": ("minute", "minutes"), "h": ("hour", "hours"), "hr": ("hour", "hours"), "hrs": ("hour", "hours"),
    "yr": ("year", "years"), "yrs": ("year", "years"), "mo": ("month", "months"),
    "Hz": ("hertz", "hertz"), "kHz": ("kilohertz", "kilohertz"), "MHz": ("megahertz", "megahertz"), "GHz": ("gigahertz", "gigahertz"),
    "V": ("volt", "volts"), "W": ("watt", "watts"), "kW": ("kilowatt", "kilowatts"), "MW": ("megawatt", "megawatts"),
    "GW": ("gigawatt", "gigawatts"), "kWh": ("kilowatt hour", "kilowatt hours"), "Wh": ("watt hour", "watt hours"),
    "mAh": ("milliamp hour", "milliamp hours"), "mA": ("milliamp", "milliamps"), "J": ("joule", "joules"),
    "kJ": ("kilojoule", "kilojoules"), "cal": ("calorie", "calories"), "kcal": ("kilocalorie", "kilocalories"),
    "Pa": ("pascal", "pascals"), "kPa": ("kilopascal", "kilopascals"), "hPa": ("hectopascal", "hectopascals"),
    "psi": ("p.s.i.", "p.s.i."), "dB": ("decibel", "decibels"), "Ω": ("ohm", "ohms"), "kΩ": ("kilohm", "kilohms"),
    "B": ("byte", "bytes"), "KB": ("kilobyte", "kilobytes"), "kB": ("kilobyte", "kilobytes"), "MB": ("megabyte", "megabytes"),
    "GB": ("gigabyte", "gigabytes"), "TB": ("terabyte", "terabytes"), "PB": ("petabyte", "petabytes"),
    "KiB": ("kibibyte", "kibibytes"), "MiB": ("mebibyte", "mebibytes"), "GiB": ("gibibyte", "gibibytes"),
    "Kbps": ("kilobit per second", "kilobits per second"), "kbps": ("kilobit per second", "kilobits per second"),
    "Mbps": ("megabit per second", "megabits per second"), "Gbps": ("gigabit per second", "gigabits per second"),
    "mph": ("mile per hour", "miles per hour"), "kph": ("kilometer per hour", "kilometers per hour"),
    "km/h": ("kilometer per hour", "kilometers per hour"), "kmh": ("kilometer per hour", "kilometers per hour"),
    "m/s": ("meter per second", "meters per second"), "fps": ("frame per second", "frames per second"),
    "rpm": ("revolution per minute", "revolutions per minute"), "bpm": ("beat per minute", "beats per minute"),
    "km²": ("square kilometer", "square kilometers"), "m²": ("square meter", "square meters"), "cm²": ("square centimeter", "square centimeters"),
    "m³": ("cubic meter", "cubic meters"), "cm³": ("cubic centimeter", "cubic centimeters"), "sqm": ("square meter", "square meters"),
    "°": ("degree", "degrees"), "°C": ("degree Celsius", "degrees Celsius"), "°F": ("degree Fahrenheit", "degrees Fahrenheit"),
    "px": ("pixel", "pixels"), "pt": ("point", "points"), "ppm": ("part per million", "parts per million"),
    "USD": ("U.S. dollar", "U.S. dollars"), "EUR": ("euro", "euros"), "GBP": ("British pound", "British pounds"), "JPY": ("yen", "yen"),
}  # fmt: skip
"""Names for one and for many; read as such only behind a number."""

GLUED_ONLY = frozenset({"t", "B", "x", "pt", "mo", "J"})
"""Units too ambiguous to be read behind a number and a space ("Plan 9 B")."""

SENTENCE_STARTERS = frozenset(
    "The This That These Those There It He She We They I You My Your His Her Its Our Their A An And But Or So Then Now If "
    "When While After Before Because Since Although However Moreover Also In On At By For From With To What Who Why How Where "
    "Is Are Was Were Do Does Did Can Could Will Would Should May Please Let Here Not No Yes Some Many Most All Both Each Every "
    "One Once Until Unless As Even Just Still Meanwhile Finally First Next Later Today Tomorrow Yesterday".split()
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
