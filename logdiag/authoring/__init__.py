"""New rules and filters: proposed from incidents or by a model, and the gate that each passes before it is written."""
