// Shows the current page in the list of chapters, marks the section that is being read and the chapters that were, closes
// menus that are left, makes what can be scrolled a stop of the keyboard, and finds the search.
"use strict";

{
  const markSections = () => {
    const links = new Map();
    for (const link of document.querySelectorAll("#page-contents a[href^='#']"))
      links.set(decodeURIComponent(link.hash.slice(1)), link);
    const sections = [...links.keys()].map((name) => document.getElementById(name)).filter(Boolean);
    let waiting = false;
    const mark = () => {
      waiting = false;
      const above = sections.filter((section) => section.getBoundingClientRect().top < innerHeight / 3);
      const current = above.length ? links.get(above[above.length - 1].id) : null;
      for (const link of links.values()) {
        if (link === current) link.setAttribute("aria-current", "location");
        else link.removeAttribute("aria-current");
      }
    };
    const later = () => {
      if (!waiting) requestAnimationFrame(mark);
      waiting = true;
    };
    if (sections.length) addEventListener("scroll", later, { passive: true });
  };

  /** A browser may keep nothing for a page; then nothing is marked. */
  const readPages = (added) => {
    try {
      const read = new Set(JSON.parse(localStorage.getItem("book-read") ?? "[]"));
      if (added && !read.has(added)) localStorage.setItem("book-read", JSON.stringify([...read.add(added)]));
      return read;
    } catch {
      return new Set();
    }
  };

  /** Marks the chapters whose end was on the screen once. */
  const markRead = () => {
    const links = [...document.querySelectorAll(".bd-sidebar-primary li a:not(.unnumbered)")];
    const mark = (read) => {
      for (const link of links) link.classList.toggle("read", read.has(link.pathname));
    };
    mark(readPages());
    const end = document.querySelector(".prev-next-footer");
    if (!end || !links.some((link) => link.getAttribute("aria-current"))) return;
    new IntersectionObserver((seen, observer) => {
      if (!seen.some((one) => one.isIntersecting)) return;
      observer.disconnect();
      mark(readPages(location.pathname));
    }).observe(end);
  };

  /** Scrolls the list of chapters, and nothing else, to the page that is open; also the list that a phone opens over it. */
  const showCurrent = () => {
    const list = document.getElementById("site-contents");
    const current = list?.querySelector("[aria-current='page']") ?? list?.querySelector("[aria-current]");
    const show = () => {
      const [{ top, bottom }, inside] = [current.getBoundingClientRect(), list.getBoundingClientRect()];
      if (top < inside.top || bottom > inside.bottom) list.scrollTop += (top + bottom - inside.top - inside.bottom) / 2;
    };
    if (!current) return;
    show();
    list.addEventListener("toggle", ({ newState }) => newState === "open" && show());
  };

  /** A menu under the title is closed by Escape, unless that closes a popover, and by a press elsewhere; the focus stays at it. */
  const closeMenus = () => {
    const opened = () => document.querySelectorAll("details.page-menu[open]");
    addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || document.querySelector(":popover-open")) return;
      for (const menu of opened()) {
        if (menu.contains(document.activeElement)) menu.querySelector("summary").focus();
        menu.open = false;
      }
    });
    addEventListener("pointerdown", ({ target }) => {
      for (const menu of opened()) if (!menu.contains(target)) menu.open = false;
    });
  };

  /** What is wider than its place can be scrolled with the keyboard only when it, or a button in it, can have the focus. */
  const watchWidths = () => {
    const watcher = new ResizeObserver((seen) => {
      for (const [box, cut] of seen.map(({ target }) => [target, target.scrollWidth > target.clientWidth]))
        box.tabIndex = cut && !box.querySelector("td button, th button") ? 0 : -1;
    });
    for (const box of document.querySelectorAll(".measured-table, .scrolled-table, .math-block, div.highlight pre")) watcher.observe(box);
  };

  /** Marks the words that a search came with, where the browser can without changing the page. */
  const highlightFound = () => {
    const words = (new URLSearchParams(location.search).get("highlight") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length || !globalThis.CSS?.highlights) return;
    const texts = document.createTreeWalker(document.querySelector("article"), NodeFilter.SHOW_TEXT);
    const ranges = [];
    while (texts.nextNode())
      for (const part of texts.currentNode.data.matchAll(/[\p{L}\p{N}_]+/gu)) {
        if (!words.some((word) => part[0].toLowerCase().startsWith(word))) continue;
        const range = new Range();
        range.setStart(texts.currentNode, part.index);
        range.setEnd(texts.currentNode, part.index + part[0].length);
        ranges.push(range);
      }
    CSS.highlights.set("found", new Highlight(...ranges));
  };

  document.addEventListener("DOMContentLoaded", () => {
    highlightFound();
    showCurrent();
    markSections();
    markRead();
    watchWidths();
    closeMenus();
    document.getElementById("page-contents")?.addEventListener("click", (event) => {
      const menu = event.currentTarget;
      if (event.target.closest("a") && menu.matches(":popover-open")) menu.hidePopover();
    });
    addEventListener("keydown", (event) => {
      const field = document.querySelector("input[name='q']");
      if (event.key !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || !field) return;
      event.preventDefault();
      if (field.offsetParent) field.focus();
      else document.querySelector("a.open-search")?.click();
    });
  });
}
