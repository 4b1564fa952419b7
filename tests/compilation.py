"""How tests compile where bits do not matter, as ``scripts/test`` sets it: in a third of the time."""

from importlib.metadata import version


def unoptimised(jaxlib: str) -> dict[str, str]:
    """The variables of a process with this release of jaxlib."""
    flags = "--xla_cpu_max_isa=AVX --xla_cpu_parallel_codegen_split_count=1"
    if jaxlib.startswith("0.10."):  # takes half of the time, and later releases end at a flag that they do not know
        flags = f"--xla_cpu_use_fusion_emitters=false {flags}"
    return {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "XLA_FLAGS": flags}


UNOPTIMISED = unoptimised(version("jaxlib"))  # of this process
