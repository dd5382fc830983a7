"""How often each reason struck, and what it cost, in the six-month trace of "Characterization of Large Language Model
Development in the Datacenter" (NSDI '24, arXiv 2403.07648, table 3)."""

from __future__ import annotations

from logdiag.model import Reason

__all__ = ["COUNT", "GPU_TIME"]

# reason: failures, share of the GPU time of failed jobs in per cent; the paper gives no count for Others
_TABLE: dict[str, tuple[int | None, float]] = {
    "NVLinkError": (54, 30.25),
    "CUDAError": (21, 15.77),
    "NodeFailure": (16, 14.30),
    "ECCError": (12, 11.00),
    "NetworkError": (12, 4.53),
    "ConnectionError": (147, 3.44),
    "S3StorageError": (10, 2.12),
    "NCCLTimeoutError": (6, 0.50),
    "NCCLRemoteError": (3, 0.15),
    "DataloaderKilled": (6, 4.38),
    "AttributeError": (67, 3.90),
    "OutOfMemoryError": (14, 3.28),
    "RuntimeError": (65, 1.72),
    "AssertionError": (105, 1.24),
    "ValueError": (33, 0.16),
    "ZeroDivisionError": (5, 0.03),
    "ModelLoadingError": (104, 0.00),
    "DatasetLoadingError": (5, 0.00),
    "FileNotFoundError": (568, 2.83),
    "OSError": (266, 0.28),
    "TypeError": (620, 0.06),
    "NameError": (18, 0.02),
    "PermissionError": (7, 0.01),
    "ImportError": (111, 0.01),
    "KeyError": (260, 0.01),
    "SyntaxError": (10, 0.00),
    "ArgumentError": (3, 0.00),
    "CalledProcessError": (4, 0.00),
    "IndexError": (23, 0.00),
    "Others": (None, 0.08),
}

COUNT: dict[str, float] = {Reason(name).value: float(count or 0) for name, (count, _) in _TABLE.items()}
GPU_TIME: dict[str, float] = {Reason(name).value: share for name, (_, share) in _TABLE.items()}
