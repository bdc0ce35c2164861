"""The table of scenarios on a real Grid Engine."""

import signal

from tests.batch.scenarios import OnOne, Scenarios, User, ann, dtoken_words
from tests.batch.sge import GridEngine

__all__ = ["ann"]


class TestGridEngine(Scenarios, OnOne):
    """Every scenario, those for one system, and what there is nowhere else."""

    kind = GridEngine

    def test_a_job_in_error_is_shown_with_its_error(self, ann: User) -> None:
        nowhere = "+cluster.options.job_extra_directives=['-wd /nowhere']"
        shown = "Eqw (error: can't chdir to /nowhere: No such file or directory)"
        ann.start("dtoken", "-m", *dtoken_words(ann), "seed=1,2", "hydra.sweep.dir=all", nowhere)
        ann.wait(ann.manifest)
        ann.wait(lambda: ann.asks("dtoken-sweep", "status", "all").count(shown) == 2)
        ann.signal(signal.SIGTERM)
        ann.end(130)
        ann.nothing_is_left()
