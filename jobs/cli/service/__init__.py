"""The verbs of the service: ``survey serve``, and ``survey token`` for who may use it."""
