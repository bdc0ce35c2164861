"""The loop of a run: draw events, let them happen, measure, stop; and what is needed to go on later."""
