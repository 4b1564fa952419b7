"""What may leave the house; knows nothing of Gaussian processes."""
