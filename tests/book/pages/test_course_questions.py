"""The list of the course's thinking questions: each leads to sections that the book has."""

import re
from pathlib import Path

BOOK = Path(__file__).resolve().parents[3] / "book"
QUESTIONS = BOOK / "reference" / "questions.md"


def test_every_question_leads_to_sections_that_are_there() -> None:
    rows = [line.split("|")[1:-1] for line in QUESTIONS.read_text("utf-8").splitlines() if line.startswith("| ")]
    asked = [row for row in rows if row[0].strip() != "The course asks"]
    assert len(asked) == 12
    for question, answer, places in asked:
        assert question.strip().endswith("?")
        assert answer.strip()
        found = re.findall(r"\{ref\}`[^<`]+<([\w-]+)>`, \*([^*]+)\*", places)
        assert len(found) == places.count("{ref}") > 0, places
        for label, heading in found:
            page = (BOOK / f"{label.replace('-', '_')}.md").read_text("utf-8")
            assert f"({label})=" in page, label
            assert f"\n## {heading}\n" in page, (label, heading)


def test_the_questions_of_a_chapter_name_the_list() -> None:
    for name in ("reference/index", "profiling", "acceleration"):
        assert "<reference-questions>`" in (BOOK / f"{name}.md").read_text("utf-8"), name
