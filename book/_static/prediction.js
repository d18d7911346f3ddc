// Judges a reader's guess as the answer unfolds, which alone says it, and shows all answers to who asks for them. Nothing
// leaves the page; a reload keeps the guess.
"use strict";

{
  const number = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });

  /** Returns the number typed, with or without commas for thousands, × or %; NaN if it is none. */
  const parsed = (text) => {
    const plain = text.trim().replace(/[\s\u202f\u00a0]/g, "").replace("\u2212", "-").replace(/[×x%]$/i, "");
    const grouped = /^-?\d{1,3}(,\d{3})+(\.\d+)?$/.test(plain) ? plain.replaceAll(",", "") : plain.replace(",", ".");
    return grouped === "" ? NaN : Number(grouped);
  };

  /** Returns how far a guess is off, in words: from the value, or where two ends are shown from the nearer. In base units. */
  const judged = (guess, about) => {
    const [low, high] = [Number(about.low), Number(about.high)];
    const slack = 1e-9 * Math.abs(guess); // 1.1 times a thousandth is a little more than 0.0011
    if (guess + slack >= low && guess - slack <= high) return about.right;
    const value = about.value === undefined ? (guess > high ? high : low) : Number(about.value);
    const direction = guess > value ? "too high" : "too low";
    if (about.scale === "log" && guess > 0) {
      const factor = Math.max(guess / value, value / guess);
      return factor < 1.2
        ? `${direction}, by ${number.format((factor - 1) * 100)} %`
        : `${direction}, by a factor of ${number.format(factor)}`;
    }
    if (about.scale === "log") return `${direction}, because the answer is above zero`;
    const off = Math.abs(guess - value) / Number(about.factor);
    return `${direction}, by ${number.format(off)} ${about.difference}`.trimEnd();
  };

  const ANSWERS = "details:is(.predict-answer, .predict-later)";

  /** The browser keeps for all pages whether answers stand open; one that keeps nothing asks for guesses. */
  const shownAtOnce = (chosen) => {
    try {
      if (chosen !== undefined) localStorage.setItem("book-answers", chosen ? "show" : "guess");
      return localStorage.getItem("book-answers") === "show";
    } catch {
      return chosen ?? false;
    }
  };

  /** Opens all answers with their figures, or closes those that nobody guessed. */
  const showAnswers = (open) => {
    for (const answer of document.querySelectorAll(ANSWERS)) answer.open = open;
    for (const form of document.querySelectorAll("form.predict-form[data-rightly]")) unfold(form);
  };

  /** Adds the choice between guessing and reading at the top of the page. */
  const offerAnswers = () => {
    const [first, second] = [["guess", "Guess first"], ["show", "Just show me"]].map(([value, words]) => {
      const label = document.createElement("label");
      const input = Object.assign(document.createElement("input"), { type: "radio", name: "answers", value });
      input.checked = (value === "show") === shownAtOnce();
      input.addEventListener("change", () => showAnswers(shownAtOnce(value === "show")));
      label.append(input, words);
      return label;
    });
    const choice = document.createElement("fieldset");
    const legend = Object.assign(document.createElement("legend"), { textContent: "Answers:" });
    choice.append(legend, first, second);
    choice.className = "answers-choice";
    document.querySelector(".page-tools")?.append(choice);
  };

  /** Session storage may be switched off, or forbidden to a page that was opened from a folder. */
  const remembered = (key, value) => {
    try {
      if (value === undefined) return JSON.parse(sessionStorage.getItem(key));
      sessionStorage.setItem(key, JSON.stringify(value));
    } catch {
      // The guess is gone after a reload, and nothing else.
    }
    return null;
  };

  const unitOf = (form) => {
    const choice = form.querySelector("select");
    if (choice) return { factor: Number(choice.value), name: choice.selectedOptions[0].textContent };
    const unit = form.querySelector(".unit");
    return { factor: Number(unit.dataset.factor), name: unit.textContent };
  };

  /** Returns what to say to a typed number, or null if it is none. */
  const numberOutcome = (form) => {
    const input = form.querySelector("input");
    const guess = parsed(input.value);
    const valid = Number.isFinite(guess);
    input.setAttribute("aria-invalid", String(!valid));
    if (!valid) return null;
    const unit = unitOf(form);
    const said = `${input.value.trim().replace(/\s*[×x%]$/i, "")}${unit.name === "×" ? "" : "\u00a0"}${unit.name}`.trim();
    return `You said ${said}: ${judged(guess * unit.factor, form.dataset)}.`;
  };

  /** Returns what to say to a choice, or null if there is none. */
  const choiceOutcome = (form) => {
    const chosen = form.querySelector("input:checked");
    if (!chosen) return null;
    const word = form.dataset.word;
    return chosen.value === word ? `You said “${word}”: right.` : `You said “${chosen.value}”, but this build found a different answer.`;
  };

  const stateOf = (form) => ({
    value: form.querySelector('input[type="text"], input:checked')?.value,
    unit: form.querySelector("select")?.value,
  });

  const restore = (form, state) => {
    const unit = form.querySelector("select");
    if (unit && state.unit) unit.value = state.unit;
    const text = form.querySelector('input[type="text"]');
    if (text) text.value = state.value ?? "";
    for (const choice of form.querySelectorAll('input[type="radio"]')) choice.checked = choice.value === state.value;
  };

  /** Says at the page's end how many were guessed, and how many of these rightly. */
  const tally = () => {
    const forms = [...document.querySelectorAll("form.predict-form")];
    const guessed = forms.filter((form) => form.dataset.rightly !== undefined);
    let line = document.querySelector(".predict-tally");
    if (!line) {
      line = document.createElement("p");
      line.className = "predict-tally";
      document.querySelector("article, main").append(line);
    }
    const right = guessed.filter((form) => form.dataset.rightly === "true").length;
    line.textContent = `${guessed.length} of ${forms.length} questions answered, ${right} correct.`;
  };

  /** Opens the answer of a question, and what shows it further down. */
  const unfold = (form) => {
    form.parentElement.querySelector("details.predict-answer").open = true;
    for (let next = form.parentElement.nextElementSibling; next && !next.matches(".predict, section"); next = next.nextElementSibling)
      if (next.matches("details.predict-later")) next.open = true;
  };

  const check = (form) => {
    const isNumber = form.dataset.low !== undefined;
    const said = isNumber ? numberOutcome(form) : choiceOutcome(form);
    const outcome = form.parentElement.querySelector(".predict-outcome");
    outcome.textContent = said ?? (isNumber ? "Type a number, such as 2.5." : "Choose one of the answers.");
    if (said === null) {
      form.querySelector("input").focus();
    } else {
      form.dataset.rightly = String(said.endsWith(`${form.dataset.right ?? "right"}.`));
      unfold(form);
      tally();
    }
    return said !== null;
  };

  document.addEventListener("DOMContentLoaded", () => {
    for (const form of document.querySelectorAll("form.predict-form")) {
      const key = `prediction ${location.pathname} ${form.id} ${form.dataset.key}`;
      form.hidden = false;
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        if (check(form)) remembered(key, stateOf(form));
      });
      const state = remembered(key);
      if (state) {
        restore(form, state);
        check(form);
      }
    }
    offerAnswers();
    if (shownAtOnce()) showAnswers(true);
    // On paper a question without its answer is of no use.
    const folds = document.getElementsByClassName("fold");
    let closed = [];
    addEventListener("beforeprint", () => {
      closed = [...folds].filter((fold) => !fold.open);
      for (const fold of closed) fold.open = true;
    });
    addEventListener("afterprint", () => {
      for (const fold of closed) fold.open = false;
    });
  });
}
