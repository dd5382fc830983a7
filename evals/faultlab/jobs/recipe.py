"""What is special about a run: arguments, metrics, how rows become batches. Nothing in this one."""
