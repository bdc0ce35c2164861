"""How runs went: figures and, later, the page about a sweep."""
