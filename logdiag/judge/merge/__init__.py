"""Several sources become one case: each log is taken for what it is, and a machine's weather is left out."""
