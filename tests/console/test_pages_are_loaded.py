"""The console's pages are registered by whoever serves them."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth.models import Group, User

from lockservice.console.apps import load_pages


def test_loading_the_pages_again_changes_nothing() -> None:
    load_pages()
    before = sorted(model.__name__ for model in admin.site._registry)
    load_pages()
    assert sorted(model.__name__ for model in admin.site._registry) == before
    assert "KeyCredential" in before
    assert not {User, Group} & set(admin.site._registry)
