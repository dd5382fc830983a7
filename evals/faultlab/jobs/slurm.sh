# A batch job of the Slurm that services/slurm.sh starts: the log is what slurm-ID.out would hold. BATCH_OPTIONS are
# sbatch's further options, STEP_OPTIONS srun's.
cat >train.sbatch <<END
#!/bin/bash
#SBATCH --job-name=pretrain --no-requeue
export MASTER_ADDR=127.0.0.1 MASTER_PORT=29500
echo "\$(date) job \$SLURM_JOB_ID on \$SLURM_JOB_NODELIST, \$SLURM_NTASKS tasks"
srun ${STEP_OPTIONS:-} bash -c 'RANK=\$SLURM_PROCID WORLD_SIZE=\$SLURM_NTASKS exec /mnt/venv/bin/python train.py \\
    --steps $STEPS --style $STYLE ${ARGUMENTS:-}'
END
# shellcheck disable=SC2086
sbatch --ntasks "$RANKS" --output /mnt/side/slurm.out ${BATCH_OPTIONS:-} train.sbatch >/dev/null 2>>/mnt/side/notes
# `sbatch --wait` would look only every ten seconds.
busy='JobState=(PENDING|CONFIGURING|RUNNING|COMPLETING)'
until scontrol show job 1 -o >/mnt/side/job && ! grep -Eq "$busy" /mnt/side/job; do sleep 0.2; done
sleep 0.2
# Debian's build for several slurmds on a machine says which one speaks; the usual one does not.
sed -E 's/slurmstepd-[a-z0-9-]+: /slurmstepd: /' /mnt/side/slurm.out
grep -q 'JobState=COMPLETED' /mnt/side/job
