# torchrun on the two hosts of services/hosts.sh, each line with its host in front, as a launcher of many hosts shows it.
# Half of the ranks are on each. RENDEZVOUS are torchrun's options for how they meet.
source /mnt/side/services/hosts.sh
export GLOO_SOCKET_IFNAME=${IFNAME:-eth0}
host_ranks() {
    local number=$1 where
    where=${RENDEZVOUS:-"--master-addr node-1 --master-port 29500 --node-rank $((number - 1))"}
    # shellcheck disable=SC2086
    on_host "$number" /mnt/venv/bin/python -m torch.distributed.run --nnodes 2 --nproc-per-node $((RANKS / 2)) $where \
        train.py --steps "$STEPS" --style "$STYLE" ${ARGUMENTS:-} 2>&1 | sed -u "s/^/${LABEL:-node-$number: }/"
    return "${PIPESTATUS[0]}"
}
host_ranks 1 &
first=$!
host_ranks 2
second=$?
wait $first || exit
exit $second
