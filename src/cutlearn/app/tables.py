"""Rows of numbers as plain text, aligned, the same on a terminal and in a pipe."""

from collections.abc import Sequence

from cutlearn.errors import clean
from cutlearn.metrics import Spread


def text_table(titles: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return a table with aligned columns.

    Parameters
    ----------
    titles : sequence of str
    rows : sequences of str, each as long as the titles
    left : int, default 1
        The first so many columns are aligned to the left, the others to the right.

    Examples
    --------
    >>> print(text_table(["name", "IoU"], [["a", "0.9"], ["long name", "0.75"]]))
    name        IoU
    ---------  ----
    a           0.9
    long name  0.75
    """
    rows = [[clean(cell, joined=False) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(titles, *rows)]
    lines = [titles, ["-" * width for width in widths], *rows]

    def line(cells: Sequence[str]) -> str:
        parts = [
            cell.ljust(width) if k < left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(cells, widths))
        ]
        return "  ".join(parts).rstrip()

    return "\n".join(map(line, lines))


def percent(value: float) -> str:
    """Return a part as percent; a dash where there is none.

    Examples
    --------
    >>> percent(0.1234), percent(float("nan"))
    ('12.34 %', '-')
    """
    return f"{100 * value:.2f} %" if abs(value) < float("inf") else "-"


def percent_spread(spread: Spread) -> str:
    """Return a score in percent with its interval.

    Examples
    --------
    >>> percent_spread(Spread(0.5, 0.4321, 0.6, 0.05))
    '50.00 % [43.21 .. 60.00]'
    """
    low, high = (percent(end).removesuffix(" %") for end in (spread.low, spread.high))
    return f"{percent(spread.value)} [{low} .. {high}]"
