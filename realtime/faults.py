"""How an unexpected exception is logged: where it happened and of what kind, never its message.

The message may quote what the exception was about, and that may be the user's text.
"""

import traceback


def describe(error: BaseException) -> str:
    """Type and traceback of the exception."""
    return f"{type(error).__name__}\n{''.join(traceback.format_tb(error.__traceback__))}"
