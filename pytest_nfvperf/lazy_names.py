"""Public names: each is imported when it is first used. One that is gone says what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lazy_loader

GONE = {
    ("pytest_nfvperf", "GeneratorError"): "write TestbedError, which it is",
    ("pytest_nfvperf", "S1_FRAME_SIZES"): "write (64, 128, 512, 1024, 1500)",
    ("pytest_nfvperf", "OVERLAYS"): 'write the words: ("none", "vxlan", "geneve", "gre")',
    ("pytest_nfvperf.results", "format_ratio"): 'write f"{ratio:.1%}"',
    ("pytest_nfvperf.extend", "Attachment"): "return a dict: DPDK's devargs by port",
    ("pytest_nfvperf.extend", "Figure"): "inherit extend.Measurement",
    ("pytest_nfvperf.testing", "running_datapath"): "write 'maker = MyMaker()' in the DatapathContract",
}


def attach(module: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a module whose stub, beside ``file``, lists its names."""
    load, listed, names = lazy_loader.attach_stub("pytest_nfvperf", file)

    def named(name: str) -> Any:
        if (module, name) in GONE:
            # An AttributeError would be told as "cannot import name", without this sentence.
            raise ImportError(f"{module}.{name} is gone: {GONE[module, name]}")
        return load(name)

    return named, listed, names
