"""What a cluster tells of a job: its logs, its end and its machines, gathered as sources for one diagnosis."""
