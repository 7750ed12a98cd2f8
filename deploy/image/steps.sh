#!/bin/sh
# Turns a Debian root with Python 3.13 into the image of trimtab. The Dockerfile and scripts/build-image run it.
# usage, as root inside that root: steps.sh SOURCE      (SOURCE: a writable copy of trimtab's source)
# WITH_SPARK=no leaves out Java and Spark, which only `trimtab pipeline` needs.
set -eu
source=$1
extras=serve,object-store
export DEBIAN_FRONTEND=noninteractive PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore

if [ "${WITH_SPARK:-yes}" = yes ]; then
    extras=$extras,spark
    apt-get -qq update
    apt-get -qq install -y --no-install-recommends default-jre-headless >/tmp/apt.log || { cat /tmp/apt.log; exit 1; }
    rm /tmp/apt.log
    rm -rf /var/lib/apt/lists/*
fi

# The versions that are tested; a hash belongs to an archive, and trimtab itself comes from a folder.
sed -e 's/ *\\$//' -e '/--hash=/d' "$source/requirements/runtime.txt" > /tmp/versions.txt
python3 -m venv /opt/trimtab
/opt/trimtab/bin/pip install --quiet --constraint /tmp/versions.txt "$source"/packages/* "$source[$extras]"
rm /tmp/versions.txt

# No process of trimtab needs root. Its folders are volumes, so that the rest may be read-only.
echo 'trimtab:x:65532:65532::/var/lib/trimtab:/usr/sbin/nologin' >> /etc/passwd
echo 'trimtab:x:65532:' >> /etc/group
install -d -o 65532 -g 65532 -m 0750 /var/lib/trimtab
install -d -m 0755 /etc/trimtab
/opt/trimtab/bin/trimtab --version
