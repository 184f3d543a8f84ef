"""What the operator costs: 500 services with 2,000 engines on one core."""
