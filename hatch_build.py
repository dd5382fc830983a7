"""Builds the wheel: the shipped rules go into it compiled, so that the first run is as fast as any."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledRules(BuildHookInterface[Any]):
    """Puts what `logdiag.rules.loading.compile_shipped` writes into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before the files are gathered; an editable install reads the rules' files themselves."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from logdiag.rules.loading import compile_shipped

        folder = tempfile.mkdtemp(prefix="logdiag-compiled-")
        compile_shipped(folder)
        for name in os.listdir(folder):
            build_data["force_include"][os.path.join(folder, name)] = f"logdiag/data/compiled/{name}"
