"""Where jobs run: the contract of a runner, and the runners."""
