"""What DPareto measures: models, differentially private optimisers, and the oracles of privacy and utility."""
