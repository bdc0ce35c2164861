"""The problem to solve: scalar losses, and their regularised finite sum over the shards of the nodes."""
