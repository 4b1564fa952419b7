"""Reproductions and measurements; run by the commands in scripts/."""
