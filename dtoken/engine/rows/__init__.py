"""The rows of the nodes, in memory or streamed through it within a budget."""
