"""Pages for a browser, each one file with everything inside: the report, what to annotate next."""

from cutlearn.report.page.charts import Chart, Subject, register_chart
from cutlearn.report.page.gallery import Gallery, Shown, shown_of
from cutlearn.report.page.model import page
from cutlearn.report.page.next import Candidate, next_page

__all__ = [
    "Candidate",
    "Chart",
    "Gallery",
    "Shown",
    "Subject",
    "next_page",
    "page",
    "register_chart",
    "shown_of",
]
