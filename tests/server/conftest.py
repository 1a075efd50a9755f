"""Servers that tests share."""

import pytest

from service import BIN, Service


@pytest.fixture(scope="session", autouse=True)
def program():
    if not BIN:
        pytest.skip("INFER_BIN does not name the program")


@pytest.fixture(scope="session")
def service():
    """One server with the built-in model for all tests that change nothing of it."""
    running = Service("-t", "2")
    yield running
    assert running.end() == 0


@pytest.fixture
def start():
    running = []

    def begin(*arguments, **options):
        running.append(Service(*arguments, **options))
        return running[-1]
    yield begin
    for each in running:
        each.end()


@pytest.fixture(scope="module")
def begin_module():
    """Servers that the tests of one module share."""
    running = []

    def begin(*arguments, **options):
        running.append(Service(*arguments, **options))
        return running[-1]
    yield begin
    assert [each.end() for each in running] == [0] * len(running)
