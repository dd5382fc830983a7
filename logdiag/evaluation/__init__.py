"""How good the answers are: labelled cases in, measured shares with their uncertainty out.

cases       case files -> Case
run         Case -> Result, in worker processes
scoring     Case and Answer -> Row: what was right
metrics     Rows -> shares, intervals, tables
document    the schema `logdiag.evaluation/1`, which table, page and compare read
baselines   what people without logdiag would have answered
"""
