"""A browser reads a chapter's result and takeaways aloud, with a voice of the device alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from made_page import made_page
from playwright.sync_api import Browser, Page

CONTENT = """<div class="chapter-result"><p>It took <button class="measured"><span class="value">2.0</span>&nbsp;<span
class="unit">ns</span></button><span popover>Measured: a median.</span>.</p><ul><li><p>Speedup: <button
class="measured"><span class="value">3</span><span class="unit">×</span></button></p></li></ul></div>
<div class="page-tools"></div><p>Text between.</p>
<div class="admonition takeaway"><p class="admonition-title">Takeaway</p><p>Count first. Then measure.</p></div>"""
SENTENCES = ["It took 2.0 nanoseconds.", "Speedup: 3 times.", "Count first.", "Then measure."]
#: Speech of a browser that never ends a sentence by itself, with voices of which the test says whether they are local.
SPEECH = """(isLocal) => {
  const spoken = [];
  class Utterance extends EventTarget {
    constructor(text) { super(); this.text = text; }
  }
  const synthesis = {
    spoken, cancelled: 0,
    getVoices: () => [{ localService: false, lang: "en-GB" }, { localService: isLocal, lang: "en-US", name: "here" }],
    speak: (said) => spoken.push(said),
    cancel: () => { synthesis.cancelled += 1; },
    addEventListener: () => {},
  };
  Object.defineProperty(window, "speechSynthesis", { value: synthesis });
  window.SpeechSynthesisUtterance = Utterance;
}"""
SPOKEN = "speechSynthesis.spoken.map(({ text, rate, voice }) => [text, rate, voice.name])"
END = "speechSynthesis.spoken.at(-1).dispatchEvent(new Event('end'))"


@contextmanager
def speaking(browser: Browser, path: Path, *, is_local: bool) -> Iterator[Page]:
    page = browser.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.add_init_script(f"({SPEECH})({str(is_local).lower()})")
    page.goto(path.as_uri())
    yield page
    assert errors == []
    page.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a chapter with a result and a takeaway."""
    return made_page(tmp_path_factory.mktemp("listen"), [], ["listen.js"], CONTENT)


def test_result_and_takeaways_are_read_sentence_by_sentence_with_their_numbers(browser: Browser, site: Path) -> None:
    with speaking(browser, site, is_local=True) as page:
        button: Any = page.locator("button.listen")
        button.click()
        for _ in SENTENCES:
            page.evaluate(END)
        assert page.evaluate(SPOKEN) == [[sentence, 1, "here"] for sentence in SENTENCES]
        assert button.inner_text() == "Listen to the takeaways", "at the end it can be heard again"


def test_a_pause_and_another_speed_go_on_with_the_sentence(browser: Browser, site: Path) -> None:
    with speaking(browser, site, is_local=True) as page:
        button, speed = page.locator("button.listen"), page.get_by_label("Speed of the voice")
        assert not speed.is_visible()
        button.click()
        page.evaluate(END)
        button.click()
        page.evaluate(END)  # of the sentence that was cancelled
        assert (button.inner_text(), page.evaluate("speechSynthesis.cancelled")) == ("Go on", 1)
        button.click()
        speed.select_option("1.5")
        assert page.evaluate(SPOKEN) == [
            [SENTENCES[0], 1, "here"],
            [SENTENCES[1], 1, "here"],
            [SENTENCES[1], 1, "here"],
            [SENTENCES[1], 1.5, "here"],
        ]


def test_without_a_voice_of_the_device_nothing_is_offered(browser: Browser, site: Path) -> None:
    with speaking(browser, site, is_local=False) as page:
        assert page.locator(".page-tools > *").count() == 0
