#!/usr/bin/env bash
# Runs one job in namespaces of its own: whatever it mounts, starts, listens on or breaks is gone when this ends.
#
# Called by sandbox.py under `unshare`, with WORK (a folder with run/ and side/), VENV, HOST and ADDRESS in the environment.
# The job's output goes to side/log, its exit status to side/status, what this script itself has to say to side/notes.
set -u
mount --make-rprivate /
mount -t tmpfs tmpfs /mnt
mkdir /mnt/run /mnt/side /mnt/venv
mount --bind "$WORK/run" /mnt/run
mount --bind "$WORK/side" /mnt/side
mount --bind "$VENV" /mnt/venv
printf '127.0.0.1 localhost\n%s %s\n' "$ADDRESS" "$HOST" >/mnt/hosts
mount --bind /mnt/hosts /etc/hosts
mount -t tmpfs -o size=1g tmpfs /tmp
mount -t tmpfs -o size="${SHM_SIZE:-512m}" tmpfs /dev/shm
mount -t tmpfs tmpfs /run
ip link set lo up
ip address add "$ADDRESS/32" dev lo
hostname "$HOST"
cd /mnt/run || exit 1
exec 2>>/mnt/side/notes
# shellcheck source=tools.sh
source /mnt/side/tools.sh
source /mnt/side/setup.sh >&2
(source /mnt/side/during.sh >&2) &
(source /mnt/side/launch.sh) >/mnt/side/log 2>&1
echo $? >/mnt/side/status
source /mnt/side/after.sh >>/mnt/side/log 2>&1
exit 0
