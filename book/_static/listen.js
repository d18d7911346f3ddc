// Reads the result and the takeaways of a chapter aloud, with a voice of the device, so that no text leaves it. Where there
// is no such voice, there is no button.
"use strict";

{
  const RATES = [0.75, 1, 1.25, 1.5, 2];
  const SPOKEN = {
    "×": "times", "%": "percent", "ns": "nanoseconds", "µs": "microseconds", "μs": "microseconds", "ms": "milliseconds", "s": "seconds",
    "B": "bytes", "KiB": "kibibytes", "MiB": "mebibytes", "GiB": "gibibytes", "kB": "kilobytes", "MB": "megabytes", "GB": "gigabytes",
    "GB/s": "gigabytes per second", "MFLOP": "megaflops", "GFLOP": "gigaflops", "GFLOP/s": "gigaflops per second", "dB": "decibels",
  };

  /** A voice that speaks on this device, in the language of the page. */
  const localVoice = () => speechSynthesis.getVoices().find((voice) => voice.localService && voice.lang.startsWith(document.documentElement.lang));

  /** Returns what is read of a part of the page: without what stands behind numbers, and with units and formulas in words. */
  const spoken = (part) => {
    const copy = part.cloneNode(true);
    for (const hidden of copy.querySelectorAll("[popover], .headerlink, .admonition-title, .kind-tag, .measured.why")) hidden.remove();
    for (const unit of copy.querySelectorAll(".unit")) unit.textContent = ` ${SPOKEN[unit.textContent.trim()] ?? unit.textContent}`;
    for (const formula of copy.querySelectorAll("math")) formula.textContent = formula.getAttribute("alttext") ?? formula.textContent;
    const text = copy.textContent.replace(/\s+/g, " ").trim();
    return /[.?!]$/.test(text) ? text : `${text}.`;
  };

  /** The sentences: each is said on its own, because browsers stop in the middle of long ones. */
  const script = () =>
    [...document.querySelectorAll(".chapter-result > p, .chapter-result li, .admonition.takeaway")]
      .flatMap((part) => spoken(part).split(/(?<=[.?!])\s+(?=[A-Z])/));

  const offer = (tools) => {
    const button = Object.assign(document.createElement("button"), { type: "button", className: "listen" });
    const rate = Object.assign(document.createElement("select"), { ariaLabel: "Speed of the voice", hidden: true });
    rate.append(...RATES.map((each) => new Option(`${each} ×`, each, each === 1, each === 1)));
    const sentences = script();
    let [next, run, speaking] = [0, 0, false];
    const show = () => {
      button.textContent = speaking ? "Pause" : next ? "Go on" : "Listen to the takeaways";
      rate.hidden = !speaking && !next;
    };
    const stop = () => {
      run += 1; // what the cancelled sentence still tells belongs to an earlier run
      speaking = false;
      speechSynthesis.cancel();
    };
    const speak = () => {
      const mine = ++run;
      speaking = next < sentences.length;
      if (!speaking) next = 0;
      show();
      if (!speaking) return;
      const said = Object.assign(new SpeechSynthesisUtterance(sentences[next]), { voice: localVoice(), rate: Number(rate.value) });
      said.addEventListener("end", () => {
        if (mine !== run) return;
        next += 1;
        speak();
      });
      speechSynthesis.speak(said);
    };
    button.addEventListener("click", () => {
      if (!speaking) return speak();
      stop();
      return show();
    });
    rate.addEventListener("change", () => {
      if (!speaking) return;
      stop();
      speak(); // the sentence again, at the new speed
    });
    addEventListener("pagehide", stop);
    show();
    tools.prepend(button, rate);
  };

  document.addEventListener("DOMContentLoaded", () => {
    const tools = document.querySelector(".page-tools");
    if (!tools || !("speechSynthesis" in globalThis)) return;
    // Voices may be known only later.
    const offerOnce = () => {
      if (localVoice() && !tools.querySelector(".listen")) offer(tools);
    };
    offerOnce();
    speechSynthesis.addEventListener?.("voiceschanged", offerOnce);
  });
}
