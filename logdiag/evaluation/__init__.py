"""How good the answers are: labelled cases in, measured shares with their uncertainty out.

cases       case files -> Case           every problem of every file at once
run         Case -> Result               in worker processes; a crash is a row
scoring     Case and Answer -> Row       what was right, in each respect
metrics     Rows -> shares, intervals, tables per reason
document    everything -> one dictionary, the schema `logdiag.evaluation/1`
table, page, compare                     read the document: a terminal, a browser, an older document
baselines   what is done without logdiag would have answered
"""
