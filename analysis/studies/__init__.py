"""Studies of activation functions alone: the experiments behind the papers' figures."""
