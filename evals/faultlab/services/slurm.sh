# A real Slurm on this machine: munged, slurmctld, and a slurmd for each name in NODES (default: the host's own name).
# `serve_slurm [LINE...]` starts it; the lines are further ones of slurm.conf.
serve_slurm() {
    local nodes=${NODES:-$HOST} port=6820 tries=0 node
    export SLURM_CONF=/run/slurm/slurm.conf
    mkdir -p /run/slurm/state /run/munge
    chmod 755 /run/munge
    (umask 077 && head -c 1024 /dev/urandom >/run/munge/key)
    cat >"$SLURM_CONF" <<END
ClusterName=cluster
SlurmctldHost=$HOST
SlurmUser=root
AuthType=auth/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=sched_min_interval=0,bf_interval=1
SlurmdParameters=config_overrides
StateSaveLocation=/run/slurm/state
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmctldLogFile=/mnt/side/slurmctld.log
SlurmdSpoolDir=/run/slurm/%n
SlurmdPidFile=/run/slurm/%n.pid
SlurmdLogFile=/mnt/side/slurmd-%n.log
ReturnToService=2
KillWait=2
InactiveLimit=0
END
    printf '%s\n' "$@" >>"$SLURM_CONF"
    for node in $nodes; do
        echo "NodeName=$node NodeHostname=$HOST NodeAddr=$ADDRESS Port=$((port++)) CPUs=16 RealMemory=16000"
    done >>"$SLURM_CONF"
    echo "PartitionName=gpu Nodes=${nodes// /,} Default=YES MaxTime=INFINITE State=UP" >>"$SLURM_CONF"
    munged --force --key-file /run/munge/key --pid-file /run/munge/pid --log-file /run/munge/log \
        --seed-file /run/munge/seed
    slurmctld -i
    for node in $nodes; do slurmd -N "$node"; done
    until sinfo -h -t idle -o %D 2>/dev/null | grep -qx "$(wc -w <<<"$nodes")" || [ $tries -gt 300 ]; do
        sleep 0.05
        tries=$((tries + 1))
    done
}
