"""Every file of the package with its own first sentence: writes docs/map.md; a test compares them.

python scripts/file_map.py
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "map.md"
HEAD = """# Every file, in its own words

Written by `python scripts/file_map.py` from the first sentence of each file. The path of the data
is from top to bottom: a folder imports only folders above it, `run/` and the files at the root.
The map with fewer words is in the [README](../README.md#the-map).
"""
ORDER = ("", "metrics", "images", "features", "graph", "energy", "run", "learn", "shape", "model",
         "report", "experiments", "app")  # fmt: skip


def first_sentence(path: Path) -> str:
    """The beginning of a file's docstring, up to the first full stop or empty line."""
    words = ast.get_docstring(ast.parse(path.read_text())) or ""
    line = " ".join(words.split("\n\n")[0].split())
    return line.split(". ")[0].rstrip(".:")


def page() -> str:
    """The page as text."""
    source = ROOT / "src" / "cutlearn"
    lines = [HEAD]
    for top in ORDER:
        folder = source / top
        files = folder.glob("*.py") if not top else folder.rglob("*.py")
        rows = [(path.relative_to(source), first_sentence(path)) for path in sorted(files)]
        lines += [f"## {top or 'at the root'}", "", "| file | what it is |", "| --- | --- |"]
        lines += [f"| {name} | {words} |" for name, words in rows if name.name != "__init__.py"]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
