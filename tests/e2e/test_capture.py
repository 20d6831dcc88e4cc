"""Captures by hand: POST /api/v1/capture forwards all raw profiles of what it names, for a time."""
import http.client
import json

import pytest
from programs import PATIENCE, Gateway, captures, running, wait_for
from test_forward import config, sink  # noqa: F401 (sink is a fixture)

BODY = captures("ebpf-go*.pb")[0].read_bytes()


def capture(gateway, query, headers=None):
    """POST /api/v1/capture: (status, text)."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.admin, timeout=PATIENCE)
    connection.request("POST", "/api/v1/capture?" + query, headers=headers or {})
    response = connection.getresponse()
    answer = response.status, response.read().decode()
    connection.close()
    return answer


def running_captures(gateway):
    return json.loads(gateway.get("/api/v1/captures"))["captures"]


def test_everything_is_forwarded_until_it_is_ended(sink):
    with running(Gateway(config=config(sink, "0%"))) as gateway:
        assert gateway.post(BODY)[0] == 200
        assert gateway.total("profgate_forward_samples_total") == 0 and running_captures(gateway) == []
        status, text = capture(gateway, "lasting=5m")
        assert status == 201
        one, = running_captures(gateway)
        assert one["id"] == json.loads(text)["id"] and one["by"] == "hand" and one["resource"] == {}
        assert 290 < one["seconds_left"] <= 300

        def arrives():
            assert gateway.post(BODY)[0] == 200
            return sink.bodies
        wait_for(arrives, "what is captured downstream")
        assert capture(gateway, f"end={one['id']}") == (200, "ended\n")
        assert capture(gateway, f"end={one['id']}")[0] == 404

        def nothing_leaves():
            before = gateway.total("profgate_forward_samples_total")
            assert gateway.post(BODY)[0] == 200
            return gateway.total("profgate_forward_samples_total") == before
        wait_for(nothing_leaves, "the capture to end")


def test_it_ends_by_itself_and_takes_only_what_it_names(sink):
    with running(Gateway(config=config(sink, "0%"))) as gateway:
        assert capture(gateway, "lasting=3s&resource.service.name=no%20such%20service")[0] == 201
        assert running_captures(gateway)[0]["resource"] == {"service.name": "no such service"}

        def is_over():
            assert gateway.post(BODY)[0] == 200
            return not running_captures(gateway)
        wait_for(is_over, "the capture to end")
        assert gateway.total("profgate_forward_samples_total") == 0 and not sink.bodies


@pytest.mark.parametrize("query, status", [
    ("", 400), ("lasting=x", 400), ("lasting=0s", 400), ("lasting=2h", 400), ("lasting=1m&service.name=x", 400),
    ("lasting=1m&resource.=x", 400), ("lasting=1m&resource.a=%zz", 400), ("lasting=1m&resource.a=" + "x" * 3000, 400),
    ("lasting=1m&" + "&".join(f"resource.k{i}=v" for i in range(9)), 400), ("end=0", 400), ("end=77", 404),
    ("lasting=1m&" + "&".join(f"resource.k{i}=v" for i in range(8)), 201)])
def test_what_is_refused(query, status, gateway):
    assert capture(gateway, query)[0] == status


@pytest.fixture(scope="module")
def gateway():
    with running(Gateway()) as started:
        yield started


def test_not_from_a_browser_and_not_without_end(gateway):
    assert capture(gateway, "lasting=1m", {"Origin": "http://evil.example"})[0] == 403
    statuses = [capture(gateway, "lasting=1m")[0] for _ in range(20)]
    assert 201 in statuses and statuses[-1] == 429
    by_hand = [c for c in running_captures(gateway) if c["by"] == "hand"]
    assert len(by_hand) == 16
    assert capture(gateway, f"end={by_hand[0]['id']}")[0] == 200 and capture(gateway, "lasting=1m")[0] == 201
