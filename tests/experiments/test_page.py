"""All claims in one table."""

from cutlearn.experiments.page import claims_page


def test_claims_of_every_paper_in_one_file(quick):
    quick("gould2011")
    text = claims_page(quick.folder).read_text()
    assert "| The checkerboard is recovered perfectly |" in text
    assert "(gould2011.md)" in text
    assert "[confirmed](gould2011.md#the-checkerboard)" in text
    # The heading to which the verdict leads.
    assert "## The checkerboard" in (quick.folder / "gould2011.md").read_text()
    assert "| antoniuk2012: the analytic centre |" in text.replace("[", "").replace("]", " |")
