"""One trimtab acts on a cluster at a time."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from support.fake_port import FakeCluster
from trimtab.act.execution.port import Failure, PortError
from trimtab.act.lease import Lease, LeaseHolder, holder_text, locked, parse_holder, this_process
from trimtab.model.errors import ActError

LEASE_SECONDS = 60.0


def holder_of(text: str) -> LeaseHolder:
    """Who has made a claim that can be read."""
    found = parse_holder(text)
    assert found is not None
    return found


def lease(cluster: FakeCluster, folder: Path, token: str) -> Lease:
    """A lease of this process on that cluster."""
    return Lease(cluster, folder, cluster.cluster_id, LEASE_SECONDS, cluster.clock, cluster.sleep, token)


def elsewhere(cluster: FakeCluster, token: str, age: float) -> str:
    """The claim of a trimtab on another machine, renewed so many seconds ago."""
    holder = this_process(token, cluster.now - age)
    return holder_text(replace(holder, host="far-away", machine="far-away", user="ada", pid=4711))


def test_the_second_is_refused_by_name_and_since_when(tmp_path: Path) -> None:
    """Same machine, same state folder: the lock file names the first."""
    cluster = FakeCluster()
    first = lease(cluster, tmp_path, "a")
    first.acquire()
    with pytest.raises(
        ActError, match=rf"process {os.getpid()}, since .* UTC, .*\) is acting on cluster fake-cluster"
    ):
        lease(cluster, tmp_path, "b").acquire()
    first.release()
    second = lease(cluster, tmp_path, "b")
    assert second.acquire() == []
    second.release()
    assert cluster.claims == set()


def test_another_state_folder_does_not_help(tmp_path: Path) -> None:
    """The claim in the cluster is read with any state folder."""
    cluster = FakeCluster()
    first = lease(cluster, tmp_path / "one", "a")
    first.acquire()
    with pytest.raises(ActError, match="is acting on cluster fake-cluster"):
        lease(cluster, tmp_path / "two", "b").acquire()
    first.release()


def test_a_living_trimtab_on_another_machine_is_respected(tmp_path: Path) -> None:
    """It renewed a moment ago."""
    cluster = FakeCluster()
    cluster.claims = {elsewhere(cluster, "far", age=20)}
    with pytest.raises(ActError, match=r"ada@far-away \(process 4711, since .*\) is acting on cluster"):
        lease(cluster, tmp_path, "b").acquire()
    assert len(cluster.claims) == 1
    assert not locked(tmp_path, cluster.cluster_id)


def test_an_expired_holder_is_replaced_with_a_note(tmp_path: Path) -> None:
    """Not renewed for longer than the lease, and not while we watch either."""
    cluster = FakeCluster()
    cluster.claims = {elsewhere(cluster, "far", age=LEASE_SECONDS + 1)}
    mine = lease(cluster, tmp_path, "b")
    notes = mine.acquire()
    assert [note[:36] for note in notes] == ["took the lease over from ada@far-awa"]
    assert len(cluster.claims) == 1
    mine.release()
    assert cluster.claims == set()


def test_a_slow_clock_elsewhere_does_not_make_it_dead(tmp_path: Path) -> None:
    """Its clock is an hour behind, but it renews while we watch: it is alive."""
    cluster = FakeCluster()
    cluster.claims = {elsewhere(cluster, "far", age=3600)}
    slept = cluster.sleep

    def renewing(seconds: float) -> None:
        slept(seconds)
        cluster.claims = {elsewhere(cluster, "far", age=3600)}

    mine = Lease(cluster, tmp_path, "c", LEASE_SECONDS, cluster.clock, renewing, "b")
    with pytest.raises(ActError, match="ada@far-away"):
        mine.acquire()


def test_a_dead_process_of_this_machine_is_replaced_at_once(tmp_path: Path) -> None:
    """It renewed a moment ago, but there is no such process any more."""
    cluster = FakeCluster()
    holder = replace(this_process("dead", cluster.now), pid=2**22 + 1, process_started_at="1")
    cluster.claims = {holder_text(holder)}
    mine = lease(cluster, tmp_path, "b")
    assert len(mine.acquire()) == 1
    mine.release()


@pytest.mark.parametrize(("machine", "respected"), [("another container", True), ("", False)])
def test_a_container_of_the_same_name_is_another_machine(
    tmp_path: Path, machine: str, respected: bool
) -> None:
    """A process on another host cannot be checked; older versions record the host only."""
    cluster = FakeCluster()
    holder = replace(
        this_process("there", cluster.now), machine=machine, pid=2**22 + 1, process_started_at="1"
    )
    cluster.claims = {holder_text(holder)}
    mine = lease(cluster, tmp_path, "b")
    if respected:
        with pytest.raises(ActError, match="is acting on cluster"):
            mine.acquire()
    else:
        assert len(mine.acquire()) == 1
        mine.release()


def test_of_two_at_once_the_earlier_claim_holds(tmp_path: Path) -> None:
    """Another claim appears between our read and our write: the earlier of the two continues."""
    for age, ours_holds in ((5.0, False), (-5.0, True)):
        cluster = FakeCluster()
        slept = cluster.sleep

        def meanwhile(seconds: float, cluster=cluster, age=age, slept=slept) -> None:
            slept(seconds)
            cluster.claims.add(elsewhere(cluster, "far", age))

        mine = Lease(cluster, tmp_path / str(age), "c", LEASE_SECONDS, cluster.clock, meanwhile, "b")
        if ours_holds:
            mine.acquire()
            mine.release()
        else:
            with pytest.raises(ActError, match="ada@far-away"):
                mine.acquire()
        assert {holder_of(text).token for text in cluster.claims} == {"far"}


def test_it_is_renewed_in_time_and_losing_it_is_noticed(tmp_path: Path) -> None:
    """The claims are read before every change; a replaced holder stops."""
    cluster = FakeCluster()
    mine = lease(cluster, tmp_path, "b")
    mine.acquire()
    (before,) = cluster.claims
    cluster.sleep(LEASE_SECONDS / 2)
    mine.check()
    (after,) = cluster.claims
    assert holder_of(after).renewed_at > holder_of(before).renewed_at
    cluster.claims = {elsewhere(cluster, "far", age=0)}
    cluster.sleep(2)
    with pytest.raises(ActError, match="has taken over cluster fake-cluster: this trimtab steps back"):
        mine.check()
    mine.release()
    assert len(cluster.claims) == 1


def test_without_the_right_to_write_settings_the_lock_file_remains(tmp_path: Path) -> None:
    """Reported: only trimtabs with this state folder are excluded."""

    class Forbidden(FakeCluster):
        def write_claims(self, added: object, removed: object) -> None:
            raise PortError(Failure("ClusterAuthorizationFailed", "not you"))

    cluster = Forbidden()
    mine = lease(cluster, tmp_path, "b")
    (note,) = mine.acquire()
    assert note.startswith("no lease in the cluster (ClusterAuthorizationFailed: not you)")
    assert locked(tmp_path, cluster.cluster_id)
    mine.check()
    mine.release()
    assert not locked(tmp_path, cluster.cluster_id)


def test_a_query_names_live_holders_and_lists_dead_ones(tmp_path: Path) -> None:
    """From the same state folder and from another; the execution is notified at the next check. No trace is
    left.
    """
    cluster = FakeCluster()
    first = lease(cluster, tmp_path / "one", "a")
    first.acquire()
    first.set_execution(7)
    first.check()
    assert holder_of(next(iter(cluster.claims))).execution is None  # a broker may not have heard of it yet
    cluster.sleep(2)
    first.check()
    for folder in (tmp_path / "one", tmp_path / "two"):
        with pytest.raises(ActError) as refused:
            lease(cluster, folder, "b").check_claims()
        told = str(refused.value)
        assert f"process {os.getpid()}, since " in told
        assert f", execution 7, TRIMTAB_STATE={tmp_path / 'one'}) is acting on cluster fake-cluster" in told
        assert "`trimtab execution stop 7`" in told
        assert "`trimtab execution resume 7`" in told
    first.release()
    assert lease(cluster, tmp_path / "two", "b").check_claims() == []
    cluster.claims = {elsewhere(cluster, "far", age=LEASE_SECONDS + 1)}
    (dead,) = lease(cluster, tmp_path / "two", "b").check_claims()
    assert (dead.user, dead.host) == ("ada", "far-away")
    assert len(cluster.claims) == 1
    assert not (tmp_path / "two").exists()


def test_claims_of_an_older_trimtab_are_understood(tmp_path: Path) -> None:
    """They contain neither the execution nor the state folder."""
    cluster = FakeCluster()
    text = elsewhere(cluster, "far", age=0).replace("&folder=", "")
    assert "folder" not in text
    cluster.claims = {text}
    with pytest.raises(
        ActError, match=r"UTC\) is acting on cluster .*`trimtab execution stop` where it runs"
    ):
        lease(cluster, tmp_path, "b").check_claims()
