"""The tests of this folder use the helpers of those in tests/e2e; one that fails in a guest tells what the guest did."""
import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    guest = getattr(item, "funcargs", {}).get("guest")
    if guest and report.when == "call" and report.failed:
        report.sections += guest.story()


@pytest.fixture(autouse=True)
def swept(request):
    """No program of one test is still at work in the next."""
    guest = request.getfixturevalue("guest") if "guest" in request.fixturenames else None
    yield
    if guest:
        guest.sweep()
