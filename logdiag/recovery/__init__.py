"""What to do next: from a verdict to an action, by tables that people wrote."""
