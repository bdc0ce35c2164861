"""Running events: the executor, the local engine, recording, checkpoints."""
