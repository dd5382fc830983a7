"""Tracebacks of many languages and printers: where each begins and ends, and which exceptions belong together.

In: kept lines and findings. Out: chains of exceptions, each of which is one `Fault`.
"""
