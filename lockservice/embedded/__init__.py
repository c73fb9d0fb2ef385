"""PostgreSQL and Valkey that the project brings, starts and stops itself.

The one rule: nothing here knows Django, and nothing outside the project's own local directory is
changed. Production uses servers of its own and only shares the two SQL files.
"""
