launch_ranks train.py --steps "$STEPS" --style "$STYLE" ${ARGUMENTS:-}
