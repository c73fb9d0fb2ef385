"""Benchmarks as ratios to a raw baseline measured in the same run; never part of the test suite."""
