"""Journals and stores of executions of both balancers, for tests."""

from trimtab.act.bundles.executor import EXECUTOR as BUNDLES
from trimtab.act.executor import StateCodecs
from trimtab.act.replicas.executor import EXECUTOR as REPLICAS

CODECS = StateCodecs(
    {acting.balancer: acting.codec for acting in (REPLICAS, BUNDLES)}, unnamed=REPLICAS.balancer
)
