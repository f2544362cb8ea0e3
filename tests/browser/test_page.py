"""The page in a real browser: box, strokes, keys alone, reload, training. Needs chromium."""

import contextlib
import os
import re
import shutil
import subprocess
import sys

import pytest

from cutlearn.images import read_values
from served import blob, make_images

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("chromium is not installed", allow_module_level=True)

SHAPE = (96, 128)
OPTIONS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip
NASTY = "~<img src=x onerror=alert(1)>"
QUICK = "--features linear --C 1 --tol 0.5"
pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield made
        made.close()


@contextlib.contextmanager
def serving(folder, fit):
    """The address of the page of a folder."""
    command = [
        sys.executable, "-m", "cutlearn", "serve", "--images", "images", "--no-browser",
        "--fit", fit,
    ]  # fmt: skip
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        process.stdout.readline()
        yield re.search(r"http://\S+", process.stdout.readline())[0]
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A folder of four images and the address of its page."""
    folder = make_images(tmp_path_factory.mktemp("page") / "images", 4, SHAPE).parent
    shutil.copy(folder / "images" / "blob-0.png", folder / "images" / f"{NASTY}.png")
    with serving(folder, QUICK) as address:
        yield folder, address


class Page:
    """A tab of the browser, in words of the image."""

    def __init__(self, context, address, image):
        self.errors = []
        self.page = context.new_page()
        self.page.set_default_timeout(30_000)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._heard)
        self.page.goto(address)
        self.page.wait_for_selector("body[data-ready]")
        self.open(image)

    def _heard(self, message):
        if message.type == "error":
            self.errors.append(message.text)

    def open(self, image):
        self.answered(lambda: self.page.click(f"[data-image='{image}']"))

    def answered(self, act):
        """Do something, and wait for the next answer of the server."""
        before = self.answers
        act()
        self.page.wait_for_selector(f"body[data-answers='{before + 1}']")

    @property
    def answers(self):
        return int(self.page.evaluate("document.body.dataset.answers ?? 0"))

    def at(self, x, y):
        """Where a place of the image is on the screen while the whole image is shown."""
        room = self.page.locator("#canvas").bounding_box()
        scale = 0.96 * min(room["width"] / SHAPE[1], room["height"] / SHAPE[0])
        left = room["x"] + (room["width"] - SHAPE[1] * scale) / 2
        top = room["y"] + (room["height"] - SHAPE[0] * scale) / 2
        return left + x * scale, top + y * scale

    def color(self, x, y):
        """Red, green and blue of the canvas where a place of the image is."""
        room = self.page.locator("#canvas").bounding_box()
        place = [v - room[side] for v, side in zip(self.at(x, y), "xy")]
        return self.page.evaluate(
            """([x, y]) => {
              const canvas = document.getElementById("canvas"), ratio = window.devicePixelRatio;
              return [...canvas.getContext("2d").getImageData(x * ratio, y * ratio, 1, 1).data];
            }""",
            place,
        )[:3]

    def drag(self, *points):
        def act():
            self.page.mouse.move(*self.at(*points[0]))
            self.page.mouse.down()
            for point in points[1:]:
                self.page.mouse.move(*self.at(*point), steps=4)
            self.page.mouse.up()

        self.answered(act)

    def keys(self, *names):
        for name in names:
            self.page.keyboard.press(name)

    def text(self, place):
        return self.page.locator(place).inner_text()


@pytest.fixture
def open_page(browser, served):
    made = []

    def opened(image=0, context=None, address=served[1]):
        one = Page(context or browser.new_context(), address, image)
        made.append(one)
        return one

    yield opened
    for one in made:
        one.page.context.close()
    assert [one.errors for one in made] == [[]] * len(made)


def iou(folder, number):
    mask = read_values(folder / "masks" / f"blob-{number}.png") == 1
    truth = blob(number, SHAPE)[1] == 1
    return (mask & truth).sum() / (mask | truth).sum()


def area(page):
    return int(re.search(r"([\d,]+) px", page.text("#area"))[1].replace(",", ""))


def test_box_stroke_undo_accept(open_page, served):
    folder, _ = served
    page = open_page(0)
    page.drag((28, 12), (100, 84))
    whole = area(page)
    assert whole > 0.9 * blob(0, SHAPE)[1].sum()
    page.keys("0")
    page.drag((64, 40), (64, 56))
    assert area(page) < whole
    page.answered(lambda: page.keys("z"))
    assert area(page) == whole
    page.page.wait_for_selector("#area:has-text('..')")  # the interval has come
    page.answered(lambda: page.keys("Enter"))  # and the next image is opened
    assert page.text("#title") == "blob-1"
    assert iou(folder, 0) > 0.9
    assert "done" in page.page.locator("[data-image='0']").inner_text()


def test_outline_follows_a_stroke_that_is_being_drawn(open_page):
    page = open_page(1)
    page.drag((28, 12), (100, 84))
    whole, answers = area(page), page.answers
    page.keys("s", "0")
    page.page.mouse.move(*page.at(54, 48))
    page.page.mouse.down()
    page.page.mouse.move(*page.at(74, 48), steps=6)
    page.page.wait_for_selector(f"#area:not(:has-text('{whole:,} px'))")
    assert area(page) < whole
    assert page.answers == answers  # still being drawn: nothing is kept
    page.keys("Escape")
    assert area(page) == whole
    page.page.mouse.up()
    page.drag((54, 48), (74, 48))
    assert area(page) < whole
    page.answered(lambda: page.keys("z"))
    assert area(page) == whole


class Late:
    """Answers of the server to some requests, which arrive when the test says so."""

    def __init__(self, page, part, method="POST"):
        self.page, self.method, self.waiting, self.seen = page.page, method, [], 0
        self.held = True
        self.page.route(re.compile(part), self._caught)

    def _caught(self, route):
        if not self.held or route.request.method != self.method:
            route.fallback()
            return
        self.seen += 1
        self.waiting.append((route, route.fetch()))

    def wait(self, count=1):
        for _ in range(3000):
            if len(self.waiting) >= count:
                return
            self.page.wait_for_timeout(20)
        pytest.fail(f"{len(self.waiting)} answers, {count} were expected")

    def arrive(self, which=0):
        """Let an answer arrive; the page may have stopped waiting for it."""
        route, answer = self.waiting.pop(which)
        headers = {k: v for k, v in answer.headers.items() if k != "content-encoding"}
        with contextlib.suppress(playwright.Error):
            route.fulfill(status=answer.status, headers=headers, body=answer.body())
        self.page.wait_for_timeout(150)

    def end(self):
        """Hold nothing more."""
        self.held = False
        while self.waiting:
            self.arrive()


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A folder of images for tests of answers that are late."""
    folder = make_images(tmp_path_factory.mktemp("late") / "images", 8, SHAPE).parent
    with serving(folder, QUICK) as address:
        yield folder, address


OBJECT = (28, 12), (100, 84)


def test_a_stroke_that_is_drawn_while_another_image_opens_belongs_to_the_one_that_is_seen(
    open_page, quick
):
    page = open_page(0, address=quick[1])
    page.drag(*OBJECT)
    whole = area(page)
    page.keys("s", "0")
    opens, marks = Late(page, "/1/open"), Late(page, "/0/marks")
    page.page.click("[data-image='1']")
    opens.wait()
    page.page.mouse.move(*page.at(60, 48))
    page.page.mouse.down()
    page.page.mouse.move(*page.at(70, 48), steps=3)
    page.page.mouse.up()
    page.page.mouse.move(*page.at(10, 10))
    page.page.wait_for_timeout(200)
    assert min(page.color(65, 48)) > 200  # the stroke stays on the image
    page.answered(opens.end)
    marks.wait()
    marks.end()
    assert page.text("#title") == "blob-1"
    assert page.text("#area") == ""  # nothing is drawn on it yet
    page.keys("b")
    page.drag(*OBJECT)
    assert area(page) == pytest.approx(whole, rel=0.2)
    page.open(0)
    assert area(page) < whole
    page.answered(lambda: page.keys("z"))
    assert area(page) == whole


def test_a_stroke_under_way_goes_to_its_image_when_another_one_opens(open_page, quick):
    page = open_page(7, address=quick[1])
    page.drag(*OBJECT)
    whole = area(page)
    page.keys("s", "0")
    opens = Late(page, "/1/open")
    page.page.click("[data-image='1']")
    opens.wait()
    page.page.mouse.move(*page.at(60, 48))
    page.page.mouse.down()
    page.page.mouse.move(*page.at(70, 48), steps=3)
    page.answered(opens.end)
    page.page.mouse.up()
    assert page.text("#title") == "blob-1"
    page.open(7)
    assert area(page) < whole


def test_the_image_that_was_clicked_last_is_shown(open_page, quick):
    page = open_page(0, address=quick[1])
    first, second = Late(page, "/1/open"), Late(page, "/2/open")
    page.page.click("[data-image='1']")
    first.wait()
    page.page.click("[data-image='2']")
    second.wait()
    second.end()
    first.end()
    assert page.text("#title") == "blob-2"
    assert page.page.evaluate("location.hash") == "#image=2"
    assert page.page.locator("#busy").is_hidden()
    page.drag(*OBJECT)
    assert area(page) > 0.9 * blob(2, SHAPE)[1].sum()
    third = Late(page, "/3/open")
    page.keys("n")
    third.wait()
    page.answered(lambda: page.keys("n"))  # the next one of that which is being opened
    third.end()
    assert page.text("#title") == "blob-4"


def test_probabilities_that_are_late_are_not_shown_over_another_image(open_page, quick):
    page = open_page(5, address=quick[1])
    page.drag(*OBJECT)
    page.answered(lambda: page.keys("Enter"))
    page.open(3)
    beliefs = Late(page, "/3/beliefs", "GET")
    page.drag(*OBJECT)
    beliefs.wait()
    page.open(5)  # has a mask, one mark, and no probabilities
    beliefs.end()
    assert page.text("#title") == "blob-5"
    assert ".." not in page.text("#area")


def test_a_preview_that_is_late_does_not_bring_back_a_stroke_that_was_dropped(open_page, quick):
    page = open_page(3, address=quick[1])
    page.answered(lambda: page.keys("Delete"))
    page.keys("b")
    page.drag(*OBJECT)
    whole = area(page)
    previews = Late(page, "/3/marks")
    page.keys("s", "0")
    page.page.mouse.move(*page.at(54, 48))
    page.page.mouse.down()
    page.page.mouse.move(*page.at(74, 48), steps=6)
    previews.wait()
    page.keys("Escape")
    previews.end()
    page.page.mouse.up()
    assert area(page) == whole


def test_a_second_finger_brings_the_outline_back(open_page, browser, quick):
    phone = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    page = open_page(4, phone, address=quick[1])
    page.keys("b")
    page.drag(*OBJECT)
    whole = area(page)
    page.keys("s", "0")
    session = phone.new_cdp_session(page.page)

    def touch(kind, *points):
        places = [{"x": x, "y": y, "id": k} for k, (x, y) in enumerate(points)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": places})

    touch("touchStart", page.at(54, 48))
    touch("touchMove", page.at(64, 48))
    touch("touchMove", page.at(74, 48))
    page.page.wait_for_selector(f"#area:not(:has-text('{whole:,} px'))")
    touch("touchStart", page.at(74, 48), page.at(90, 60))
    page.page.wait_for_selector(f"#area:has-text('{whole:,} px')")
    touch("touchEnd")


def test_accept_takes_the_stroke_that_is_being_drawn(open_page, quick):
    folder, address = quick
    page = open_page(2, address=address)
    if not page.text("#area"):
        page.drag(*OBJECT)
    page.keys("s", "0")
    page.page.mouse.move(*page.at(60, 48))
    page.page.mouse.down()
    page.page.mouse.move(*page.at(70, 48), steps=3)
    page.keys("Enter")
    page.page.wait_for_selector("#message:has-text('is written')")
    page.page.mouse.up()
    mask = read_values(folder / "masks" / "blob-2.png")
    assert (mask[48, 60:70] == 0).all()
    assert mask.any()


def test_an_image_that_was_opened_during_accept_stays_and_a_second_accept_is_none(open_page, quick):
    page = open_page(6, address=quick[1])
    page.drag(*OBJECT)
    accepts = Late(page, "/accept")
    page.keys("Enter", "Enter")
    accepts.wait()
    page.open(1)
    accepts.end()
    page.page.wait_for_selector("#message:has-text('blob-6.png is written')")
    page.page.wait_for_timeout(300)
    assert page.text("#title") == "blob-1"
    assert accepts.seen == 1
    assert "done" in page.page.locator("[data-image='6']").inner_text()


def test_a_list_of_images_that_is_late_replaces_no_newer_one(open_page, quick):
    page = open_page(0, address=quick[1])
    states = Late(page, "/api/state", "GET")
    page.keys("Enter")
    states.wait(1)
    page.open(4)
    page.keys("Enter")
    states.wait(2)
    states.arrive(1)
    page.page.wait_for_selector("[data-image='4']:has-text('done')")
    states.end()
    assert "done" in page.page.locator("[data-image='4']").inner_text()


def test_an_image_that_was_opened_during_an_upload_stays(open_page, quick):
    folder, address = quick
    page = open_page(0, address=address)
    uploads = Late(page, r"/api/images\?name")
    page.page.set_input_files("#file", folder / "images" / "blob-1.png")
    uploads.wait()
    page.open(3)
    uploads.end()
    page.page.wait_for_selector("[data-image='8']")
    page.page.wait_for_timeout(300)
    assert page.text("#title") == "blob-3"


def test_training_that_has_ended_is_not_shown_as_running_again(open_page, quick):
    folder, address = quick
    page = open_page(5, address=address)
    if not page.text("#area"):
        page.drag(*OBJECT)
    page.keys("Enter")
    page.page.wait_for_selector("#message:has-text('is written')")
    states = Late(page, "/api/state", "GET")
    page.keys("t")
    page.page.wait_for_selector("#progress", state="visible")
    page.page.set_input_files("#file", folder / "images" / "blob-2.png")  # asks for the state
    states.wait(2)  # and the end of the training asks again
    states.arrive(1)
    page.page.wait_for_selector("#model:has-text('learned from')")
    page.page.wait_for_timeout(1500)
    opened = []
    page.page.on("request", lambda one: one.url.endswith("/open") and opened.append(one.url))
    states.end()
    page.page.wait_for_timeout(1500)
    assert page.page.locator("#progress").is_hidden()
    assert len(opened) == 1  # what was added, and nothing else


def test_names_are_text_and_images_can_be_dropped(open_page, served):
    page = open_page(4)
    assert page.text("#title") == NASTY
    assert page.page.locator("[data-image='4'] .name").inner_text() == NASTY
    path = served[0] / "images" / "blob-1.png"
    page.answered(lambda: page.page.set_input_files("#file", path))
    assert page.text("#title") == "blob-1 1"
    assert (served[0] / "images" / "blob-1 1.png").read_bytes() == path.read_bytes()


def test_strokes_alone(open_page, served):
    page = open_page(1)
    page.keys("1", "s")
    page.drag((56, 48), (72, 48))
    page.keys("0")
    page.drag((8, 8), (120, 8), (120, 88), (8, 88), (8, 8))
    page.answered(lambda: page.page.click("[data-action=accept]"))
    assert iou(served[0], 1) > 0.9


def test_keys_alone(open_page, served):
    page = open_page(2)
    page.page.locator("#canvas").focus()
    for _ in range(38):  # to a corner of the object's surroundings, then to the opposite one
        page.keys("Shift+ArrowLeft", "Shift+ArrowUp")
    page.keys(" ")
    for _ in range(74):
        page.keys("Shift+ArrowRight", "Shift+ArrowDown")
    page.answered(lambda: page.keys(" "))
    before = area(page)
    assert before > 0.9 * blob(2, SHAPE)[1].sum()
    page.keys("s", "0")
    page.page.keyboard.down(" ")
    page.keys("ArrowLeft", "ArrowLeft")
    page.answered(lambda: page.page.keyboard.up(" "))
    page.answered(lambda: page.keys("z"))
    assert area(page) == before
    for layer in "mcpdkwmcpdkw":
        page.keys(layer)
    page.keys("?")
    assert page.page.locator("#help").is_visible()
    page.keys("Escape", "]", "]", "[", "+", "-", "f", "h", "b")
    page.answered(lambda: page.keys("Enter"))
    assert iou(served[0], 2) > 0.9


def test_reload_keeps_the_work_and_two_tabs_do_not_mix(open_page):
    page = open_page(3)
    page.drag((28, 12), (100, 84))
    page.keys("0")
    page.drag((60, 48), (68, 48))
    marked = area(page)
    page.page.reload()
    page.page.wait_for_selector("body[data-ready]")
    assert page.text("#title") == "blob-3"
    assert area(page) == marked
    other = open_page(3, page.page.context)
    assert area(other) == marked
    other.keys("s", "1")
    other.drag((60, 48), (68, 48))
    page.answered(lambda: page.keys("z"))
    assert area(page) > marked
    page.answered(lambda: page.keys("y"))
    assert area(page) == marked


def test_fingers_on_a_phone(open_page, browser):
    phone = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    page = open_page(3, phone)
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 390
    if page.text("#area"):
        page.answered(lambda: page.keys("Delete"))
    session = phone.new_cdp_session(page.page)

    def touch(kind, *points):
        places = [{"x": x, "y": y, "id": k} for k, (x, y) in enumerate(points)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": places})

    def drawn():
        touch("touchStart", page.at(28, 12))
        touch("touchMove", page.at(60, 50))
        touch("touchMove", page.at(100, 84))
        touch("touchEnd")

    page.answered(drawn)
    assert area(page) > 0.9 * blob(3, SHAPE)[1].sum()
    zoom, answers = page.text("#zoom"), page.answers
    touch("touchStart", page.at(60, 48), page.at(70, 48))
    touch("touchMove", page.at(40, 48), page.at(90, 48))
    touch("touchEnd")
    assert page.text("#zoom") != zoom
    page.keys("f")
    assert page.text("#zoom") == zoom
    assert page.answers == answers  # two fingers draw nothing


def check_learning(page):
    """Accept two masks, learn from them, and get a third image proposed."""
    for image in (0, 1):
        page.open(image)
        page.drag((28, 12), (100, 84))
        page.answered(lambda: page.keys("Enter"))
    page.open(3)
    if page.text("#area"):
        page.answered(lambda: page.keys("Delete"))
    assert page.text("#area") == ""
    page.keys("t")
    page.page.wait_for_selector("#model:has-text('learned from')", timeout=90_000)
    page.page.wait_for_selector("#area:has-text('px')")  # proposed without any mark
    assert area(page) > 0.7 * blob(3, SHAPE)[1].sum()


def test_learn_and_use_the_new_model(open_page):
    check_learning(open_page(0))


def test_learn_with_the_features_that_fit_chooses(open_page, tmp_path):
    """Trees, or a net, are trained behind the page as from the command line."""
    make_images(tmp_path / "images", 4, SHAPE)
    with serving(tmp_path, "--features auto --budget fast") as address:
        page = open_page(0, address=address)
        check_learning(page)
    assert (tmp_path / ".masks.cutlearn" / "learned.model").exists()


# What takes part in the page must have a role and a name that says what it is.
NAMED = {
    "button": 20, "checkbox": 6, "radio": 2, "slider": 1, "combobox": 1, "navigation": 1,
    "toolbar": 1, "radiogroup": 1, "complementary": 1, "application": 1,
}  # fmt: skip


def test_a_screen_reader_finds_everything_by_role_and_name(open_page):
    page = open_page(0)
    for role, fewest in NAMED.items():
        found = page.page.get_by_role(role)
        assert found.count() >= fewest, role
        told = page.page.locator("body").aria_snapshot().splitlines()
        said = [line.strip() for line in told if re.match(rf"\s*- {role}\b", line)]
        assert all(re.match(rf'- {role} "[^"]+"', line) for line in said), said
    for role in ("banner", "main"):
        assert page.page.get_by_role(role).count() == 1
    assert page.page.get_by_role("application", name="Image blob-0").count() == 1
    assert page.page.get_by_role("slider", name="Brush").count() == 1
    page.keys("b")
    assert page.page.get_by_role("button", name="Box", pressed=True).count() == 1
    page.keys("0")
    assert page.page.get_by_role("radio", name="background", checked=True).count() == 1
    # What changes is told without being asked for: the area, and where the cursor is.
    for place in ("#area", "#live"):
        assert page.page.locator(place).get_attribute("aria-live") == "polite"
    page.page.locator("#canvas").focus()
    page.keys("ArrowRight")
    page.page.wait_for_selector(
        "#live:text-matches('row [0-9]+, column [0-9]+: ')", state="attached"
    )
    page.keys("?")
    assert page.page.get_by_role("dialog", name="How it works").count() == 1
    page.keys("Escape")
