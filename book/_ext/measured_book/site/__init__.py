"""The site around the pages: frame, search, sections, formulas, policy and addresses."""
