// What the explorers of pages share: fields with labels and hints, charts with a line that says what one looks at, SVG.
"use strict";

globalThis.explorers ??= {};

{
  const { element } = globalThis.machines;
  const SVG = "http://www.w3.org/2000/svg";

  /** A group of fields under its name. */
  explorers.fieldset = (legend, ...children) => element("fieldset", { class: "explorer-fields" }, element("legend", {}, legend), ...children);

  /** A form that is never sent. */
  explorers.form = (className, label, ...children) => {
    const made = element("form", { class: `explorer-form ${className}`, "aria-label": label }, ...children);
    made.addEventListener("submit", (event) => event.preventDefault());
    return made;
  };

  /** A field for text: its input, the hint below it, and the place that holds both and the label. */
  explorers.field = (id, label, hint) => {
    const input = element("input", { id, type: "text", autocomplete: "off", spellcheck: "false", "aria-describedby": `${id}-hint` });
    const said = element("span", { id: `${id}-hint`, class: "explorer-hint" }, hint);
    return { input, said, place: element("p", {}, element("label", { for: id }, label), input, said) };
  };

  /** What the page shows instead of an explorer where there is no JavaScript: the ids are in `data-instead`. */
  const instead = (place) => place.dataset.instead.split(" ").flatMap((id) => document.getElementById(id) ?? []);

  /** Calls `begin` once a reader comes within some screens of an explorer, or of what stands there until then. */
  explorers.whenNear = (place, begin) => {
    const watcher = new IntersectionObserver(
      (seen) => {
        if (!seen.some(({ isIntersecting }) => isIntersecting)) return;
        watcher.disconnect();
        begin();
      },
      { rootMargin: "200%" },
    );
    for (const each of [place, ...instead(place)]) watcher.observe(each);
  };

  /** What the script at `address` gives as the global `name`; fetched when first needed, as a script for file://. */
  explorers.load = (address, name) =>
    new Promise((resolve, reject) => {
      if (globalThis[name]) return resolve(globalThis[name]);
      const script = element("script", { src: address });
      script.addEventListener("load", () => resolve(globalThis[name]));
      script.addEventListener("error", () => reject(new Error(`${address} cannot be read`)));
      document.head.append(script);
    });

  /** Hides what the page shows instead of the explorer. */
  explorers.takeOver = (place) => {
    const section = place.closest("section[id]");
    explorers.anchor = section ? `#${section.id}` : "";
    for (const still of instead(place)) still.hidden = true;
    place.classList.add("drawn");
  };

  /** An SVG element with attributes and children. */
  explorers.svg = (name, attributes = {}, ...children) => {
    const made = document.createElementNS(SVG, name);
    for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
    made.append(...children);
    return made;
  };

  /** A group that can have the focus, and says what it is to who does not see it. */
  explorers.target = (className, label, onShow, ...children) => {
    const group = explorers.svg("g", { class: className, tabindex: "0", role: "img", "aria-label": label }, ...children);
    for (const event of ["focus", "pointerenter", "click"]) group.addEventListener(event, () => onShow(label, group));
    return group;
  };

  /** Axes as the book's figures have them: a group with their lines and names, to which ticks are added. */
  explorers.axes = ({ width, height, margin }, across, upwards) => {
    const middle = (height - margin.bottom) / 2;
    const [bottom, right] = [height - margin.bottom, width - margin.right];
    return explorers.svg(
      "g",
      { class: "explorer-axes", "aria-hidden": "true" },
      explorers.svg("path", { d: `M${margin.left},${margin.top}V${bottom}H${right}` }),
      explorers.svg("text", { x: (margin.left + width - margin.right) / 2, y: height - 6, "text-anchor": "middle" }, across),
      explorers.svg("text", { x: 12, y: middle, "text-anchor": "middle", transform: `rotate(-90 12 ${middle})` }, upwards),
    );
  };

  /** A tick of the lower axis, or of the left one, and its text. */
  explorers.tick = ({ height, margin }, { x, y }, text) => {
    const bottom = height - margin.bottom;
    return x === undefined
      ? [explorers.svg("path", { d: `M${margin.left},${y}h-4` }), explorers.svg("text", { x: margin.left - 8, y: y + 4, "text-anchor": "end" }, text)]
      : [explorers.svg("path", { d: `M${x},${bottom}v4` }), explorers.svg("text", { x, y: bottom + 18, "text-anchor": "middle" }, text)];
  };

  /** What the page's address says of an explorer, so that its state can be handed on. */
  explorers.address = {
    get: (name) => new URLSearchParams(location.search).get(name),
    /** Keeps a text under a name, or nothing if it is empty; from a folder a browser may refuse. */
    set(name, text) {
      const query = new URLSearchParams(location.search);
      if (text) query.set(name, text);
      else query.delete(name);
      const said = query.toString();
      try {
        history.replaceState(null, "", `${location.pathname}${said ? `?${said}` : ""}${location.hash || explorers.anchor}`);
      } catch {
        // The address stays as it is.
      }
    },
  };

  /** The place of a drawing, and the line below it that says what the reader looks at. */
  explorers.Chart = class {
    constructor(hint) {
      this.place = element("div", { class: "explorer-chart" });
      this.readout = element("p", { class: "explorer-readout" }, hint);
    }
    /** Shows what `draw(width, onShow)` returns, `onShow` being told what the reader looks at. */
    show(draw) {
      const onShow = (label, group) => {
        this.readout.textContent = label;
        for (const other of this.place.querySelectorAll(".seen")) other.classList.remove("seen");
        group.classList.add("seen");
      };
      this.place.replaceChildren(draw(Math.max(Math.floor(this.place.clientWidth), 260), onShow));
    }
    /** Says why there is no drawing. */
    lack(why) {
      this.place.replaceChildren(element("p", {}, why));
    }
  };
}
