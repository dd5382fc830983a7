"""A language model where rules and memory are not sure. It describes and cites; it never chooses the action."""
