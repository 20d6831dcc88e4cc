"""A real Kafka broker (KRaft, one node) and kafka-python, from registries and once into the cache outside the tree. What cannot be
had skips the test, which says why."""
import contextlib
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile

import pytest
from peers import BUILD_SECONDS, CACHE, ROOT, once_at_a_time
from programs import PATIENCE, Process, free_port, wait_for

VERSION = "4.1.0"
PYTHON = "kafka-python==3.0.12"
NAME, PASSWORD = "gate", "not-for-eyes"
JAVA = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]


def _run(command, what, cwd="/"):
    if not shutil.which(command[0]) and not pathlib.Path(command[0]).exists():
        pytest.skip(f"{what}: no {command[0]} here")
    try:
        done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=BUILD_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as missing:
        pytest.skip(f"{what}: {missing}")
    if done.returncode != 0:
        pytest.skip(f"{what}: cannot be made from the registry here: {(done.stderr + done.stdout).strip()[-300:]}")


@once_at_a_time
def jars(version=VERSION):
    """The broker's, and a storage that was formatted with a user for SCRAM: a broker begins with a copy."""
    folder = CACHE.parent / f"kafka-{version}"
    if not (folder / "formatted").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _run(["mvn", "-q", "-B", "-f", ROOT / "tests/interop/kafka/pom.xml", "dependency:copy-dependencies", f"-Dkafka.version={version}",
              "-DincludeScope=runtime", f"-DoutputDirectory={folder}/lib"], "Kafka", folder)
        properties = folder / "format.properties"
        properties.write_text(f"process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:1\n"
                              f"listeners=CONTROLLER://127.0.0.1:1,PLAINTEXT://127.0.0.1:2\ncontroller.listener.names=CONTROLLER\n"
                              f"log.dirs={folder}/making\n")
        _run(["java", *JAVA, "-cp", f"{folder}/lib/*", "kafka.tools.StorageTool", "format", "-t", "A" * 22, "-c", properties,
              "-S", f"SCRAM-SHA-512=[name={NAME},password={PASSWORD}]"], "Kafka", folder)
        (folder / "making").rename(folder / "formatted")
    return folder


@once_at_a_time
def python():
    """kafka-python, which is another implementation of the protocol than ours."""
    folder = CACHE.parent / PYTHON
    if not (folder / "kafka").exists():
        _run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", folder, PYTHON], PYTHON)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    import kafka
    return kafka


class Broker:
    """`port` plain, `sasl` with a name and a password, `tls` with TLS and these, for `ca`; partitions are four if nothing else
    is said."""

    def __init__(self, version=VERSION):
        self.kafka = python()
        self.made = jars(version)
        self.folder = tempfile.TemporaryDirectory(prefix="pg-kafka-")
        self.port, self.sasl, self.tls, self.controller = (free_port() for _ in range(4))
        path = pathlib.Path(self.folder.name)
        shutil.copytree(self.made / "formatted", path / "logs")
        self.ca = path / "broker.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", path / "broker.key", "-out", self.ca], check=True,
                       capture_output=True, timeout=PATIENCE)
        (path / "store.pem").write_text((path / "broker.key").read_text() + self.ca.read_text())
        login = ('org.apache.kafka.common.security.%s required%s;'
                 % ("plain.PlainLoginModule", f' user_{NAME}="{PASSWORD}"'))
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        (path / "server.properties").write_text("\n".join([
            "process.roles=broker,controller", "node.id=1", f"controller.quorum.voters=1@127.0.0.1:{self.controller}",
            f"listeners=PLAINTEXT://127.0.0.1:{self.port},SASL_PLAINTEXT://127.0.0.1:{self.sasl},SASL_SSL://localhost:{self.tls},"
            f"CONTROLLER://127.0.0.1:{self.controller}",
            "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT," + ",".join(f"{p}:{p}" for p in ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL")),
            f"log.dirs={path}/logs", "num.partitions=4", "num.io.threads=2", "num.network.threads=1",
            "offsets.topic.replication.factor=1", "offsets.topic.num.partitions=1", "transaction.state.log.replication.factor=1",
            "transaction.state.log.num.partitions=1", "transaction.state.log.min.isr=1", "group.initial.rebalance.delay.ms=0",
            "group.min.session.timeout.ms=1000", "log.cleaner.enable=false", "ssl.keystore.type=PEM",
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users=User:ANONYMOUS",
            "allow.everyone.if.no.acl.found=true",
            f"ssl.keystore.location={path}/store.pem", *(
                f"listener.name.{name}.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512\nlistener.name.{name}.plain.sasl.jaas.config={login}\n"
                f"listener.name.{name}.scram-sha-512.sasl.jaas.config={scram}" for name in ("sasl_plaintext", "sasl_ssl"))]) + "\n")
        self.start()

    def start(self):
        path = pathlib.Path(self.folder.name)
        self.process = Process(["java", *JAVA, "-cp", f"{self.made}/lib/*", "kafka.Kafka", path / "server.properties"])
        wait_for(lambda: self.answers() or not self.process.alive(), "a broker that answers")
        assert self.process.alive(), self.process.log()

    def answers(self):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def stop(self):
        """kill -9: what was acknowledged is on its disk all the same (one machine)."""
        self.process.close()

    def close(self):
        self.process.close()
        self.folder.cleanup()

    @contextlib.contextmanager
    def admin(self):
        admin = self.kafka.KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{self.port}")
        try:
            yield admin
        finally:
            admin.close()

    def create(self, topic, partitions=4, **configs):
        """`configs`: of the topic, with _ for a point."""
        from kafka.admin import NewTopic
        with self.admin() as admin:
            admin.create_topics([NewTopic(topic, partitions, 1)])
        if configs:
            self.configure(topic, **configs)
        return topic

    def configure(self, topic, **configs):
        from kafka.admin import ConfigResource, ConfigResourceType
        with self.admin() as admin:
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs={k.replace("_", "."): str(v) for k, v in configs.items()})])

    @contextlib.contextmanager
    def denied(self, topic):
        """Who comes with a name may neither read nor write it meanwhile."""
        from kafka.admin import ACL, ACLFilter, ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourcePatternFilter, ResourceType
        with self.admin() as admin:
            admin.create_acls([ACL(principal=f"User:{NAME}", host="*", operation=operation, permission_type=ACLPermissionType.DENY,
                                   resource_pattern=ResourcePattern(ResourceType.TOPIC, topic)) for operation in (ACLOperation.READ, ACLOperation.WRITE)])
            yield
            admin.delete_acls([ACLFilter(principal=f"User:{NAME}", host="*", operation=ACLOperation.ANY, permission_type=ACLPermissionType.ANY,
                                         resource_pattern=ResourcePatternFilter(ResourceType.TOPIC, topic, ACLResourcePatternType.ANY))])

    def ends(self, topic):
        """{partition: offset behind the last message}."""
        consumer = self.kafka.KafkaConsumer(bootstrap_servers=f"127.0.0.1:{self.port}")
        try:
            parts = [self.kafka.TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic) or ()]
            return {p.partition: offset for p, offset in consumer.end_offsets(parts).items()}
        finally:
            consumer.close()

    def messages(self, topic):
        """All that are there now."""
        consumer = self.kafka.KafkaConsumer(bootstrap_servers=f"127.0.0.1:{self.port}", auto_offset_reset="earliest", enable_auto_commit=False)
        try:
            parts = [self.kafka.TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic) or ()]
            consumer.assign(parts)
            ends, found = consumer.end_offsets(parts), []
            while parts and any(consumer.position(p) < ends[p] for p in parts):
                for batch in consumer.poll(timeout_ms=500).values():
                    found += batch
            return found
        finally:
            consumer.close()

    def committed(self, group, topic):
        """{partition: offset} of a group."""
        admin = self.kafka.KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{self.port}")
        try:
            found = admin.list_group_offsets([group])[group]
            return {p.partition: o.offset for p, o in found.items() if p.topic == topic and o.offset >= 0}
        except (self.kafka.errors.CoordinatorNotAvailableError, self.kafka.errors.CoordinatorLoadInProgressError):
            return {}  # nobody was in the group yet
        finally:
            admin.close()
