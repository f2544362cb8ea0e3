"""What an experiment leaves: a table in words, figures for machines, files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Reproduction:
    """The outcome of one paper's experiment.

    Attributes
    ----------
    table : str
        Markdown.
    figures : dict
        The same as JSON can hold it.
    files : tuple of Path
    """

    table: str
    figures: dict[str, Any]
    files: tuple[Path, ...]


def markdown_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a table in Markdown.

    Examples
    --------
    >>> print(markdown_table(["a", "b"], [["1", "2"]]))
    | a | b |
    | --- | --- |
    | 1 | 2 |
    """
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
