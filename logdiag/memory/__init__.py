"""What was learnt once is known from then on: past incidents, found again by what their root line says."""
