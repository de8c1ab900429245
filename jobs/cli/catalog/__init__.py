"""The verbs that list what can be measured."""
