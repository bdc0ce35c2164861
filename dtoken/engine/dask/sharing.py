"""Who shares memory with whom: workers of one machine do, if they can prove it; tokens go to all others as messages."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dtoken.engine.dask import worker
from dtoken.engine.dask.shared import Offer

Call = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], list[Any]]  # a function on all workers, with arguments


class Sharing(NamedTuple):
    """Who shares memory with whom, and what kept others from it."""

    near: list[list[int]]  # for each host, those with which it shares tokens
    reasons: list[str]  # why hosts of one machine do not

    @property
    def transport(self) -> str:
        """How tokens go from host to host: shared, tcp, mixed; or none, if there is one host."""
        hosts = len(self.near)
        pairs = sum(len(others) for others in self.near)
        if hosts == 1:
            return "none"
        return {0: "tcp", hosts * (hosts - 1): "shared"}.get(pairs, "mixed")


def no_sharing(hosts: int) -> Sharing:
    """Everybody for themselves."""
    return Sharing([[] for _ in range(hosts)], [])


def share_memory(call: Call, run: str, machines: Sequence[str]) -> Sharing:
    """Let the workers of each machine share memory; the first one of each makes it."""
    groups = [[host for host, found in enumerate(machines) if found == name] for name in sorted(set(machines)) if name]
    leader = {host: group[0] for group in groups if len(group) > 1 for host in group}
    found = no_sharing(len(machines))
    if not leader:
        return found
    everybody = range(len(machines))
    offers = call(worker.offer_memory, [(run, leader.get(host) == host) for host in everybody])
    asked = [offers[leader[host]] if leader.get(host, host) != host else None for host in everybody]
    answers = call(worker.attach_memory, [(run, offer) for offer in asked])
    proved = call(worker.prove_memory, [(run, [a for a in everybody if leader.get(a) == host]) for host in everybody])
    for host in everybody:
        if isinstance(offers[host], Offer):
            together = [host, *(other for other in proved[host] if other != host and answers[other] is None)]
            for member in together:
                found.near[member].extend(other for other in together if other != member)
    told = {answer for answer in answers if answer is not None}
    silent = [host for host in leader if not found.near[host] and answers[host] is None and host != leader[host]]
    return found._replace(reasons=sorted(told | ({"its bytes are not the same for all"} if silent else set())))
