// From a folder a browser lets no script read other pages, so results are shown without an excerpt of theirs.
"use strict";

if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
