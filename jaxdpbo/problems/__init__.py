"""The papers' objectives and the data they run on."""
