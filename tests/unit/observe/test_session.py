"""The options of a Spark session; no JVM is started here."""

from __future__ import annotations

from trimtab.observe.session import SessionSettings, session_options


def test_local_spark_listens_on_loopback_only_and_has_no_web_page() -> None:
    """A laptop in a café must not offer a Spark page to the room."""
    options = session_options(SessionSettings())
    assert options["spark.driver.bindAddress"] == "127.0.0.1"
    assert options["spark.driver.host"] == "127.0.0.1"
    assert options["spark.ui.enabled"] == "false"
    assert options["spark.sql.session.timeZone"] == "UTC"


def test_short_sessions_have_room_for_compiled_code() -> None:
    """With the default code cache of the fast mode the JVM stops compiling after a minute of stream."""
    assert (
        "ReservedCodeCacheSize"
        in session_options(SessionSettings(short=True))["spark.driver.extraJavaOptions"]
    )
