#!/bin/bash
# The one thing that is not a Python package: a browser for the console's tests.
# Installs Debian's Chromium if it is missing and this user may; else says what to do.
set -euo pipefail

if command -v chromium >/dev/null; then
    exit 0
fi
if [[ $EUID -ne 0 ]] || ! command -v apt-get >/dev/null; then
    echo "Chromium is missing; browser tests need it (Debian: apt-get install chromium)." >&2
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq -y --no-install-recommends chromium >/dev/null
