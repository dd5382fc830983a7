"""How good the answers are: labelled cases in, measured shares with their uncertainty out.

cases       case files -> Case
run         Case -> Result, in worker processes; all of them -> the schema `logdiag.evaluation/1`
scoring     Case and Answer -> Row: what was right
metrics     Rows -> shares, intervals, tables
compare     two evaluations -> what changed
baselines   what people without logdiag would have answered
"""
