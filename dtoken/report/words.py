"""What the words of the report mean, one line each: for the page's list and for what headings say when pointed at."""

GENERAL = {
    "suboptimality": "F(θ) − F*, how far the objective is above its minimum; mean over tokens (or nodes)",
    "jumps": "a token goes to a node: along an edge of the graph, or it stays where it is (a self-jump)",
    "messages": "jumps between two different nodes: what a network would carry",
    "gradients": "of the loss of one row; the full gradient of a node counts as many as it has rows",
    "pass": "as many gradients as there are rows in all nodes together",
    "ideal time": "computed from the events alone, not measured: a gradient takes tau_comp, a jump tau_comm "
    "(in whatever unit these settings have), and nodes work in parallel",
    "wall": "seconds of running on the machines that were there",
    "stay below": "how many of the runs, of those that ended or got there, came to the accuracy and stayed there",
    "reached (jumps)": "jumps until a record point was at or below the accuracy for the first time; it may be a dip "
    "of a noisy curve, so costs are counted from where the curve stays below",
    "tau_comp, tau_comm": "ideal time of a gradient and of a jump (time.tau_comp, time.tau_comm)",
    "n": "number of nodes, each with rows of its own",
    "K": "number of tokens: copies of the model that go from node to node",
    "sigma": "regularisation of each node: σ/2 times the squared norm of the model",
    "visit": "token and node move towards each other; with several jumps per visit only the last one ends in one",
    "spectral gap": "how fast the walk of a token forgets where it was: 1 at once, near 0 slowly",
    "seed": "of the schedule: which node, row and edge come when; runs that differ in seeds make one curve",
}
CONSTANTS = {
    "kappa": "κ, condition number: 1 + smoothness of a node's loss / its regularisation",
    "sigma_t": "σ̃ = nσ / (n + K): the regularisation, shared by n nodes and K tokens",
    "alpha": "α, weight of the rows against the visits in the conceptual graph",
    "eta": "η, step size of the dual method behind the updates",
    "rho": "ρ, the proved rate of the accelerated method, per step",
    "p_comm": "share of visits among the steps",
    "p_comp": "share of local steps (gradients) among the steps",
    "rho_comm": "how far node and token move towards each other at a visit; 1/2: to their mean",
    "rho_comp": "how far a local step moves what the node remembers of a row towards its present value",
    "L_b": "smoothness of the loss of a whole node, by the rule of algorithm.smoothness",
    "beta": "β, penalty of Walkman",
    "step": "step size of the gradient",
}
HEADINGS = {
    "predicted": "the rate that theory predicts: the share by which the error falls at each step",
    "measured": "the same share, measured on the run",
    "ratio": "measured over predicted; above 1 the method is faster than predicted",
    "bound": "met or not, where the rate is proved for what was run",
    "slope": "s, where the cost grows like the parameter to the power s",
}
WORDS = GENERAL | CONSTANTS | HEADINGS
