if [ "$RANKS" -gt 1 ]; then
    # accelerate starts several processes only on devices: on CPUs its manual says torchrun.
    launch_ranks pretrain.py --steps "$STEPS" --style "$STYLE" ${ARGUMENTS:-}
else
    python -m accelerate.commands.launch --cpu --num_processes 1 --num_machines 1 --mixed_precision "${PRECISION:-no}" \
        --dynamo_backend no --main_process_port 29500 pretrain.py --steps "$STEPS" --style "$STYLE" ${ARGUMENTS:-}
fi
