"""Building and finding: what is missing is named with its package, a cache entry is whole or absent."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from pytest_nfvperf.adapters.generators.embedded import build as building
from pytest_nfvperf.model.errors import GeneratorError, TestbedError


def without(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    which = building.shutil.which
    monkeypatch.setattr(
        building.shutil, "which", lambda name, path=None: None if name == missing else which(name, path=path)
    )


@pytest.mark.parametrize(
    ("tool", "package"), [("cc", "gcc"), ("meson", "meson"), ("ninja", "ninja-build"), ("pkg-config", "pkgconf")]
)
def test_a_missing_tool_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tool: str, package: str
) -> None:
    without(monkeypatch, tool)
    with pytest.raises(TestbedError, match=f"{tool} is missing, .*: apt-get install {package}$"):
        building.build(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_library_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PKG_CONFIG_LIBDIR", str(tmp_path))
    with pytest.raises(TestbedError, match=r"libdpdk is missing, .*: apt-get install libdpdk-dev"):
        building.build(tmp_path)
    with pytest.raises(GeneratorError, match="cannot be found: libdpdk is missing"):
        building.find(tmp_path)


def test_not_built_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(GeneratorError, match=r"is not built for this machine .*: run `nfvperf build`"):
        building.find(tmp_path)


def test_the_compilers_words_are_shown_and_nothing_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "source"
    broken.mkdir()
    (broken / "meson.build").write_text("project('x', 'c')\nexecutable('nfvperf-gen', 'main.c')\n")
    (broken / "main.c").write_text("int main(void) { return nonsense; }\n")
    monkeypatch.setattr(building, "source_dir", lambda: broken)
    cache = tmp_path / "cache"
    with pytest.raises(TestbedError, match=r"meson compile of nfvperf-gen failed") as caught:
        building.build(cache)
    assert "nonsense" in caught.value.evidence["meson compile"]
    assert list(cache.iterdir()) == []


@pytest.mark.thorough("compiles three times; make setup builds in every gate")
def test_built_once_and_again_when_a_source_changes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "meson.build").write_text("project('x', 'c')\nexecutable('nfvperf-gen', 'main.c')\n")
    (source / "main.c").write_text("int main(void) { return 0; }\n")
    monkeypatch.setattr(building, "source_dir", lambda: source)
    first = building.build(tmp_path / "cache")
    stamp = first.stat().st_mtime_ns
    assert building.build(tmp_path / "cache") == building.find(tmp_path / "cache") == first
    assert first.stat().st_mtime_ns == stamp
    (source / "main.c").write_text("int main(void) { return 1; }\n")
    assert building.build(tmp_path / "cache") != first


def test_the_one_for_any_cpu_is_kept_beside_the_one_for_this_one(tmp_path: Path) -> None:
    assert building.program_path(tmp_path) != building.program_path(tmp_path, portable=True)
    with pytest.raises(GeneratorError, match=r"not built for the guest's CPU .* when --nfv-virtual-time begins"):
        building.find(tmp_path, portable=True)


@pytest.mark.thorough("compiles; the tests in the guest run this build")
def test_the_one_for_any_cpu_is_compiled_for_the_distributions_oldest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A program with this CPU's instructions ends by SIGILL in an emulated one."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "meson.build").write_text(
        "project('x', 'c')\nadd_project_arguments('-march=native', language: 'c')\n"
        "executable('nfvperf-gen', 'main.c')\n"
    )
    told = "#ifdef __AVX2__\n#error of this CPU\n#endif\nint main(void) { return 0; }\n"
    (source / "main.c").write_text(told)
    monkeypatch.setattr(building, "source_dir", lambda: source)
    assert building.build(tmp_path / "cache", portable=True).exists()


def test_without_a_home_the_cache_is_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container HOME may be unset, and no passwd file name the user."""

    def nobody(_: int) -> object:
        raise KeyError("getpwuid(): uid not found: 0")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert building.default_cache_dir() == Path("/var/cache/nfvperf")


def test_a_home_that_cannot_be_written_says_where_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/proc")
    with pytest.raises(
        TestbedError, match=r"builds cannot be kept in /proc/\.cache/nfvperf: .*; set XDG_CACHE_HOME to"
    ):
        building.build()


def test_an_emulated_cpu_has_the_portable_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("model name\t: QEMU TCG CPU without ERMS\n")
    assert building.is_emulated(cpuinfo)
    cpuinfo.write_text("model name\t: Intel(R) Xeon(R) Processor\n")
    assert not building.is_emulated(cpuinfo)
    monkeypatch.setattr(building, "is_emulated", lambda: True)
    assert building.program_path(tmp_path) == building.program_path(tmp_path, portable=True)
