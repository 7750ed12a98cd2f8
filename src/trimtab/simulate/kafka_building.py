"""Simulated clusters in the shapes that tests want."""

from trimtab.simulate.kafka_cluster import SimulatedKafka
from trimtab.simulate.kafka_state import SimulatedBroker, SimulatedLogDir


def cluster_of(
    brokers: int,
    racks: int = 3,
    brokers_per_host: int = 1,
    dirs: int = 2,
    dir_bytes: float = 10e9,
    copy_bytes_per_second: float = 50e6,
    quota_samples: int = 11,
) -> SimulatedKafka:
    """A cluster of like brokers 1..n, racks r1.. in turn, hosts h1.. with so many brokers each."""
    return SimulatedKafka(
        (
            SimulatedBroker(
                number,
                f"h{(number - 1) // brokers_per_host + 1}",
                f"r{(number - 1) % racks + 1}",
                {f"/d{d}": SimulatedLogDir(f"/d{d}", dir_bytes) for d in range(dirs)},
                copy_bytes_per_second,
            )
            for number in range(1, brokers + 1)
        ),
        quota_samples=quota_samples,
    )
