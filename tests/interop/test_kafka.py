"""Kafka in and out, with a real broker: totals are exact, whoever goes and comes."""
import collections
import os
import re
import signal
import struct
import threading
import time

import pytest
import sink as base
from broker import NAME, PASSWORD, Broker, jars
from programs import BUILD, PATIENCE, Gateway, Process, captures, json_lines, running, wait_for

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # kafka-python's
SMALL = min(captures("ebpf-*.pb"), key=lambda p: p.stat().st_size).read_bytes()


@pytest.fixture(scope="module")
def broker():
    started = Broker()
    try:
        yield started
    finally:
        started.close()


@pytest.fixture()
def produce(broker):
    """Sends bodies to a topic, one after the other over its partitions, and waits until the broker has them."""
    producer = broker.kafka.KafkaProducer(bootstrap_servers=f"127.0.0.1:{broker.port}")

    def send(topic, bodies, partitions=4):
        for i, body in enumerate(bodies):
            producer.send(topic, body, partition=i % partitions)
        producer.flush(timeout=PATIENCE)

    yield send
    producer.close()


def names():
    n = 0
    while True:
        n += 1
        yield f"topic-{n}"


TOPICS = names()


def decoded(messages):
    from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as service
    return [service.ExportProfilesServiceRequest.FromString(m if isinstance(m, bytes) else m.value) for m in messages]


def samples_in(requests):
    return sum(len(p.samples) for q in requests for r in q.resource_profiles for s in r.scope_profiles for p in s.profiles)


def points(lines):
    """Sums of the counters of samples in lines of the file exporter."""
    total = collections.Counter()
    for line in lines:
        for resource in line["resourceMetrics"]:
            for scope in resource["scopeMetrics"]:
                for metric in scope["metrics"]:
                    if metric["name"].startswith("samples."):
                        for point in metric["sum"]["dataPoints"]:
                            total[metric["name"]] += int(point["asInt"])
    return total


@pytest.fixture(scope="module")
def of_small(tmp_path_factory):
    """What a gateway counts of SMALL that comes by HTTP."""
    path = tmp_path_factory.mktemp("expected") / "metrics.json"
    with running(Gateway(config=f"metrics: {{ exporters: [file/m] }}\nexporters: {{ file/m: {{ path: {path} }} }}")) as gateway:
        assert gateway.post(SMALL)[0] == 200
        gateway.stop()
        return points(json_lines(path))


def times(counter, n):
    return collections.Counter({name: value * n for name, value in counter.items()})


def reading(broker, topic, more="", **keys):
    extra = "".join(f", {key}: {value}" for key, value in keys.items())
    return (f"receivers: {{ kafka: {{ brokers: ['127.0.0.1:{broker.port}'], profiles: {{ topics: [{topic}] }}, group_id: {topic}-group, "
            f"initial_offset: earliest{extra} }} }}\n{more}")


def test_what_one_gateway_writes_another_counts(broker):
    """Keyed by resource over plain TCP, and as JSON by host over TLS with a name and a password."""
    proto, json_topic = broker.create(next(TOPICS)), broker.create(next(TOPICS))
    bodies = [path.read_bytes() for path in captures("ebpf-*.pb")]
    expected = samples_in(decoded(bodies))
    writing = f"""
profiles: {{ keep: 100%, exporters: [kafka/proto, kafka/json] }}
metrics: {{ flush_interval: 1s, exporters: [prometheus, kafka/metrics] }}
exporters:
  kafka/proto: {{ brokers: ['127.0.0.1:{broker.port}'], profiles: {{ topic: {proto} }}, producer: {{ compression: gzip }} }}
  kafka/json: {{ brokers: ['localhost:{broker.tls}'], profiles: {{ topic: {json_topic}, encoding: otlp_json }}, partition_attributes: [host.name],
                tls: {{ ca_file: {broker.ca} }}, auth: {{ sasl: {{ mechanism: PLAIN, username: {NAME}, password: {PASSWORD} }} }} }}
  kafka/metrics: {{ brokers: ['127.0.0.1:{broker.sasl}'], auth: {{ sasl: {{ mechanism: PLAIN, username: {NAME}, password: {PASSWORD} }} }} }}
"""
    with running(Gateway(config=writing), Gateway(config=reading(broker, proto)),
                 Gateway(config=reading(broker, json_topic, profiles="{ topics: [%s], encoding: otlp_json }" % json_topic)
                         .replace(f"profiles: {{ topics: [{json_topic}] }}, ", "", 1))) as (writer, reader, json_reader):
        for body in bodies:
            assert writer.post(body)[0] == 200
        for gateway in (reader, json_reader):
            wait_for(lambda: gateway.total("profgate_samples_total") >= expected, "all samples to be read")
            assert gateway.total("profgate_samples_total") == expected
            assert gateway.total("profgate_samples_rejected_total") == 0
        counted = [{k: v for k, v in gateway.metrics().items() if k[0].startswith("samples_")} for gateway in (writer, reader, json_reader)]
        assert counted[0] == counted[1] == counted[2]
        assert writer.total("profgate_forward_dropped_samples_total") == 0
        wait_for(lambda: writer.total("profgate_export_requests_total", signal="metrics", outcome="sent") > 0, "metrics to be sent")
        assert [gateway.stop() for gateway in (writer, reader, json_reader)] == [0, 0, 0]
        assert PASSWORD not in writer.log()
    there = broker.messages(proto)
    by_key = collections.defaultdict(set)
    for message, request in zip(there, decoded(there)):
        by_key[message.key].add(message.partition)
        assert len({r.resource.SerializeToString() for r in request.resource_profiles}) == 1
    assert samples_in(decoded(there)) == expected and len(by_key) > 4
    assert all(len(partitions) == 1 for partitions in by_key.values())
    assert {m.partition for m in there} == {0, 1, 2, 3}
    assert all(m.value.startswith(b'{"resourceProfiles"') for m in broker.messages(json_topic))
    assert broker.messages("otlp_metrics")
    end = broker.ends(proto)
    assert broker.committed(f"{proto}-group", proto) == {p: n for p, n in end.items() if n > 0}


def member(broker, topic, name, folder):
    more = (f"metrics: {{ instance_id: {name}, flush_interval: 1s, exporters: [prometheus, file/m] }}\n"
            f"exporters: {{ file/m: {{ path: {folder}/{name}.json }} }}\n")
    return Gateway(config=reading(broker, topic, more, session_timeout="3s", heartbeat_interval="200ms"))


def test_three_share_a_topic_one_is_killed_and_one_joins(broker, produce, of_small, tmp_path):
    """No count is lost, and none is there twice but for a window that had left when the gateway was killed and whose offsets
    had not: that is what is promised. What no gateway can take is passed over, and named."""
    topic, sent = broker.create(next(TOPICS), 6), 0

    def send(n):
        nonlocal sent
        sent += n
        produce(topic, [SMALL] * n, 6)

    def partitions(*gateways):
        return [g.total("profgate_kafka_partitions") for g in gateways]

    def is_committed():
        return broker.committed(f"{topic}-group", topic) == broker.ends(topic)

    send(60)
    produce(topic, [b"\xff is no request", b""], 6)
    with running(*(member(broker, topic, name, tmp_path) for name in ("a", "b", "c"))) as (a, b, c):
        wait_for(lambda: partitions(a, b, c) == [2, 2, 2], "partitions to be shared")
        send(60)
        wait_for(is_committed, "the group to be at rest")
        before = a.total("profgate_kafka_messages_total", outcome="ok")
        send(60)
        wait_for(lambda: a.total("profgate_kafka_messages_total", outcome="ok") > before, "the one that is killed to be at it")
        os.kill(a.pid, signal.SIGKILL)
        a.wait()
        with running(member(broker, topic, "d", tmp_path)) as d:
            send(60)
            wait_for(lambda: partitions(b, c, d) == [2, 2, 2], "the partitions of the killed one to be shared")
            send(60)
            wait_for(is_committed, "all to be committed")
            lost = sum(g.total("profgate_kafka_partitions_lost_total") for g in (b, c, d))
            passed_over = sum(g.total("profgate_kafka_messages_total", outcome="malformed") for g in (b, c, d))
            logs = [g.stop() for g in (b, c, d)] and "".join(g.log() for g in (a, b, c, d))
    flushed = json_lines(tmp_path / "a.json")
    last_window = points(flushed[-1:])
    total = sum((points(json_lines(tmp_path / f"{name}.json")) for name in "abcd"), collections.Counter())
    expected = times(of_small, sent)
    print(f"sent={sent} passed_over={passed_over} lost={lost} total={sum(total.values())} expected={sum(expected.values())}")
    assert all(total[name] >= n for name, n in expected.items())
    if lost == 0:  # else this machine stood still for three seconds
        assert all(total[name] <= n + last_window[name] for name, n in expected.items())
    assert "kafka message passed over topic=" in logs and "outcome=malformed" in logs


def test_a_broker_goes_away_and_returns(broker, of_small, tmp_path):
    """What was acknowledged meanwhile arrives: also what a gateway had when it was killed, from its disk."""
    topic = broker.create(next(TOPICS))
    writing = f"""
profiles: {{ keep: 100%, exporters: [kafka/raw] }}
exporters:
  kafka/raw: {{ brokers: ['127.0.0.1:{broker.port}'], profiles: {{ topic: {topic} }}, sending_queue: {{ storage: {tmp_path}/storage }},
               partition_profiles_by_resource_attributes: false }}
"""
    one = samples_in(decoded([SMALL]))
    with running(Gateway(config=writing), Gateway(config=reading(broker, topic, session_timeout="3s", heartbeat_interval="200ms"))) as (writer, reader):
        assert writer.post(SMALL)[0] == 200
        wait_for(lambda: reader.total("profgate_samples_total") == one, "the first to be read")
        broker.stop()
        for _ in range(5):
            assert writer.post(SMALL)[0] == 200
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        with running(Gateway(config=writing)) as again:
            for _ in range(5):
                assert again.post(SMALL)[0] == 200
            broker.start()
            wait_for(lambda: reader.total("profgate_samples_total") >= 11 * one, "what was acknowledged to be read")
            wait_for(lambda: again.total("profgate_export_queue_bytes") == 0, "all to be settled")
            assert again.total("profgate_forward_dropped_samples_total") == 0
            assert (again.stop(), reader.stop()) == (0, 0)
    # The first may have been delivered without its record's end on the disk: it is there once more then, and nothing else is.
    assert len(broker.messages(topic)) in (11, 12)


class Sink(base.Sink):
    """Takes nothing until it is told to."""

    def __init__(self):
        super().__init__()
        self.takes, self.taken, self.lock = threading.Event(), 0, threading.Lock()

    def take(self, path, headers, body):
        if not self.takes.is_set():
            return 503, b""
        with self.lock:
            self.taken += samples_in(decoded([base.plain(headers, body)]))
        return 200, b""


def test_without_room_nothing_is_read_and_nothing_lost(broker, produce):
    """The destination of raw profiles is away, and its queue full: partitions are paused, and go on where they were."""
    topic, n = broker.create(next(TOPICS)), 60
    produce(topic, [SMALL] * n)
    one = samples_in(decoded([SMALL]))
    with Sink() as sink:
        more = (f"profiles: {{ keep: 100%, when_full: refuse, exporters: [otlp/sink] }}\nmetrics: {{ flush_interval: 1s }}\nexporters: {{ otlp/sink: "
                f"{{ endpoint: 'http://127.0.0.1:{sink.port}', protocol: http, sending_queue: {{ queue_size: 10 }}, "
                f"retry_on_failure: {{ initial_interval: 20ms, max_interval: 100ms, max_elapsed_time: 0s }} }} }}\n")
        with running(Gateway(config=reading(broker, topic, more))) as gateway:
            wait_for(lambda: gateway.total("profgate_kafka_paused") == 1, "the partitions to be paused")
            assert gateway.total("profgate_samples_total") == 10 * one  # what had room, and no more
            assert gateway.total("profgate_kafka_messages_put_back_total") > 0
            sink.takes.set()
            wait_for(lambda: sink.taken >= n * one, "all to arrive")
            wait_for(lambda: broker.committed(f"{topic}-group", topic) == broker.ends(topic), "all to be committed")
            assert gateway.total("profgate_samples_total") == sink.taken == n * one
            assert gateway.total("profgate_kafka_paused") == 0 and gateway.total("profgate_forward_dropped_samples_total") == 0
            assert gateway.stop() == 0


def few_bytes_zstd(data):
    """RFC 8878 §3.1.1: a frame with its size, of blocks that repeat a byte where data does."""
    out = b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", len(data))
    for at in range(0, len(data), 100000):
        block, is_last = data[at:at + 100000], at + 100000 >= len(data)
        is_one = block == block[:1] * len(block)
        out += struct.pack("<I", len(block) << 3 | is_one << 1 | is_last)[:3] + (block[:1] if is_one else block)
    return out


@pytest.fixture()
def bomb(broker, monkeypatch):
    """Sends that many messages of so many zeros to partition 0, as one batch in zstd."""
    import kafka.producer.kafka as producers
    import kafka.record.default_records as records
    monkeypatch.setattr(records, "zstd_encode", few_bytes_zstd)
    monkeypatch.setattr(records.codecs, "has_zstd", lambda: True)
    monkeypatch.setitem(producers.KafkaProducer._COMPRESSORS, "zstd", (lambda: True, records.DefaultRecordBatchBuilder.CODEC_ZSTD))

    def send(topic, n, size):
        producer = broker.kafka.KafkaProducer(bootstrap_servers=f"127.0.0.1:{broker.port}", compression_type="zstd", linger_ms=10000,
                                              batch_size=2 * n * size, max_request_size=2 * n * size)
        for _ in range(n):
            producer.send(topic, bytes(size), partition=0)
        producer.flush(timeout=PATIENCE)
        producer.close()

    return send


def test_a_batch_that_inflates_to_too_much_is_passed_over(broker, produce, bomb, of_small, tmp_path):
    """What stands before and behind it in its partition is counted, and so are the others; also where it is a partition's last."""
    topic, n = broker.create(next(TOPICS), 2), 4
    produce(topic, [SMALL] * n, 2)
    bomb(topic, 1, 3 << 20)
    produce(topic, [SMALL] * n, 2)
    bomb(topic, 7, 3 << 20)
    bomb(topic, 1, 3 << 20)
    produce(topic, [SMALL] * n, 2)
    bomb(topic, 3, 3 << 20)
    more = (f"limits: {{ request_bytes: 1MiB }}\nmetrics: {{ flush_interval: 1s, exporters: [prometheus, file/m] }}\n"
            f"exporters: {{ file/m: {{ path: {tmp_path}/m.json }} }}\n")
    with running(Gateway(config=reading(broker, topic, more))) as gateway:
        wait_for(lambda: broker.committed(f"{topic}-group", topic) == broker.ends(topic), "all to be committed")
        assert gateway.total("profgate_kafka_messages_total", outcome="unreadable") == 12
        assert gateway.total("profgate_kafka_messages_total") == 12 + 3 * n
        assert gateway.total("profgate_kafka_lag") == 0
        produce(topic, [SMALL] * n, 2)
        wait_for(lambda: gateway.total("profgate_kafka_messages_total", outcome="ok") == 4 * n, "the partition to go on")
        assert gateway.stop() == 0
        lines = [line for line in gateway.log().splitlines() if "kafka batch passed over" in line]
        assert f"topic={topic} partition=0 offset=2 messages=1 outcome=unreadable" in lines[0] and "limits.request_bytes" in lines[0]
    assert points(json_lines(tmp_path / "m.json")) == times(of_small, 4 * n)


def has_committed(broker, group, *topics):
    """Whether the group has committed all that is in them."""
    return all(broker.committed(group, topic) == broker.ends(topic) for topic in topics)


def test_what_is_gone_or_was_never_there_is_told_from_what_is(broker, produce):
    """Aborted transactions and messages of nothing; a topic that is made again with fewer partitions; what retention took."""
    odd, anew, old = broker.create(next(TOPICS), 1), broker.create(next(TOPICS), 2), broker.create(next(TOPICS), 1)
    group = f"{odd}-group"
    config = reading(broker, odd, "metrics: { flush_interval: 1s }\n").replace(f"[{odd}]", f"[{odd}, {anew}, {old}]")
    producer = broker.kafka.KafkaProducer(bootstrap_servers=f"127.0.0.1:{broker.port}", transactional_id=odd)
    producer.init_transactions()
    for ends in (producer.abort_transaction, producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for headers, body in ([("a", b"b" * 3000), ("", b"")], SMALL), ([], None), ([], b""):
            producer.send(odd, body, headers=headers, key=b"" if headers else b"k", partition=0)
        producer.flush()
        ends()
    producer.close()
    produce(anew, [SMALL] * 6, 2)
    produce(old, [SMALL] * 3, 1)
    with running(Gateway(config=config)) as gateway:
        wait_for(lambda: has_committed(broker, group, odd, anew, old), "all to be committed")
        assert gateway.total("profgate_kafka_messages_total", outcome="ok") == gateway.total("profgate_kafka_messages_total") == 3 + 6 + 3
        assert gateway.total("profgate_samples_total") == (1 + 6 + 3) * samples_in(decoded([SMALL]))
        with broker.admin() as admin:
            admin.delete_topics([anew])
        wait_for(lambda: "Unknown partition" in gateway.log(), "the topic to be gone")
        broker.create(anew, 1)
        produce(anew, [SMALL], 1)
        wait_for(lambda: broker.committed(group, anew) == {0: 1}, "the new one to be committed")
        assert gateway.total("profgate_kafka_messages_total", outcome="ok") == 13 and gateway.total("profgate_kafka_messages_gone_total") == 0
        assert f"kafka partition begins anew, and is read from there topic={anew} partition=0 offset=0" in gateway.log()
        assert gateway.stop() == 0
    produce(old, [SMALL] * 10, 1)
    with broker.admin() as admin:
        admin.delete_records({broker.kafka.TopicPartition(old, 0): 8})
    with running(Gateway(config=config)) as gateway:
        wait_for(lambda: has_committed(broker, group, old), "what is left to be committed")
        assert gateway.total("profgate_kafka_messages_total", outcome="ok") == gateway.total("profgate_kafka_messages_gone_total") == 5
        assert f"kafka messages gone before they were read topic={old} partition=0 offset=3 messages=5 fix=" in gateway.log()


def test_batches_are_larger_than_somebody_takes(broker, produce):
    """A broker refuses a whole batch, of which each message would be taken: it is sent one by one. A reader that may receive less than
    a batch says so and reads it when it may."""
    topic = broker.create(next(TOPICS), 1, max_message_bytes=len(SMALL) + 2000)
    writing = f"""
profiles: {{ keep: 100%, exporters: [kafka/raw] }}
exporters: {{ kafka/raw: {{ brokers: ['127.0.0.1:{broker.port}'], profiles: {{ topic: {topic} }}, partition_profiles_by_resource_attributes: false,
                           producer: {{ linger: 1s }} }} }}
"""
    with running(Gateway(config=writing)) as writer:
        for _ in range(6):
            assert writer.post(SMALL)[0] == 200
        wait_for(lambda: writer.total("profgate_export_requests_total", signal="profiles", outcome="sent") == 6, "all to be sent")
        assert f"topic {topic}: a batch is larger than its max.message.bytes" in writer.log()
        broker.configure(topic, max_message_bytes=2000)
        # A broker hears of its new limit a little later than who set it: the first may be taken yet.
        wait_for(lambda: writer.post(SMALL)[0] == 200 and writer.total("profgate_forward_dropped_samples_total") > 0,
                 "what is too large by itself to be lost")
        assert writer.total("profgate_forward_dropped_samples_total") % samples_in(decoded([SMALL])) == 0
        assert f"topic {topic}: Broker: Message size too large; fix: a larger max.message.bytes" in writer.log()
        taken = writer.total("profgate_export_requests_total", signal="profiles", outcome="sent")
        assert writer.stop() == 0
    assert len(broker.messages(topic)) == taken >= 6

    topic, n = broker.create(next(TOPICS), 1, max_message_bytes=16 << 20), 2 + (2 << 20) // len(SMALL)
    producer = broker.kafka.KafkaProducer(bootstrap_servers=f"127.0.0.1:{broker.port}", linger_ms=10000, batch_size=16 << 20, max_request_size=16 << 20)
    for _ in range(n):
        producer.send(topic, SMALL, partition=0)
    producer.flush(timeout=PATIENCE)
    producer.close()
    more = "limits: { request_bytes: 1MiB }\nmetrics: { flush_interval: 1s }\n"
    with running(Gateway(config=reading(broker, topic, more))) as gateway:
        wait_for(lambda: "kafka batch larger than may be received" in gateway.log(), "the batch to be told of")
        assert "fix=\"receivers.kafka.max_fetch_size" in gateway.log() and gateway.stop() == 0
    with running(Gateway(config=reading(broker, topic, more, max_fetch_size="8MiB"))) as gateway:
        wait_for(lambda: gateway.total("profgate_kafka_messages_total", outcome="ok") == n, "the batch to be read")


def test_a_right_that_is_lost_and_given_back(broker):
    """Nothing is lost meanwhile, and what is to be done is said."""
    topic = broker.create(next(TOPICS), 1)
    login = f"auth: {{ sasl: {{ mechanism: PLAIN, username: {NAME}, password: {PASSWORD} }} }}"
    more = f"""
profiles: {{ keep: 100%, exporters: [kafka/raw] }}
exporters: {{ kafka/raw: {{ brokers: ['127.0.0.1:{broker.sasl}'], profiles: {{ topic: {topic} }}, partition_profiles_by_resource_attributes: false, {login},
                           retry_on_failure: {{ initial_interval: 20ms, max_interval: 100ms }} }} }}
"""
    read_only = reading(broker, topic).replace(str(broker.port), str(broker.sasl)).replace("group_id", f"{login}, group_id")
    with running(Gateway(config=more), Gateway(config=read_only)) as (writer, reader):
        assert writer.post(SMALL)[0] == 200
        wait_for(lambda: reader.total("profgate_kafka_messages_total", outcome="ok") == 1, "the first to be read")
        with broker.denied(topic):
            assert writer.post(SMALL)[0] == 200
            for gateway, fix in (writer, f"topic {topic}: Broker: Topic authorization failed; fix: an ACL"), (reader, f"topic={topic} partition=0 offset=1 error="):
                wait_for(lambda: fix in gateway.log(), "the loss to be told of")
            assert 'fix="an ACL' in reader.log()
        wait_for(lambda: reader.total("profgate_kafka_messages_total", outcome="ok") == 2, "the second to be read")
        assert writer.total("profgate_forward_dropped_samples_total") == 0


def test_who_stops_while_the_others_agree_ends_well(broker):
    """As when all are restarted one after the other: the last one is just being made the leader."""
    for pause in (0.3, 0.8, 1.5):
        topic = broker.create(next(TOPICS))
        with running(Gateway(config=reading(broker, topic))) as first:
            wait_for(lambda: first.total("profgate_kafka_partitions") > 0, "the first one to read")
            with running(Gateway(config=reading(broker, topic))) as second:
                time.sleep(pause)  # it is a member, or about to be one
                assert first.stop() == 0, first.log()
                assert second.stop() == 0, second.log()


def test_a_broker_that_hangs_does_not_keep_who_stops(broker, produce):
    """What is to be committed is waited for as long as a stop may take, and the goodbye for a second."""
    topic = broker.create(next(TOPICS))
    config = reading(broker, topic, "metrics: { flush_interval: 60s }\n")
    with running(Gateway("--set", "service.shutdown_timeout=2s", config=config), Gateway(config=reading(broker, broker.create(next(TOPICS))))) as (reader, idle):
        produce(topic, [SMALL])
        wait_for(lambda: reader.total("profgate_samples_total") > 0 and idle.log().count("kafka partitions came") > 0, "both to be members")
        os.kill(broker.process.pid, signal.SIGSTOP)
        try:
            assert (reader.stop(), idle.stop()) == (0, 0)
        finally:
            os.kill(broker.process.pid, signal.SIGCONT)
        waited = [int(re.search(r"kafka group left without a goodbye.* waited_ms=(\d+)", g.log())[1]) for g in (reader, idle)]
        assert 1000 <= waited[0] <= 2000 and waited[1] == 1000


def test_a_broker_that_hangs_does_not_keep_who_writes(broker):
    """Requests are taken meanwhile; the stop ends with its time, and the log has all that the broker was not heard to take."""
    topic = broker.create(next(TOPICS))
    config = f"""
profiles: {{ keep: 100%, exporters: [kafka/raw] }}
exporters: {{ kafka/raw: {{ brokers: ['127.0.0.1:{broker.port}'], profiles: {{ topic: {topic} }}, partition_profiles_by_resource_attributes: false }} }}
"""
    with running(Gateway("--set", "service.shutdown_timeout=2s", config=config)) as writer:
        assert writer.post(SMALL)[0] == 200
        wait_for(lambda: writer.total("profgate_export_requests_total", outcome="sent") == 1, "one to be there")
        os.kill(broker.process.pid, signal.SIGSTOP)
        try:
            assert [writer.post(SMALL)[0] for _ in range(5)] == [200] * 5
            assert writer.stop() == 0
        finally:
            os.kill(broker.process.pid, signal.SIGCONT)
        left = f"left at the end destination=kafka/raw of=samples requests=5 items={5 * samples_in(decoded([SMALL]))} error="
        assert left in writer.log() and writer.log().endswith(" stopped\n"), writer.log()


def test_a_file_of_authorities_that_is_none_is_said():
    with running(Process([BUILD / "profgate", "serve", "--set", "receivers.kafka.brokers=localhost:1", "--set", "receivers.kafka.profiles.topics=a",
                          "--set", "receivers.kafka.group_id=g", "--set", "receivers.kafka.tls.ca_file=/dev/null/none"])) as process:
        assert process.wait() == 2 and "receivers.kafka: tls.ca_file /dev/null/none: Not a directory" in process.log(), process.log()


def test_a_wrong_password_is_said(broker):
    topic = next(TOPICS)
    config = f"""
profiles: {{ keep: 100%, exporters: [kafka/raw] }}
exporters: {{ kafka/raw: {{ brokers: ['127.0.0.1:{broker.sasl}'], profiles: {{ topic: {topic} }},
                           auth: {{ sasl: {{ mechanism: PLAIN, username: {NAME}, password: something-else }} }} }} }}
receivers: {{ kafka: {{ brokers: ['127.0.0.1:{broker.sasl}'], auth: {{ sasl: {{ mechanism: PLAIN, username: {NAME}, password: something-else }} }} }} }}
"""
    with running(Gateway("--set", "service.shutdown_timeout=1s", config=config)) as gateway:
        assert gateway.post(SMALL)[0] == 200
        wait_for(lambda: gateway.log().count("Authentication failed") >= 2, "the exporter and the receiver to say so")
        assert "destination=kafka/raw" in gateway.log() and "kafka trouble group=profgate" in gateway.log()
        assert gateway.stop() == 0
        assert "left at the end destination=kafka/raw" in gateway.log() and "something-else" not in gateway.log()


@pytest.mark.soak
def test_scram_with_a_broker_that_takes_that_of_this_librdkafka():
    """Kafka 4 refuses what librdkafka before 2.6.1 sends (proto/kafka/README.md)."""
    jars("3.9.1")
    old = Broker("3.9.1")
    try:
        topic = old.create(next(TOPICS))
        config = f"""
profiles: {{ keep: 100%, exporters: [kafka/raw] }}
exporters: {{ kafka/raw: {{ brokers: ['127.0.0.1:{old.sasl}'], profiles: {{ topic: {topic} }}, partition_attributes: [none],
                           auth: {{ sasl: {{ mechanism: SCRAM-SHA-512, username: {NAME}, password: {PASSWORD} }} }} }} }}
"""
        with running(Gateway(config=config)) as gateway:
            assert gateway.post(SMALL)[0] == 200
            wait_for(lambda: gateway.total("profgate_export_requests_total", signal="profiles", outcome="sent") == 1, "it to be sent")
        assert samples_in(decoded(old.messages(topic))) == samples_in(decoded([SMALL]))
    finally:
        old.close()
