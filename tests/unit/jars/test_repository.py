"""Which repository is used: our own setting, else the mirror and the proxy that the machine has."""

import pytest

from trimtab.jars import maven_root, proxy_properties

MIRRORS = """<settings xmlns="{}"><mirrors>
<mirror><mirrorOf>external:http:*</mirrorOf><url>blocker</url><blocked>true</blocked></mirror>
<mirror><mirrorOf>*</mirrorOf><url>blocked too</url><blocked>true</blocked></mirror>
<mirror><mirrorOf>some-repository</mirrorOf><url>other</url></mirror>
<mirror><mirrorOf>central,another</mirrorOf><url> the mirror </url></mirror>
</mirrors></settings>"""


@pytest.mark.parametrize("namespace", ["", "urn:any-version-of-maven"])
def test_the_mirror_of_mavens_settings_is_used(tmp_path, namespace):
    """Behind a company's mirror, what Maven is configured for works for us as well."""
    file = tmp_path / "settings.xml"
    file.write_text(MIRRORS.format(namespace))
    assert maven_root({}, [tmp_path / "absent.xml", file]) == "the mirror"


def test_our_own_variable_wins_over_mavens_settings(tmp_path):
    """A user can point trimtab alone elsewhere."""
    file = tmp_path / "settings.xml"
    file.write_text(MIRRORS.format(""))
    assert maven_root({"TRIMTAB_MAVEN_ROOT": "ours"}, [file]) == "ours"


def test_broken_maven_settings_are_ignored(tmp_path):
    """A settings file that Maven itself could not read does not stop the sandbox."""
    file = tmp_path / "settings.xml"
    file.write_text("<settings><mirr")
    assert maven_root({}, [file]) is None


def test_the_proxy_of_the_environment_reaches_java():
    """Java does not read https_proxy, so people behind one would wait for nothing."""
    scheme = "http"
    flags = proxy_properties({"https_proxy": f"{scheme}://proxy.example:3128", "HTTP_PROXY": "other.example"})
    assert flags == [
        "-Dhttp.proxyHost=other.example",
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
    ]
