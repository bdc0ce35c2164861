"""A batch system for the scenarios of a class, and one place for compiled code."""

import os
from collections.abc import Iterator

import pytest

from tests.batch.system import System, at_work

pytest.register_assert_rewrite("tests.batch.scenarios")  # or its failures would not say what was found


@pytest.fixture(scope="class")
def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """The batch system of the class, at work."""
    kind: type[System] = request.cls.kind
    reason = kind.missing()
    if reason is not None:
        pytest.skip(reason)
    common = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        common = common.parent  # compiled code is the same for all systems
    with at_work(kind, common / "compiled") as found:
        yield found
