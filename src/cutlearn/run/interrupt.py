"""How a long run says that it was stopped, by whom, and what is left of it."""


class Interrupted(KeyboardInterrupt):
    """A long run was stopped by the keyboard; the message tells what is saved and how to go on.

    `why` is empty, or a sentence that tells what else than a person stopped it.
    """

    why = ""


def interrupted(stop: KeyboardInterrupt, left: str) -> Interrupted:
    """Give what stopped a run with a sentence about what is left of it."""
    why = getattr(stop, "why", "")
    made = Interrupted(f"{why} {left[:1].upper()}{left[1:]}" if why else left)
    made.why = why
    return made
