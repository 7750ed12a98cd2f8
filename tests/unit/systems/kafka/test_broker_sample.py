"""What is made of one broker's answers, whole, partial and refused."""

import datetime

from support.fake_broker import FakeAsker, committed, groups, log_dirs, offsets
from trimtab.systems.kafka.samples import KafkaBrokerSample, sample_broker

NOON = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)
CLUSTER_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED = 31, 30
NOT_LEADER, STORAGE_ERROR = 6, 56

SOUND = {
    "DescribeLogDirsRequest": log_dirs(("/d0", 0, {"t": {0: 100, 1: 200}}), ("/cordoned", 0, {"u": {0: 7}})),
    "ListOffsetsRequest": offsets(),
    "ListGroupsRequest": groups(["g"]),
    "OffsetFetchRequest": committed({"g": {0: 30, 1: -1}}),
}


def ask(asker: FakeAsker, read_groups: bool = True) -> KafkaBrokerSample:
    """Ask broker 1, which leads t-0 and t-1."""
    return sample_broker(asker, 1, {"t": [0, 1]}, read_groups, 5.0, lambda: NOON)


def test_a_running_broker_yields_a_complete_sample() -> None:
    """Sizes, dirs, offsets and groups of one broker come in five requests."""
    asker = FakeAsker(SOUND)
    answer = ask(asker)
    assert answer.reachable
    assert answer.problems == ()
    assert [(d.path, d.state, d.total_bytes, d.used_bytes) for d in answer.log_dirs] == [
        ("/d0", "online", 1000, 300),
        ("/cordoned", "cordoned", 1000, 7),
    ]
    assert answer.replicas is not None
    assert [(r["topic"], r["partition"], r["size_bytes"]) for r in answer.replicas.rows()] == [
        ("t", 0, 100),
        ("t", 1, 200),
        ("u", 0, 7),
    ]
    assert answer.end_offsets == {("t", 0): 50, ("t", 1): 150}
    assert answer.start_offsets == {("t", 0): 0, ("t", 1): 1}
    assert answer.groups is not None
    assert [(r["group"], r["partition"], r["committed_offset"]) for r in answer.groups.rows()] == [
        ("g", 0, 30)
    ]
    assert len(asker.asked) == 5


def test_groups_are_left_alone_on_request() -> None:
    """A cluster with thousands of groups may be sampled without them."""
    asker = FakeAsker(SOUND)
    assert ask(asker, read_groups=False).groups is None
    assert "ListGroupsRequest" not in asker.asked


def test_an_unresponsive_broker_is_queried_once() -> None:
    """Time-outs do not add up: after the first silence no further question is put."""
    asker = FakeAsker({})
    answer = ask(asker)
    assert not answer.reachable
    assert answer.problems == ("broker 1 is unreachable: no answer in time",)
    assert asker.asked == ["DescribeLogDirsRequest"]


def test_a_rejected_request_is_no_empty_broker() -> None:
    """Without the right to describe the cluster there are no dirs; a new broker has dirs without replicas."""
    refused = ask(
        FakeAsker(SOUND | {"DescribeLogDirsRequest": log_dirs(error_code=CLUSTER_AUTHORIZATION_FAILED)})
    )
    old_refusal = ask(FakeAsker(SOUND | {"DescribeLogDirsRequest": log_dirs()}))
    empty = ask(FakeAsker(SOUND | {"DescribeLogDirsRequest": log_dirs(("/d0", 0, {}))}))
    for answer in (refused, old_refusal):
        assert answer.reachable
        assert answer.log_dirs == ()
        assert "grant DESCRIBE on the cluster" in answer.problems[0]
        assert answer.end_offsets, "what is allowed is read all the same"
    assert empty.problems == ()
    assert [d.path for d in empty.log_dirs] == ["/d0"]
    assert empty.replicas is not None
    assert len(empty.replicas) == 0


def test_a_broken_disk_is_an_offline_dir() -> None:
    """The other dir's replicas are still there."""
    dirs = log_dirs(("/d0", STORAGE_ERROR, {}), ("/d1", 0, {"t": {0: 5}}))
    answer = ask(FakeAsker(SOUND | {"DescribeLogDirsRequest": dirs}))
    assert [(d.path, d.state) for d in answer.log_dirs] == [("/d0", "offline"), ("/d1", "online")]
    assert answer.replicas is not None
    assert len(answer.replicas) == 1


def test_one_moved_leader_does_not_lose_the_others_offsets() -> None:
    """A partition with another leader by now is skipped and reported."""
    answer = ask(FakeAsker(SOUND | {"ListOffsetsRequest": offsets({1: NOT_LEADER})}))
    assert answer.end_offsets == {("t", 0): 50}
    assert set(answer.problems) == {"broker 1 gives no offset for 1 partition it should lead"}


def test_one_forbidden_group_does_not_lose_the_others() -> None:
    """Access to groups is granted one by one."""
    asker = FakeAsker(
        SOUND
        | {
            "ListGroupsRequest": groups(["g", "secret"]),
            "OffsetFetchRequest": committed(
                {"secret": {0: 9}, "g": {0: 30}}, {"secret": GROUP_AUTHORIZATION_FAILED}
            ),
        }
    )
    answer = ask(asker)
    assert answer.groups is not None
    assert [r["group"] for r in answer.groups.rows()] == ["g"]
    assert answer.problems == ("group secret of broker 1 gives no offsets: group authorization failed",)


def test_a_broker_that_dies_between_two_requests_keeps_its_first_answers() -> None:
    """Its sizes are stored although its offsets never arrived."""
    asker = FakeAsker({"DescribeLogDirsRequest": SOUND["DescribeLogDirsRequest"]})
    answer = ask(asker)
    assert answer.reachable
    assert answer.replicas is not None
    assert answer.end_offsets == {}
    assert answer.problems == ("broker 1 stopped answering: no answer in time",)
