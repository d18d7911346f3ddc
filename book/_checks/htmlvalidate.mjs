// What gate_html.py holds the built pages to: all recommended rules and those of the HTML standard, but for these few.
export default {
  root: true,
  extends: ["html-validate:recommended", "html-validate:standard"],
  rules: {
    // How a file is written, not what it says; docutils, Sphinx and its extensions write HTML as they like.
    "attribute-boolean-style": "off",
    "attribute-empty-style": "off",
    "doctype-style": "off",
    "no-trailing-whitespace": "off",
    "void-style": "off",
    // The theme says role=main on <main>, which the standard allows.
    "no-redundant-role": "off",
    // A table that scrolls is a <div role=region>: what a <section> with a name would be, to browsers as to readers.
    "prefer-native-element": "off",
    // A button outside of forms submits nothing, whatever its type; the theme has no other.
    "no-implicit-button-type": "off",
    // matplotlib draws with styles; what a style may do is in the hands of the page's policy: see built_pages.py.
    "no-inline-style": "off",
    // The search starts with Enter, and says so; a button beside its field would be one more thing to tab through.
    "wcag/h32": "off",
  },
};
