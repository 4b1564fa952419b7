"""The tests of the benchmarks, under the same rules as those of the package."""

pytest_plugins = ["suite"]
