"""Templates in, pages out; what comes from outside is words on them, never markup."""

from pathlib import Path
from typing import Any

from cutlearn.errors import clean
from cutlearn.report.page.panels import ramps

TEMPLATES = Path(__file__).parent / "templates"


def render(template: str, **values: Any) -> str:
    """Fill a template of `templates/`; what comes from outside is words, never markup."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    pages = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return pages.get_template(template).render(ramps=ramps(), **values)


def _visible(value: Any) -> Any:
    """Give text that is no markup without control characters and bytes that are no text."""
    return clean(value, joined=False) if type(value) is str else value
