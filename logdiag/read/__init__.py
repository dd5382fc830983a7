"""Where logs come from and what a line is.

In: paths, open files, bytes, standard input. Out: a `Stream` for each log, which yields `Block`s of whole lines; and
`Line`, what one line's prefixes say (rank, node, time, level, message).
"""
