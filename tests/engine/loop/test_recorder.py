"""What a record says of models, against plain numpy."""

import numpy as np
import pytest

import dtoken

TVR = {"_target_": "tvr", "tokens": 4, "start": "zero"}


@pytest.mark.parametrize("jumps", [0, 40])
def test_consensus_is_the_mean_over_nodes_and_tokens(jumps: int) -> None:
    """Also at the start, where all tokens are equal and are evaluated once."""
    stop = {"passes": None, "jumps": max(1, jumps)}
    found = dtoken.run(nodes=8, algorithm=TVR, stop=stop)
    record = found.trajectory.iloc[0 if jumps == 0 else -1]
    if jumps == 0:
        assert record.event == 0
        nodes, tokens = _start(), np.zeros((4, found.nodes.shape[1]))
    else:
        nodes, tokens = found.nodes, found.tokens
    models = np.concatenate([nodes, tokens])
    spread = ((models - tokens.mean(axis=0)) ** 2).sum(axis=1)
    assert record.consensus == pytest.approx(spread.mean(), rel=1e-9)


def _start() -> np.ndarray:
    """theta_i of tvr before the first event: minus the gradient at 0, divided by sigma~."""
    from dtoken.config.settings import make_settings
    from dtoken.session.prepare import prepare_run

    prepared = prepare_run(make_settings(nodes=8, algorithm=TVR))
    sigma_t, loss = prepared.experiment.constants.sigma_t, prepared.experiment.problem.loss
    found = []
    for node in range(8):
        gradient = np.zeros(prepared.store.d)
        for block in prepared.store.blocks(node):
            dense = np.zeros((block.rows, prepared.store.d))
            for row in range(block.rows):
                part = slice(block.indptr[row], block.indptr[row + 1])
                dense[row, block.indices[part]] = block.data[part]
            gradient += dense.T @ (-block.y / 2)  # logistic loss at 0
        found.append(-gradient / prepared.store.node_rows[node] / sigma_t)
    assert loss.name == "logistic"
    return np.array(found)
