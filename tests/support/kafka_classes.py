"""What Kafka's own classes answer, asked through a small program that is compiled against their jars."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

from support.pulsar_classes import FLAGS
from support.pulsar_classes import HERE as COMPILER
from trimtab.jars.fetch import fetch, read_lock
from trimtab.jars.java import find_java
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


def hashes_of(keys: Iterable[bytes], scratch: Path) -> list[tuple[int, int]]:
    """Hash and partition of 24 of each key, by the Java client."""
    java = find_java("Kafka's classes").program
    class_path = ":".join(map(str, fetch(f"kafka-{KAFKA_VERSION}", lock_of(KAFKA_VERSION))))
    (compiler,) = fetch("java-compiler", read_lock((COMPILER / "compiler.txt").read_text(encoding="utf-8")))
    source = scratch / "Murmur2.java"
    source.write_text(MURMUR2, encoding="utf-8")
    compile_ = [java, *FLAGS, "-jar", compiler, "-17", "-proc:none", "-nowarn", "-cp", class_path, source]
    subprocess.run(compile_, check=True, capture_output=True)
    told = subprocess.run(
        [java, *FLAGS, "-cp", f"{scratch}:{class_path}", "Murmur2"],
        input="".join(key.hex() + "\n" for key in keys),
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    pairs = (line.split() for line in told.splitlines())
    return [(int(hashed), int(partition)) for hashed, partition in pairs]
