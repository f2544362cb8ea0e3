"""Pages for a browser, each a single file: the report, and the images to annotate next."""

from cutlearn.report.page.charts import Chart, Subject, register_chart
from cutlearn.report.page.gallery import Gallery, Shown, shown_of
from cutlearn.report.page.pages import Candidate, next_page, page

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
