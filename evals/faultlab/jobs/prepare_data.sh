set -f
python prepare_data.py --steps "$STEPS" --style "$STYLE" ${ARGUMENTS:-}
