# What a scenario's shell parts may use. RANKS, CULPRIT, STEP and STEPS are in the environment.

# The job's processes, called as a person would.
python() { PYTHONDONTWRITEBYTECODE=1 /mnt/venv/bin/python "$@"; }
launch_ranks() {
    # shellcheck disable=SC2086
    python -m torch.distributed.run --nproc-per-node "$RANKS" --master-port 29500 ${TORCHRUN_OPTIONS:-} "$@"
}

# wait_step N: returns when the failing rank has made N steps; no longer than a minute.
wait_step() {
    local tries=0
    while [ "$(cat "/mnt/side/step.$CULPRIT" 2>/dev/null || echo -1)" -lt "$1" ] && [ $tries -lt 1200 ]; do
        sleep 0.05
        tries=$((tries + 1))
    done
}

# pid_of RANK: the process of a rank.
pid_of() { cat "/mnt/side/pid.$1"; }

# wait_port PORT: returns when something listens on loopback; no longer than half a minute.
wait_port() {
    local tries=0
    until (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null || [ $tries -gt 600 ]; do
        sleep 0.05
        tries=$((tries + 1))
    done
}

# serve PORT PLAN...: an HTTP service on loopback that answers as planned, see services/web.py.
serve() {
    python /mnt/side/services/web.py "$@" >&2 &
    wait_port "$1"
}

# serve_s3 PORT: an S3 service on loopback.
serve_s3() {
    python -m moto.server -H 127.0.0.1 -p "$1" >/mnt/side/s3.log 2>&1 &
    wait_port "$1"
}
