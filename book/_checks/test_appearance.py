"""The page of every element looks as on the pictures that were kept, in light and dark, on a phone and a screen."""

from pathlib import Path

import appearance
import pytest
from appearance import MODES, PICTURES, compare, with_few_colors
from PIL import Image, ImageDraw
from playwright.sync_api import Browser

NAMES = [f"{mode.width}-{mode.scheme}.png" for mode in MODES]


@pytest.fixture(scope="module")
def pictures(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Image.Image]:
    return appearance.take_pictures(browser, appearance.build_specimen(tmp_path_factory.mktemp("specimen") / "it"))


def test_the_page_of_all_elements_looks_as_before(pictures: dict[str, Image.Image]) -> None:
    assert list(pictures) == NAMES
    assert [said for name, picture in pictures.items() if (said := compare(name, picture))] == []


def kept(folder: Path) -> Image.Image:
    picture = Image.new("RGB", (400, 300), "white")
    ImageDraw.Draw(picture).text((10, 10), "A line of text", fill="black")
    with_few_colors(picture).save(folder / "a.png")
    return picture


def test_another_colour_another_size_and_a_missing_picture_are_told_and_shades_are_not(tmp_path: Path) -> None:
    picture = kept(tmp_path)
    assert compare("a.png", picture.point(lambda value: max(value - 20, 0)), tmp_path) is None
    assert "400 x 200 pixels, was 400 x 300" in str(compare("a.png", picture.crop((0, 0, 400, 200)), tmp_path))
    assert "there is no such picture" in str(compare("b.png", picture, tmp_path))
    ImageDraw.Draw(picture).text((10, 10), "A line of text", fill="teal")
    said = str(compare("a.png", picture, tmp_path))
    assert "looks different" in said
    assert "make pictures" in said


def test_the_kept_pictures_are_small() -> None:
    assert sorted(path.name for path in PICTURES.iterdir()) == sorted(NAMES)
    assert sum(path.stat().st_size for path in PICTURES.iterdir()) < 1_500_000
