"""Web and mail addresses: finding them and saying them."""

import re

_URL = re.compile(r"(?:(?:https?|ftp)://|www\.|mailto:|data:[a-z]+/)[^\s<>\"“”]+", re.IGNORECASE)
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_TOP_LEVEL = (
    "com|org|net|edu|gov|mil|int|io|ai|dev|app|co|uk|de|fr|es|nl|eu|ch|se|ru|jp|cn|ca|au|br|info|biz|tv|gg|ly|xyz|"
    "tech|online|site|shop|blog|cloud|news|pl"
)
_DOMAIN = re.compile(
    rf"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+(?:{_TOP_LEVEL})(?![\w-])(?:[:/][^\s<>\"“”]*)?",
    re.IGNORECASE,
)
_MAY_BECOME = re.compile(
    r"[\W_]*(?:(?:https?|ftp)://|www\.|mailto:|data:[a-z]+/|(?:[a-z0-9-]+\.)+[a-z]{2,}/|[\w.+-]+@)", re.IGNORECASE
)
_SCHEME = re.compile(r"(?:https?|ftp)://|mailto:|www\.", re.IGNORECASE)
_TRAILING = ".,;:!?'\"”’)]}>…*"
_READABLE_PART = re.compile(r"[A-Za-z][a-z]{0,23}|[A-Z]{1,5}|\d{1,4}")
SPOKEN_PARTS = 3
_SIGNS = {".": "dot", "@": "at", "-": "dash", "_": "underscore", "+": "plus"}


def address_in(text: str) -> str:
    """The web or mail address that ``text`` begins with, without the punctuation behind it; empty without one."""
    for pattern in (_URL, _MAIL, _DOMAIN):
        found = pattern.match(text)
        if found:
            address = found[0].rstrip(_TRAILING)
            if pattern is not _DOMAIN or _is_domain(address, text[len(address) :]):
                return address
    return ""


def may_become_address(text: str) -> bool:
    """Whether a long word is an address that has not ended."""
    return _MAY_BECOME.match(text) is not None


def _is_domain(address: str, after: str) -> bool:
    """Rule out what only looks like a domain: "U.S.in", "Go.to" of a missing space."""
    host = re.split(r"[:/]", address, maxsplit=1)[0]
    labels = host.split(".")
    if after[:1].isalnum() or any(not label for label in labels):
        return False
    if max(len(label) for label in labels[:-1]) < 2:
        return False
    return host == host.lower() or labels[-1].lower() in ("com", "org", "net", "io", "ai")


def say_address(address: str) -> str:
    """Words for an address: its host and the readable start of its path; queries and random names are left out."""
    if address.lower().startswith("data:"):
        return "data link"
    rest = _SCHEME.sub("", address, count=1)
    rest = rest[4:] if rest.lower().startswith("www.") else rest
    if "@" in rest:
        return _say_signs(re.split(r"[?&]", rest)[0])
    host, _, path = re.split(r"[?#]", rest)[0].partition("/")
    host, _, port = host.partition(":")
    words = [_say_signs(host)]
    if port.isdigit():
        words.append("port " + port)
    for part in [p for p in path.split("/") if p][:SPOKEN_PARTS]:
        pieces = [p for p in re.split(r"[-_.+~%=&,;:!$'()*@]+", part) if p]
        if not pieces or len(pieces) > 8 or not all(_READABLE_PART.fullmatch(p) for p in pieces):
            break
        words.append("slash " + " ".join(pieces))
    return " ".join(words)


def _say_signs(text: str) -> str:
    spoken = "".join(f" {_SIGNS.get(c, '')} " if not c.isalnum() else c for c in text)
    return " ".join(spoken.split())
