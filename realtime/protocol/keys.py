"""API keys for browsers, which cannot set headers."""

import base64
import binascii
from collections.abc import Iterable

from realtime.protocol.terms import KEY_SUBPROTOCOL_PREFIX


def key_subprotocol(key: str) -> str:
    """The subprotocol by which a browser, which cannot set headers, presents an API key beside `SUBPROTOCOL`."""
    return KEY_SUBPROTOCOL_PREFIX + base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")


def key_from_subprotocols(offered: Iterable[str]) -> str | None:
    """The API key among the subprotocols a client offers, None without one that can be read."""
    for name in offered:
        if name.startswith(KEY_SUBPROTOCOL_PREFIX):
            encoded = name.removeprefix(KEY_SUBPROTOCOL_PREFIX)
            try:
                return base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True).decode()
            except (binascii.Error, ValueError):
                return None
    return None
