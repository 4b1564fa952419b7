"""How tests compile where bits do not matter, as ``scripts/test`` sets it: in a third of the time.

Without its flag of jaxlib 0.10: other interpreters than the tests' own hold later releases, which end at the flag.
"""

UNOPTIMISED = {
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "XLA_FLAGS": "--xla_cpu_max_isa=AVX --xla_cpu_parallel_codegen_split_count=1",
}
