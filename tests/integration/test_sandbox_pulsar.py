"""The Pulsar sandbox: real brokers that start, die, come back, and leave nothing behind."""

import json
import time
import urllib.error
import urllib.request

import pytest

from trimtab.model.errors import SandboxError

pytestmark = [pytest.mark.pulsar, pytest.mark.timeout(300)]


def _get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.loads(answer.read())


def _wait_until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen within {seconds} s"
        time.sleep(0.1)


def test_brokers_are_known_by_the_names_that_the_sandbox_gives_them(three_pulsar_brokers):
    """Pulsar itself lists the declared brokers, and each tells its own load."""
    for url in three_pulsar_brokers.web_urls.values():
        assert sorted(_get(f"{url}/admin/v2/brokers")) == sorted(three_pulsar_brokers.brokers)
        report = _get(f"{url}/admin/v2/broker-stats/load-report")
        assert report["webServiceUrl"] == url


def test_a_killed_broker_leaves_and_comes_back(three_pulsar_brokers):
    """Pulsar forgets a broker when its session has ended, and takes it in again on its old ports."""
    first, second, _ = three_pulsar_brokers.brokers
    url = three_pulsar_brokers.web_urls[second]
    three_pulsar_brokers.kill(first)
    with pytest.raises(SandboxError, match="broker 127.0.0.1:7 is not declared"):
        three_pulsar_brokers.start_broker("127.0.0.1:7")
    _wait_until(lambda: first not in _get(f"{url}/admin/v2/brokers"))
    three_pulsar_brokers.start_broker(first)
    with pytest.raises(SandboxError, match=f"broker {first} runs already"):
        three_pulsar_brokers.start_broker(first)
    three_pulsar_brokers.wait_until_serving()
    assert first in _get(f"{url}/admin/v2/brokers")
