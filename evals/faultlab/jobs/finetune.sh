[ -d models ] || python tiny_model.py gpt2 models/base
if [ "$RANKS" -gt 1 ]; then
    launch_ranks finetune.py --steps "$STEPS" --style "$STYLE" ${ARGUMENTS:-}
else
    python finetune.py --steps "$STEPS" --style "$STYLE" ${ARGUMENTS:-}
fi
