"""``dut.ovs.tuning`` of a testbed file, to and from the model."""

from __future__ import annotations

import dataclasses
from typing import Any

from pytest_nfvperf.config.testbed_model import TuningModel
from pytest_nfvperf.model.testbed.ovs_settings import OVS_DEFAULT, Tuning


def to_tuning(model: TuningModel | None) -> Tuning:
    """What a file asks for; rings and other keys are elsewhere in it, with their ports and in ``other_config``."""
    if model is None:
        return OVS_DEFAULT
    return Tuning(**{**dict(model), "rxq_affinity": tuple(model.rxq_affinity.items())})


def tuning_section(tuning: Tuning) -> dict[str, Any] | None:
    """As a file has it; None where nothing is set."""
    given = {field.name: getattr(tuning, field.name) for field in dataclasses.fields(tuning)}
    section = {name: value for name, value in given.items() if name in TuningModel.model_fields and value is not None}
    section["rxq_affinity"] = dict(tuning.rxq_affinity) or None
    return {name: value for name, value in section.items() if value is not None} or None
