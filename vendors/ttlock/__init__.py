"""TTLock: cloud adapter and simulator. Facts and their sources are in the modules and in README.md."""
