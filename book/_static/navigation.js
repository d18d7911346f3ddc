// Marks the section that is being read in the page's contents, closes menus behind links, and finds the search.
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

  document.addEventListener("DOMContentLoaded", () => {
    markSections();
    document.getElementById("page-contents")?.addEventListener("click", (event) => {
      const menu = event.currentTarget;
      if (event.target.closest("a") && menu.matches(":popover-open")) menu.hidePopover();
    });
    addEventListener("keydown", (event) => {
      const field = document.querySelector("input[name='q']");
      if (event.key !== "k" || !event.ctrlKey || event.altKey || !field) return;
      event.preventDefault();
      if (field.offsetParent) field.focus();
      else document.querySelector("a.open-search")?.click();
    });
  });
}
