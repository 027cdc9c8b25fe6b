"""Units of measure, read by name behind a number."""

UNITS = {
    "km": "kilometer", "m": "meter", "cm": "centimeter", "mm": "millimeter", "μm": "micrometer", "nm": "nanometer",
    "mi": "mile", "ft": "foot", "yd": "yard", "yds": "yard", "kg": "kilogram", "g": "gram", "mg": "milligram",
    "t": "ton", "lb": "pound", "lbs": "pound", "oz": "ounce", "l": "liter", "L": "liter", "ml": "milliliter",
    "mL": "milliliter", "tsp": "teaspoon", "tbsp": "tablespoon", "gal": "gallon", "s": "second", "sec": "second",
    "secs": "second", "ms": "millisecond", "μs": "microsecond", "ns": "nanosecond", "min": "minute", "mins": "minute",
    "h": "hour", "hr": "hour", "hrs": "hour", "yr": "year", "yrs": "year", "mo": "month", "Hz": "hertz",
    "kHz": "kilohertz", "MHz": "megahertz", "GHz": "gigahertz", "V": "volt", "W": "watt", "kW": "kilowatt",
    "MW": "megawatt", "GW": "gigawatt", "kWh": "kilowatt hour", "Wh": "watt hour", "mAh": "milliamp hour",
    "mA": "milliamp", "J": "joule", "kJ": "kilojoule", "cal": "calorie", "kcal": "kilocalorie", "Pa": "pascal",
    "kPa": "kilopascal", "hPa": "hectopascal", "psi": "p.s.i.", "dB": "decibel", "Ω": "ohm", "kΩ": "kilohm",
    "B": "byte", "KB": "kilobyte", "kB": "kilobyte", "MB": "megabyte", "GB": "gigabyte", "TB": "terabyte",
    "PB": "petabyte", "KiB": "kibibyte", "MiB": "mebibyte", "GiB": "gibibyte", "Kbps": "kilobit per second",
    "kbps": "kilobit per second", "Mbps": "megabit per second", "Gbps": "gigabit per second", "mph": "mile per hour",
    "kph": "kilometer per hour", "km/h": "kilometer per hour", "kmh": "kilometer per hour", "m/s": "meter per second",
    "fps": "frame per second", "rpm": "revolution per minute", "bpm": "beat per minute", "km²": "square kilometer",
    "m²": "square meter", "cm²": "square centimeter", "m³": "cubic meter", "cm³": "cubic centimeter",
    "sqm": "square meter", "°": "degree", "°C": "degree Celsius", "°F": "degree Fahrenheit", "px": "pixel",
    "pt": "point", "ppm": "part per million", "USD": "U.S. dollar", "EUR": "euro", "GBP": "British pound",
    "JPY": "yen",
}  # fmt: skip
"""Names for one; several have the plural of ``unit_name``."""

GLUED_ONLY = frozenset({"t", "B", "pt", "mo", "J"})
"""Too ambiguous to be units behind a space ("Plan 9 B")."""

_IRREGULAR = {
    "foot": "feet",
    "hertz": "hertz",
    "yen": "yen",
    "p.s.i.": "p.s.i.",
    "penny": "pence",
    "inch": "inches",
} | {name: name for name in ("kilohertz", "megahertz", "gigahertz")}


def plural(name: str) -> str:
    """Several of ``name``: "miles per hour", "degrees Celsius", "square meters"."""
    if name in _IRREGULAR:
        return _IRREGULAR[name]
    if " per " in name or name.startswith("degree"):
        first, _, rest = name.partition(" ")
        return f"{plural(first)} {rest}".strip() if rest else first + "s"
    return name + "s"


def unit_name(unit: str, amount: str) -> str:
    """Name of ``unit`` behind the number written ``amount``."""
    return UNITS[unit] if amount == "1" else plural(UNITS[unit])
