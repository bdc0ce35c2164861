"""What tables and figures call the columns of a trajectory."""

HEADINGS = {
    "jumps": "jumps",
    "messages": "messages",
    "gradients": "gradients",
    "passes": "passes",
    "time": "ideal time",
    "wall": "wall",
}  # of what a run costs, in tables
AXES = {
    "passes": "passes over the data",
    "jumps": "communications (jumps)",
    "messages": "communications (messages)",
    "gradients": "gradients",
    "time": "ideal time",
    "wall": "wall time in s",
    "event": "events",
}  # the same, below figures
MEASURES = {
    "suboptimality": "suboptimality  F(θ) − F*",
    "distance": "squared distance to θ*",
    "consensus": "consensus error",
    "objective": "objective  F(θ)",
    "test_loss": "mean loss of held-out rows",
    "test_accuracy": "accuracy on held-out rows",
    "test_log_loss": "log-loss of held-out rows",
    "test_auc": "AUC on held-out rows",
    "tokens": "living tokens",
}  # beside figures
