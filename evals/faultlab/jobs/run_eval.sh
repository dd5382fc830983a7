[ -d models ] || python tiny_model.py gpt2 models/base
python run_eval.py --steps "$STEPS" --style "$STYLE" ${ARGUMENTS:-}
