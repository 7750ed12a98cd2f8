"""Places of a lake as Spark knows them."""

from __future__ import annotations

from pathlib import Path

from trimtab.files.object_store import StorePath
from trimtab.observe.spark.session import spark_address, store_options


def test_addresses_are_those_of_hadoop() -> None:
    """Only S3 has another name there."""
    assert spark_address(Path("/data/lake")) == "/data/lake"
    assert spark_address(StorePath("s3://bucket", "a/b")) == "s3a://bucket/a/b"
    assert spark_address(StorePath("gs://bucket", "a")) == "gs://bucket/a"


def test_store_settings_of_the_environment_reach_spark() -> None:
    """The same variables that the collector uses, for this bucket alone; the rest is left to Hadoop."""
    environment = {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_REGION": "eu-west-1",
    }
    bucket = "spark.hadoop.fs.s3a.bucket.lakes"
    assert store_options(StorePath("s3://lakes", "one"), environment) == {
        f"{bucket}.access.key": "key",
        f"{bucket}.secret.key": "secret",
        f"{bucket}.endpoint": "http://127.0.0.1:9",
        f"{bucket}.endpoint.region": "eu-west-1",
        f"{bucket}.path.style.access": "true",
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    }
    assert list(store_options(StorePath("s3://lakes", ""), {})) == [
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version"
    ]
    assert store_options(Path("/data"), environment) == {}
