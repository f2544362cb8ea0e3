import numpy as np

from cutlearn.model.probability.ranking import Ranked, Window
from cutlearn.report.page.next import FRAME, Candidate, candidate_panels, framed, next_page


def test_a_frame_lies_on_the_border_of_its_window_and_nowhere_else():
    picture = np.zeros((40, 60, 3))
    framed(picture, Window(8, 24, 20, 40, 1.0), 2)
    painted = (picture == FRAME).all(axis=2)
    wanted = np.zeros((40, 60), bool)
    wanted[4:12, 10:20] = True
    wanted[5:11, 11:19] = False
    assert np.array_equal(painted, wanted)


def test_the_page_follows_the_order():
    order = [Ranked(2, 0.5, ()), Ranked(0, 0.25, ()), Ranked(1, 0.0, ())]
    image, q = np.zeros((8, 9)), np.full((8, 9, 2), 0.5)
    text = next_page("next", ["a<b", "second", "third"], order, [Candidate(image, q)] * 2)
    assert text.index("1. third") < text.index("2. a&lt;b")
    assert "3. second" not in text
    assert "75.0%" in text  # what the two settle together
    assert "50.00 %" in text
    assert text.count("data:image/jpeg") == 6


def test_a_model_without_probabilities_shows_the_image_alone():
    assert len(candidate_panels(Candidate(np.zeros((8, 9, 3)), None), ())) == 1
