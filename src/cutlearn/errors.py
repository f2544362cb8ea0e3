"""The two things that the library says when it cannot just go on.

`InputError` is the user's: it tells what is wrong, where, what was wanted and what to do.
Anything else that escapes is a bug of the library's and keeps its traceback.
"""


class InputError(ValueError):
    """An input that cannot be used: what, where, what was wanted and what to do."""


class ConvergenceWarning(UserWarning):
    """Training stopped before its certified gap; the message tells the gap."""
