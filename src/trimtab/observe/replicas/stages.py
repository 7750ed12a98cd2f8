"""Transformations of the level `replicas`, from cleaned samples to the tables that snapshots are made of."""

from __future__ import annotations

from typing import Final

from trimtab.observe.level_pipeline import Stage, here
from trimtab.observe.replicas.attribute import attributed, cpu_model
from trimtab.observe.replicas.brokers import brokers, clients
from trimtab.observe.replicas.evenness import imbalance, quality
from trimtab.observe.replicas.rates import rates
from trimtab.observe.replicas.traffic import growth, traffic
from trimtab.observe.replicas.windows import windows

STAGES: Final = (
    Stage("rates", {"cleaned": lambda s: s.gap}, lambda t, s: rates(t["cleaned"], s)),
    Stage("growth", {"rates": here}, lambda t, s: growth(t["rates"])),
    Stage(
        "traffic",
        {"growth": lambda s: s.learning, "rates": here},
        lambda t, s: traffic(t["growth"], t["rates"], s),
    ),
    Stage("brokers", {"rates": here, "traffic": here}, lambda t, s: brokers(t["rates"], t["traffic"])),
    Stage("clients", {"rates": lambda s: s.collapse}, lambda t, s: clients(t["rates"], s)),
    Stage(
        "imbalance",
        {"brokers": here, "clients": here},
        lambda t, s: imbalance(t["brokers"], t["clients"], s),
    ),
    Stage(
        "windows",
        {"traffic": lambda s: s.window, "brokers": lambda s: s.window},
        lambda t, s: windows(t["traffic"], t["brokers"], s),
    ),
    Stage(
        "cpu_model", {"windows": lambda s: s.fit_windows * s.slide}, lambda t, s: cpu_model(t["windows"], s)
    ),
    Stage(
        "attributed",
        {"windows": here, "cpu_model": here},
        lambda t, s: attributed(t["windows"], t["cpu_model"]),
    ),
    Stage(
        "quality",
        {"cleaned": here, "rates": here, "traffic": here},
        lambda t, s: quality(t["cleaned"], t["rates"], t["traffic"]),
    ),
)
