"""Journals and stores of executions of both levels, for tests."""

from trimtab.act.bundles.acting import ACTING as BUNDLES
from trimtab.act.execution.codec import Codecs
from trimtab.act.replicas.acting import ACTING as REPLICAS

CODECS = Codecs({acting.level: acting.codec for acting in (REPLICAS, BUNDLES)}, unnamed=REPLICAS.level)
