"""The papers' objectives and the records they run on."""
