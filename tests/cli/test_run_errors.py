"""Bad input of ``dtoken``: one sentence, exit status 2, before any work, and nothing left behind."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CASES = {
    "algorithm.token=4": "algorithm.token is not a key of tvr. Did you mean algorithm.tokens? Keys: ",
    "nodse=3": "nodse is not a key of dtoken. Did you mean nodes? Keys: data, nodes, ",
    "+foo=3": "foo is not a key of dtoken. Keys: data, nodes, ",
    "stop.pases=3": "stop.pases is not a key of stop. Did you mean stop.passes? Keys: passes, jumps, ",
    "data.rowz=3": "data.rowz is not a key of synthetic. Did you mean data.rows? Keys: ",
    "graph=ring graph.walc=lazy": "graph.walc is not a key of graph=ring. Did you mean graph.walk? Keys: walk, stay.",
    "algorithm=tvrr": "algorithm=tvrr is not known; did you mean algorithm=tvr? Use one of ",
    "graph=rign": "graph=rign is not known; did you mean graph=ring? Use one of ",
    "data=syntetic": "data=syntetic is not known; did you mean data=synthetic? Use one of ",
    "engine=dusk": "engine=dusk is not known; ",
    "problem.loss=logisitc": "problem.loss=logisitc is not known; did you mean logistic? ",
    "time.rule=papr": "time.rule=papr is not known; did you mean paper? Use one of paper, token_clock.",
    "partition.kind=shufled": "partition.kind=shufled is not known; did you mean shuffled? ",
    "graph.stay=0.3": "graph.stay=0.3 belongs to graph.walk=lazy, not to simple",
    "graph.walk=lazy graph.stay=1": "graph.stay=1 is the probability to stay; it must lie in [0, 1)",
    "graph.walk=lazy graph.stay=-1/3": "graph.stay=-0.333333 is the probability to stay; it must lie in [0, 1)",
    "graph.walk=lazy graph.stay=nan": "graph.stay=nan is the probability to stay; it must lie in [0, 1)",
    "graph.walk=lazy graph.stay=1/0": "graph.stay=1/0 is neither a number nor null",
    "graph.walk=lazy graph.stay=often": "graph.stay=often is neither a number nor null",
    "algorithm.start=cold": "algorithm.start=cold is not known; use one of zero, labels, local, warm.",
    "algorithm.start_margin=1": "algorithm.start_margin=1 belongs to algorithm.start=labels, not to ",
    "algorithm.start=labels algorithm.start_margin=inf": "algorithm.start_margin=inf must be a finite number.",
    "algorithm.start=warm": "algorithm.start=warm goes on from an earlier run; give its directory: ",
    "algorithm.start_from=two.txt": "algorithm.start_from=two.txt belongs to algorithm.start=warm, not to ",
    "algorithm.start=warm algorithm.start_from=none": "algorithm.start_from=none does not hold a run; give the ",
    "algorithm.start=warm algorithm.start_from=two.txt": "algorithm.start_from=two.txt does not hold a run; give ",
    "algorithm=gd algorithm.start=local": "algorithm.start=local is not for gd: it keeps no margins, ",
    "algorithm=walkman algorithm.start_margin=1": "algorithm.start_margin=1 is not for walkman: it keeps no margins, ",
    "graph.walk=lasy": "graph.walk=lasy is not known; did you mean lazy? ",
    "algorithm.sampling=even": "algorithm.sampling=even is not known; use one of uniform, importance, permuted.",
    "nodes=abc": "nodes=abc is not an integer.",
    "nodes=0": "nodes=0, but there must be at least one; use nodes>=1.",
    "stop.passes=long": "stop.passes=long is neither a number nor null.",
    "algorithm.tokens=5": "algorithm.tokens=5 but there are only 4 nodes; use tokens<=4.",
    "algorithm.tokens=2 algorithm.interactions_anywhere=0.1 graph=time_varying": "graph=time_varying nodes=4 ",
    "algorithm.interactions=0.1": "algorithm.interactions=0.1, but one token cannot meet another; use tokens>=2.",
    "algorithm.compute=on_arrival algorithm.unsafe=true": "algorithm.unsafe is not a key of tvr. Keys: ",
    "algorithm=tavr algorithm.compute=on_arrival": "algorithm.compute is not a key of tavr. ",
    "algorithm=tavr algorithm.jumps=1 graph=ring graph.walk=lazy": "tavr needs nearly independent visits, and with ",
    "algorithm=walkman algorithm.beta=0": "algorithm.beta=0.0 must be positive; use safe for 2 (L_b + sigma).",
    "algorithm=walkman algorithm.tokens=2": "algorithm.tokens is not a key of walkman. ",
    "algorithm=extra graph=directed_cycle": "extra averages over neighbours in both directions, but ",
    "algorithm=dvr graph=time_varying graph.period=2": "dvr needs a graph that does not change, and ",
    "algorithm=nids algorithm.step=2": "algorithm.step=2.0 is too long: nids needs a step below 2 / (L_b + sigma).",
    "nodes=9223372036854775807": "nodes=9223372036854775807, but there can be at most 2**31 - 1.",
    "nodes=2000000000": "nodes=2000000000 but the dataset has only 60 rows; use nodes<=60.",
    "algorithm.tokens=1000000000000000000000": "algorithm.tokens=1000000000000000000000 but there are only 4 nodes; ",
    "algorithm.block_rows=9223372036854775807": "algorithm.block_rows=9223372036854775807 is more than any node has; ",
    "algorithm.block_rows=1000000000000000000000": "algorithm.block_rows=1000000000000000000000 is more than any ",
    "algorithm.jumps=9223372036854775807": "algorithm.jumps=9223372036854775807 is neither auto nor proved nor an ",
    "stop.events=9223372036854775808": "stop.events=9223372036854775808 is too large; use at most 2**63 - 1.",
    "engine.memory=20000000TB": "engine.memory=20000000TB is more memory than there can be; use for instance 300MB, ",
    "nodes=61": "nodes=61 but the dataset has only 60 rows; use nodes<=60.",
    "problem.sigma=0": "problem.sigma=0.0 must be a positive number; ",
    "problem.sigma=-1": "problem.sigma=-1.0 must be a positive number; ",
    "graph=edge_list graph.path=two.txt": "graph=edge_list nodes=4 graph.path=two.txt graph.directed=False is not ",
    "graph=edge_list": "graph=edge_list needs graph.path; give graph.path=VALUE.",
    "graph=ring algorithm.jumps=auto": "the simple walk on graph=ring nodes=4 is periodic (period 2) and never mixes; ",
    "time.tau_comm=-1": "time.tau_comm=-1.0 must be ",
    "time.tau_comp=-1": "time.tau_comp=-1.0 must be ",
    "graph=ring algorithm.jumps=2": "algorithm.jumps=2, but the simple walk on graph=ring nodes=4 has period 2, ",
    "problem.sigma=1e-160": "problem.sigma=1e-160 makes the condition number ",
    "problem.sigma=1e-160 algorithm=tavr": "problem.sigma=1e-160 makes the condition number ",
    "algorithm.p_comm=0.999999999999": "this run would end after about 3e+15 events, and a computer does ",
    "algorithm.p_comm=1e-15 stop.passes=null stop.jumps=9": "this run would end after about 9e+15 events, and ",
    "algorithm.p_comm=0.99999999999999 stop.suboptimality=1e-3": "this run would end after about 6e+15 events, and ",
    "stop.passes=1e20": "this run would end after about 1e+22 events, and a computer does some millions a second; use",
    "stop.passes=null": "nothing stops this run; set one of stop.passes, stop.jumps, stop.events.",
    "stop.passes=null stop.suboptimality=1e-3": "stop.suboptimality may never be reached; set stop.passes, ",
    "stop.jumps=0": "stop.jumps=0 must be positive.",
    "stop.suboptimality=1e-3 record.every_passes=null": "stop.suboptimality is looked at at record points; ",
    "stop.patience=0": "stop.patience=0 must be at least 1: how many records in a row.",
    "stop.patience=2.5": "stop.patience=2.5 ",
    "record.growth=0": "record.growth=0.0 must be positive.",
    "record.accuracies=[0]": "record.accuracies has 0.0, but a suboptimality to reach is positive.",
    "checkpoint.every=0": "checkpoint.every=0 must be at least 1, or null for none by records.",
    "checkpoint.seconds=0": "checkpoint.seconds=0.0 must be positive, or null for no checkpoints by time.",
    "engine.threads=0": "engine.threads=0 must lie between 1 and 1024; ",
    "seed=-1": "seed=-1 must be an integer from 0 to 2**64 - 1.",
    "schedule.replay=none.parquet": "schedule.replay=none.parquet is not a file.",
    "schedule.replay=two.txt": "schedule.replay=two.txt ",
    "data=svmlight": "data=svmlight needs data.path; give data.path=VALUE.",
    "problem.loss=logistic data.task=regression": "problem.loss=logistic needs two classes, ",
    "algorithm._target_=nowhere.Method": "algorithm._target_=nowhere.Method cannot be imported ",
    "foo": "foo is not of the form KEY=VALUE.",
    "seed=1,2": "seed=1,2 has several values; add -m to run them all, or write seed=[1,2] for a list.",
    "algorithm=tvr,gd": "algorithm=tvr,gd has several values; add -m to run them all.",
    "stop=3": "stop=3 is not a section; set its keys, as in stop.KEY=VALUE.",
    "+algorithm.tokens=3": "algorithm.tokens is a key already; write algorithm.tokens=VALUE without the +.",
    "--config-dir nowhere": "--config-dir nowhere is not a folder.",
}


@pytest.mark.parametrize("words", CASES)
def test_one_sentence_and_nothing_left_behind(words: str, dtoken: Callable[..., Any]) -> None:
    Path("two.txt").write_text("0 1\n2 3\n")
    tiny = [] if words.startswith("data=svm") else ["data.rows=60", "data.features=4"]
    said = dtoken(*tiny, "nodes=4", *words.split(), tiny=False)
    assert said.err.startswith(CASES[words])
    assert (said.status, said.out) == (2, "")
    assert said.err.count("\n") == 1
    assert [path.name for path in Path().iterdir()] == ["two.txt"]


def test_an_unknown_option_is_wrong_usage(dtoken: Callable[..., Any]) -> None:
    said = dtoken("--nodes", "4")
    assert said.status == 2
    assert "unrecognized arguments: --nodes" in said.err
