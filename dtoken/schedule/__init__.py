"""Events of a run, drawn from a shared seed, and their ideal clock."""
