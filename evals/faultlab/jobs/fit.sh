python fit.py --devices "$RANKS" --steps "$STEPS" ${ARGUMENTS:-}
