"""The pytest plugin: only this, the fixtures and `nfvperf plan` import pytest."""
