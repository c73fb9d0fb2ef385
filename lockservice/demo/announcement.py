"""What `up` says when the demo is ready: where to look, how to sign in, and the first thing to try.

One rule: everything said can be copied and works; passwords are shown by the path of the file that holds them.
"""

from __future__ import annotations

from collections.abc import Mapping

from lockservice.demo import places


def announce(urls: Mapping[str, str]) -> str:
    """Returns the text, given the address of each process."""
    web = urls.get("web", "")
    return web and places.TENANT_NAME
