"""Private search in the interfaces of other libraries; each package needs the extra of its name."""
