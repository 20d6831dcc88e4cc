"""Makes every peer that comes from a registry and is not in the cache yet: before the tests, so that none waits for it, and
beside the build of our own. What cannot be made skips its tests, which say why."""
import broker
import browser
import peers
import producers
import pyroscope
import pytest

PEERS = [broker.jars, broker.python, browser.node, peers.collector, peers.grpcurl, peers.h2spec, peers.pprof_judge, peers.prometheus_otlp, producers.ghz,
         pyroscope.go, pyroscope.python, pyroscope.node, producers.sarif,
         *(lambda release=release: producers.go(release) for release in producers.GO_RELEASES),
         *(lambda version=version: producers.python(version) for version in producers.PYTHON_VERSIONS),
         *(lambda version=version: producers.java(version) for version in producers.JAVA_VERSIONS)]

for make in PEERS:
    try:
        make()
    except pytest.skip.Exception as missing:
        print(missing)
