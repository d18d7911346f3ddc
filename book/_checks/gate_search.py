"""Gate: the search finds sections, with excerpts and words marked where it leads, and answers what readers ask."""

import re
import time

from chromium import Mode, opened, watch
from playwright.sync_api import Browser

SCREEN = Mode(1280, "light")
PAGE = "search.html"
#: A word of every book, and what is in none: a word, and signs that an index of words holds none of.
WORD, NO_WORDS = "page", ("qqqxxzz", "±", "💯")
#: What readers type, and with what one of the first two addresses that they are led to begins.
QUESTIONS = {
    "why is my int8 slower": "quantization.html#",
    "arithmetic intensity": "glossary.html#term-arithmetic-intensity",
    "AVX2": "acceleration.html#",
    "kv cache memory": "memoization.html#",
    "how do I make my model faster": "whole_model.html#choosing-a-technique",
    "zero point": "glossary.html#term-zero-point",
    "GQA": "memoization.html#ways-to-make-a-cache-smaller",
    "is my benchmark wrong": "benchmarking.html#benchmarking",
    "how many samples do I need": "glossary.html#term-sample",
    "how much memory does training take": "profiling.html#where-the-memory-goes",
    "pruning does not make it faster": "compression.html#",
    "what is a ridge point": "glossary.html#term-ridge-point",
    "cache line": "glossary.html#term-cache-line",
    "speculative decodign": "glossary.html#term-speculative-decoding",
    "what is a pro\ufb01ler": "glossary.html#term-profiler",  # a ligature, as text copied from a PDF has it
    "pipeline bubble": "glossary.html#term-bubble",
    "all-reduce time": "distributed.html#ring-all-reduce",
    "bfloat16": "quantization.html#on-gpus-and-in-large-models",
    "OOM": "profiling.html#where-the-memory-goes",
    "tok/s": "memoization.html#the-ridge-in-tokens",
    "flops vs macs": "profiling.html#counting-flops",
    "onnx file": "your_model.html#",
    "coordinated omission": "benchmarking.html#",
    "matrix multiplication tiling": "acceleration.html#",
    "quantize_model": "reference/quantization.html#tinytorch.perf.quantization.quantize_model",
}
#: Of the questions in `book/search.txt`, one in this many is asked.
ONE_IN = 4
#: Ends a search that hangs; a busy machine is not an error.
SECONDS = 60


def check(browser: Browser, base: str) -> list[str]:
    """Return what the search of the site at ``base`` does wrong, a line for each."""
    problems: list[str] = []
    with opened(browser, SCREEN) as page:
        traffic = watch(page, base)

        def wait(what: str, otherwise: str) -> bool:
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                # Not `wait_for_function`, which the page's policy forbids: it evaluates text within the page.
                if page.evaluate(what):
                    return True
                page.wait_for_timeout(50)
            problems.append(otherwise)
            return False

        page.goto(f"{base}/{PAGE}?q={WORD}", wait_until="networkidle")
        excerpt = "document.querySelector('#search-results li p.context mark')"
        if wait(f"!!{excerpt}", f"the search for {WORD!r} shows no excerpt with the word marked"):
            page.locator("#search-results li a").first.click()
            page.wait_for_load_state("networkidle")
            wait(
                "location.search.includes('highlight') && CSS.highlights.has('found')",
                "the page that the search leads to does not mark the words",
            )
            page.keyboard.press("Control+k")
            field = "document.activeElement?.matches('input[name=q]')"
            wait(field, "Control+K leads to no field to search with")
        page.goto(f"{base}/{PAGE}", wait_until="load")
        for word in NO_WORDS:
            page.locator("#search-words").fill(word)
            said = f"document.querySelector('#search-progress').textContent.includes('{word}')"
            wait(said, f"the search for {word!r}, which finds nothing, does not say so")
        known = page.evaluate("globalThis.searchIndex?.map(([, address]) => address) ?? []")
        listed: list[list[str]] = page.evaluate("globalThis.searchQuestions ?? []")
        asked = [(question, begin, 2) for question, begin in QUESTIONS.items()]
        asked += [(question.partition(",")[0], address, 1) for question, address in listed[::ONE_IN]]
        for question, begin, most in asked:
            if begin.partition("#")[0] in known:
                page.locator("#search-words").fill(question)
                page.locator("#search-words").press("Enter")
                links = page.locator("#search-results li > a").all()[:most]
                first = [re.sub(r"\?[^#]*", "", str(link.get_attribute("href"))) for link in links]
                if not any(address.startswith(begin) for address in first):
                    problems.append(f"who asks {question!r} is led to {first}, not to {begin}")
        problems += traffic.problems
    return list(dict.fromkeys(problems))
