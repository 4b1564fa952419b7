"""What is believed about the objective; knows nothing of privacy."""
