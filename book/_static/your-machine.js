// Takes a reader's file of measurements, in the browser alone, and shows it beside the book's. Nothing is sent.
"use strict";

{
  const KEPT = "your-machine";
  const UNREADABLE = "This file cannot be read here.";
  const element = globalThis.machines.element;

  /** The book's own measurements and the rules for files. */
  const loadBook = (address) => explorers.load(address, "tinytorchBook");

  /** What the browser keeps for this page; a browser that keeps nothing has none. */
  const storage = {
    get() {
      try {
        return localStorage.getItem(KEPT);
      } catch {
        return null;
      }
    },
    /** Returns whether it worked. */
    set(text) {
      try {
        if (text === null) localStorage.removeItem(KEPT);
        else localStorage.setItem(KEPT, text);
        return true;
      } catch {
        return false;
      }
    },
  };

  class YourMachine {
    constructor(place) {
      this.place = place;
      this.text = null;
      this.input = element("input", { type: "file", accept: ".json,application/json", id: "your-machine-file" });
      this.keep = element("input", { type: "checkbox", id: "your-machine-keep" });
      this.forget = element("button", { type: "button", class: "your-machine-forget" }, "Remove it");
      this.status = element("p", { role: "status", class: "your-machine-status" });
      this.results = element("div", { class: "your-machine-results" });
      this.options = element(
        "p",
        { class: "your-machine-options" },
        element("label", {}, this.keep, " Keep it in this browser for my next visit"),
        this.forget,
      );
      this.zone = element(
        "div",
        { class: "your-machine-zone" },
        element("label", { for: "your-machine-file" }, "Drop your file here, or choose it:"),
        this.input,
      );
      this.own = element("button", { type: "button", class: "your-machine-own" }, "No file yet? Show the book's own file");
      this.zone.append(this.own);
      this.options.hidden = true;
      place.replaceChildren(this.zone, this.status, this.options, this.results);
      this.listen();
      const kept = storage.get();
      if (kept !== null) {
        this.keep.checked = true;
        this.show(kept).catch(() => this.refuse(UNREADABLE));
      }
    }

    listen() {
      this.input.addEventListener("change", () => this.take(this.input.files[0]));
      this.forget.addEventListener("click", () => this.clear());
      this.own.addEventListener("click", () => this.showOwn());
      this.keep.addEventListener("change", () => this.remember());
      // A file that misses the zone must not replace the page.
      for (const event of ["dragover", "drop"]) addEventListener(event, (dragged) => dragged.preventDefault());
      this.zone.addEventListener("dragover", () => this.zone.classList.add("over"));
      this.zone.addEventListener("dragleave", () => this.zone.classList.remove("over"));
      this.zone.addEventListener("drop", (dropped) => {
        this.zone.classList.remove("over");
        this.take(dropped.dataTransfer.files[0]);
      });
    }

    async take(file) {
      if (!file) return;
      try {
        const { limits } = await loadBook(this.place.dataset.book);
        if (file.size > limits.largest_bytes) {
          this.refuse(`This file is larger than ${limits.largest_bytes / 2 ** 20} MiB, so it was not read.`);
        } else {
          await this.show(await file.text());
        }
      } catch {
        this.refuse(UNREADABLE);
      }
      this.input.value = ""; // else the same file, changed, could not be chosen again
    }

    async showOwn() {
      try {
        const { measurements } = await loadBook(this.place.dataset.book);
        await this.show(JSON.stringify(measurements));
      } catch {
        this.refuse(UNREADABLE);
      }
    }

    async show(text) {
      const book = await loadBook(this.place.dataset.book);
      const { document: found, message } = machines.read(text, book);
      if (!found) {
        this.refuse(message);
        return;
      }
      this.text = text;
      const { summary, nodes } = machines.beside(found, book.measurements, book.titles);
      this.results.replaceChildren(...nodes);
      this.options.hidden = false;
      this.say(summary);
      this.tell(found);
      if (this.keep.checked) this.remember();
    }

    /** Says why a file is not shown; an earlier good one stays. */
    refuse(message) {
      if (this.text === null) {
        this.keep.checked = false;
        storage.set(null);
      }
      this.say(this.text === null ? message : `${message} The page still shows the earlier file.`);
    }

    clear() {
      this.text = null;
      this.keep.checked = false;
      storage.set(null);
      this.results.replaceChildren();
      this.options.hidden = true;
      this.tell(null);
      this.say("Your file was removed from this page and from this browser.");
      this.input.focus();
    }

    remember() {
      if (storage.set(this.keep.checked ? this.text : null)) return;
      this.keep.checked = false;
      this.say("This browser does not allow this page to keep files.");
    }

    say(message) {
      this.status.textContent = message;
    }

    /** Tells the roofline of this page. */
    tell(found) {
      document.dispatchEvent(new CustomEvent("your-machine", { detail: found }));
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const place of document.querySelectorAll("[data-book].your-machine")) new YourMachine(place);
  });
}
