"""What the launcher gives back to Hydra for each job."""

from collections.abc import Callable
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import CompactHydraException
from omegaconf import DictConfig, open_dict

from hydra_dask.errors import JobRaised, reason


class Returned(JobReturn):
    """The return of a job whose configuration is composed again when somebody asks for it.

    Configurations are large, and a sweep can have thousands of jobs.
    """

    def __init__(self, compose: Callable[[], DictConfig], done: bool, value: Any, **fields: Any) -> None:
        super().__init__(**fields, status=JobStatus.COMPLETED if done else JobStatus.FAILED)
        self._compose = compose
        self._return_value = value

    @property
    def return_value(self) -> Any:
        """What the job returned; a job that did not end well raises a sentence, with what it raised as the cause."""
        if self.status == JobStatus.COMPLETED:
            return self._return_value
        if isinstance(self._return_value, CompactHydraException):
            raise self._return_value
        raise JobRaised(reason(self._return_value)) from self._return_value

    @return_value.setter
    def return_value(self, value: Any) -> None:
        self._return_value = value

    @property
    def cfg(self) -> DictConfig:
        """The configuration of the task."""
        config = self._compose()
        with open_dict(config):
            del config["hydra"]
        return config

    @cfg.setter
    def cfg(self, _: Any) -> None:
        """The field of the base class stays empty."""

    @property
    def hydra_cfg(self) -> DictConfig:
        """The ``hydra`` node."""
        config = self._compose()
        with open_dict(config):
            for key in [key for key in config if key != "hydra"]:
                del config[key]
        return config

    @hydra_cfg.setter
    def hydra_cfg(self, _: Any) -> None:
        """The field of the base class stays empty."""
