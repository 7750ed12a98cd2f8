"""The tests that are run again once when they fail, each with the known cause; no other test is."""

from typing import Final

FLAKY: Final = {
    "tests/integration/test_keys_leaders.py::test_order_survives_a_leader_failure_and_transactions": (
        "a transaction is taken back only if the leader dies between its first record and its end; in two of "
        "four runs no transaction was open at that moment"
    ),
    "tests/integration/test_demo.py::test_six_brokers_are_balanced_and_measured": (
        "other programs on the machine change the CPU of single brokers while their load is measured"
    ),
    "tests/integration/test_demo_bundles.py::test_three_pulsar_brokers_are_balanced_and_measured": (
        "other programs on the machine change the CPU of single brokers while their load is measured"
    ),
}
"""By node id, without parameters. A test that needed its second run in two of the last ten runs is fixed or
taken out; whoever adds one names the cause that was found, not a guess."""


def cause_of(nodeid: str) -> str | None:
    """Why a test may fail without a fault of ours; None for a test that may not."""
    return FLAKY.get(nodeid.partition("[")[0])
