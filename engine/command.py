"""What a command that computes for a while does with an error and with Ctrl-C."""

import sys
from collections.abc import Callable

from engine.errors import FootlightsError

EXIT_OK, EXIT_FAILED, EXIT_INTERRUPTED = 0, 1, 130


def run_command(name: str, work: Callable[[], None], after_interrupt: str) -> int:
    """Do ``work``; the exit status. What goes wrong is said in a line on standard error.

    ``after_interrupt``: what there is to know when it was stopped with Ctrl-C.
    """
    try:
        work()
    except FootlightsError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        print(f"{name}: stopped; {after_interrupt}", file=sys.stderr)
        return EXIT_INTERRUPTED
    return EXIT_OK
