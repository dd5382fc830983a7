#!/bin/sh
# slurm.conf: EpilogSlurmctld=/etc/slurm/logdiag-epilog.sh
# The controller runs it as SlurmUser when a job ends, and the job stays COMPLETING until it returns: so the work goes on
# behind it. The controller's machine must see the jobs' logs. LOGDIAG_REQUEUE_LOG says what was done to which job.
PATH=${LOGDIAG_PATH:-/opt/logdiag/bin}:$PATH
export PATH
# The number of an array's last task is also that of the whole array.
job=${SLURM_ARRAY_TASK_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
setsid "$(dirname "$0")/logdiag-requeue.py" "${job:-$SLURM_JOB_ID}" </dev/null >>"${LOGDIAG_REQUEUE_LOG:-/var/log/slurm/logdiag.log}" 2>&1 &
exit 0
