"""What became of every table and figure of the papers: where it is shown, or why it is not."""

from typing import NamedTuple


class Shown(NamedTuple):
    """A table or figure of a paper, the headings of the sections that have it, and what differs."""

    name: str
    headings: tuple[str, ...] = ()
    words: str = ""


DRAWING = "explains the method, has no figures to check"

CONTENTS: dict[str, tuple[Shown, ...]] = {
    "gould2011": (
        Shown("figures 1 to 4", words=DRAWING),
        Shown("figure 5, section 5.1", ("The checkerboard",), "all panels, and their figures"),
        Shown("figure 6, section 5.2", ("GrabCut boxes",),
              "the paper's two figures, 90.0 and 91.5 %; its four images are among those drawn "
              "only by chance"),
    ),
    "antoniuk2012": (
        Shown("table 1", ("Table 1, horses: errors", "Table 1, cows: errors"), "every row"),
        Shown("table 2", ("Table 2, horses: both masters", "Table 2, cows: both masters"),
              "every row; its times (horses 7 to 21 minutes by ACCPM, 2 to 6 by BMRM; cows 63 to "
              "157 and 38 to 354) are of another machine and not repeated there"),
        Shown("figure 1", ("Table 2, horses: both masters", "Table 2, cows: both masters"),
              "rounds in place of minutes; the examples are drawn for the browser only"),
    ),
    "pletscher2012": (
        Shown("figures 1 and 2", words=DRAWING),
        Shown("figure 3", words="an image of its set, which is not at hand"),
        Shown("figure 4, section 5.1", ("Figure 4: mitochondria",), "other micrographs"),
        Shown("section 4.3", ("Section 4.3: loss-augmented inference",), "COMPOSE is not run"),
        Shown("figure 5 and table 1, section 5.2", ("Table 1: photographs with strokes",),
              "every row; the paper's column of Hamming-trained wins is 100 less the other"),
    ),
    "tarlow2012": (
        Shown("figures 1 and 2", ("Single aeroplanes (figures 1 and 2)",
                                  "Whole training sets (figure 2)")),
        Shown("figure 3", ("Log-likelihood (figure 3)", "Accuracy, % (figure 3)",
                           "AUC (figure 3)"),
              "every row; of the paper its test figures alone stand beside ours"),
        Shown("figure 5", ("IoU before and after the decision (figure 5)",), "every row"),
        Shown("figures 4, 6 and 7", ("What the decision does to dogs (figures 4, 6 and 7)",),
              "photographs are drawn for the browser only"),
        Shown("figure 8, section 7.3", ("Five labels (section 7.3, figure 8)",), "every row"),
    ),
    "yang2014": (
        Shown("figures 1 and 2", words=DRAWING),
        Shown("table 1", ("Table 1: pedestrians",), "CHOPPs by their nearest relative"),
        Shown("table 2", ("Table 2: horses", "Table 2 again: horses, masks of 64 x 64"),
              "CHOPPs by their nearest relative; the quoted row of Bo and Fowlkes (AP 77.2) is "
              "not run"),
        Shown("table 3", words="birds: no data here"),
        Shown("figure 3", ("Table 2: horses",), "photographs are drawn for the browser only"),
    ),
}  # fmt: skip
