"""Builds the wheel: the shipped rules go into it compiled, so that the first run is as fast as any."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledRules(BuildHookInterface[Any]):
    """Puts the cache of a first run into the wheel, where `logdiag.settings.cache` looks first."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before the files are gathered; an editable install reads the rules' files themselves."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from logdiag.read.forms import shipped_forms
        from logdiag.rules import RuleBook

        folder = os.environ["LOGDIAG_CACHE"] = tempfile.mkdtemp(prefix="logdiag-compiled-")
        RuleBook.load()
        shipped_forms()
        for name in os.listdir(folder):
            os.chmod(os.path.join(folder, name), 0o644)
            build_data["force_include"][os.path.join(folder, name)] = f"logdiag/data/compiled/{name}"
