"""How tests compile where bits do not matter, as ``scripts/test`` sets it: in a third of the time."""

UNOPTIMISED = {
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "XLA_FLAGS": "--xla_cpu_use_fusion_emitters=false --xla_cpu_max_isa=AVX --xla_cpu_parallel_codegen_split_count=1",
}
