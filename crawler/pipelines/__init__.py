"""A page becomes a row of the corpus."""
