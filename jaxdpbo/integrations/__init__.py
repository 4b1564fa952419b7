"""Doors for people who work in other libraries; each needs the extra of its name."""
