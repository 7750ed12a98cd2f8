"""What Kafka's own classes answer, asked through a small program that is compiled against their jars."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

from support.pulsar_classes import FLAGS
from support.pulsar_classes import HERE as COMPILER
from trimtab.jars import fetch, find_java, read_lock
from trimtab.lab.sandbox.kafka.runtime import KAFKA_VERSION, lock_of

MURMUR2 = """
import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.utils.Utils;

public final class Murmur2 {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder told = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            byte[] key = new byte[line.length() / 2];
            for (int at = 0; at < key.length; at++)
                key[at] = (byte) Integer.parseInt(line.substring(2 * at, 2 * at + 2), 16);
            told.append(Utils.murmur2(key)).append(' ');
            told.append(BuiltInPartitioner.partitionForKey(key, 24)).append('\\n');
        }
        System.out.print(told);
    }
}
"""
"""Each line of standard input is a key in hexadecimal digits; its hash and its partition of 24 come out."""


PRODUCER = """
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class Producer {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                byte[] key = new byte[line.length() / 2];
                for (int at = 0; at < key.length; at++)
                    key[at] = (byte) Integer.parseInt(line.substring(2 * at, 2 * at + 2), 16);
                producer.send(new ProducerRecord<>(arguments[1], key, new byte[] {'j'}));
            }
        }
    }
}
"""
"""A producer with the Java client's defaults: sends a record for each key to a topic."""


def hashes_of(keys: Iterable[bytes], scratch: Path) -> list[tuple[int, int]]:
    """Hash and partition of 24 of each key, by the Java client."""
    told = _told_by("Murmur2", MURMUR2, keys, scratch)
    pairs = (line.split() for line in told.splitlines())
    return [(int(hashed), int(partition)) for hashed, partition in pairs]


def sent_by_java(keys: Iterable[bytes], bootstrap: str, topic: str, scratch: Path) -> None:
    """Have a Java producer send a record, with the value `j`, for each key."""
    _told_by("Producer", PRODUCER, keys, scratch, bootstrap, topic)


def _told_by(name: str, program: str, keys: Iterable[bytes], scratch: Path, *arguments: str) -> str:
    java = find_java("Kafka's classes").program
    class_path = ":".join(map(str, fetch(f"kafka-{KAFKA_VERSION}", lock_of(KAFKA_VERSION))))
    (compiler,) = fetch("java-compiler", read_lock((COMPILER / "compiler.txt").read_text(encoding="utf-8")))
    source = scratch / f"{name}.java"
    source.write_text(program, encoding="utf-8")
    compile_: list[str | Path] = [
        java,
        *FLAGS,
        "-jar",
        compiler,
        "-17",
        "-proc:none",
        "-nowarn",
        "-cp",
        class_path,
        source,
    ]
    subprocess.run(compile_, check=True, capture_output=True)
    return subprocess.run(
        [java, *FLAGS, "-cp", f"{scratch}:{class_path}", name, *arguments],
        input="".join(key.hex() + "\n" for key in keys),
        check=True,
        capture_output=True,
        text=True,
    ).stdout
